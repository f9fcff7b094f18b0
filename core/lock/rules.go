package lock

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// The ids of the classes. [Classify] returns all but the last.
const (
	classRemoved      = "L001"
	classWording      = "L002"
	classTitle        = "L003"
	classOptional     = "L004"
	classAdded        = "L005"
	classLoosened     = "L006"
	classNarrowed     = "L007"
	classAnnotation   = "L008"
	classSuspicious   = "L009"
	classInstructions = "L010"
	classLaunch       = "L011"
	classOutput       = "L012"
	classCapability   = "L013"
	classContent      = "L014"
	classOther        = "L015"
	classPromise      = "L016"
	classPolicy       = "L017"
)

// Classify returns the ids of the classes of one change, sorted. old is nil for an added item, and
// new for a removed one. The result is empty if and only if the two are the same JSON value (RFC
// 8785) or the same bytes.
//
// The rules are:
//   - Instructions, launch, capabilities and contents have one class each, whatever changed. An item
//     of another section that was added or removed is just that.
//   - description is wording (L002). So are the texts of schemas, and of the arguments of prompts,
//     description and title. The name of a resource or template is wording, because its key is the URI.
//   - title and icons of an item, and annotations.title of a tool, are L003.
//   - inputSchema and the arguments of prompts: see [classes.schemas].
//   - outputSchema is always L012, and wording in addition if a text in it changed.
//   - A hint of a tool that promises less is L008, and one that promises more is L016. An absent
//     hint has its default by the specification, and so does one that is not a boolean.
//   - The files of a skill, with their digests and sizes, are content (L014). The name and the
//     description in its frontmatter are wording, and all else there is L015.
//   - size and annotations.lastModified of a resource say that its content changed: L014.
//   - All else is L015, also what differs without an effect, such as the order of required.
//   - L009 in addition to these: see [Drift.Reasons].
//
// A definition that a lock refuses (see [nodes.read]) is L015, and for a tool or prompt also L007.
func Classify(section Section, old, new json.RawMessage) []string {
	all := nodes{}
	a, b, same, readable := all.pair(old, new)
	if same {
		return nil
	}
	c := classes{}
	switch {
	case section == SectionInstructions:
		c.add(classInstructions)
	case section == SectionLaunch:
		c.add(classLaunch)
	case section == SectionCapabilities:
		c.add(classCapability)
	case section == SectionContents:
		c.add(classContent)
	case old == nil:
		c.add(classAdded)
	case new == nil:
		c.add(classRemoved)
	case !readable || !a.is(jsontext.KindBeginObject) || !b.is(jsontext.KindBeginObject):
		c.add(classOther)
		if section == SectionTools || section == SectionPrompts {
			c.add(classNarrowed)
		}
	default:
		c.item(section, a, b)
	}
	if section != SectionLaunch && len(reasons(section, a, b, old, new)) > 0 {
		c.add(classSuspicious)
	}
	if len(c) == 0 {
		c.add(classOther)
	}
	ids := make([]string, 0, len(c))
	for id := range c {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// pair reads both sides of a change. A node is nil if its side is absent or cannot be read.
func (all nodes) pair(old, new json.RawMessage) (a, b *node, same, readable bool) {
	var errA, errB error
	if old != nil {
		a, errA = all.read(old)
	}
	if new != nil {
		b, errB = all.read(new)
	}
	readable = errA == nil && errB == nil
	same = readable && a == b || (old == nil) == (new == nil) && bytes.Equal(old, new)
	return a, b, same, readable
}

// classes is a set of ids.
type classes map[string]bool

func (c classes) add(ids ...string) {
	for _, id := range ids {
		c[id] = true
	}
}

// item classifies a changed tool, prompt, skill, template or resource.
func (c classes) item(section Section, a, b *node) {
	for _, name := range union(a, b) {
		x, y := a.members[name], b.members[name]
		if x == y {
			continue
		}
		switch {
		case name == "description":
			c.add(classWording)
		case name == "title", name == "icons":
			c.add(classTitle)
		case name == "annotations":
			c.annotations(section, x, y)
		case name == "name" && (section == SectionResources || section == SectionTemplates):
			c.add(classWording)
		case name == "size" && section == SectionResources:
			c.add(classContent)
		case name == "inputSchema" && section == SectionTools:
			c.schemas(x, y)
		case name == "outputSchema" && section == SectionTools:
			c.add(classOutput)
			inside := classes{}
			if inside.schemas(x, y); inside[classWording] {
				c.add(classWording)
			}
		case name == "resources" && section == SectionSkills:
			c.add(classContent)
		case name == "frontmatter" && section == SectionSkills:
			c.frontmatter(x, y)
		case name == "arguments" && section == SectionPrompts:
			c.arguments(x, y)
		default:
			c.add(classOther)
		}
	}
}

// frontmatter classifies the members of the frontmatter of a skill. Either side may be nil.
func (c classes) frontmatter(a, b *node) {
	for _, name := range union(a, b) {
		switch x, y := a.member(name), b.member(name); {
		case x == y:
		case name == "name" || name == "description":
			c.add(classWording)
		default:
			c.add(classOther)
		}
	}
}

// annotations classifies the members of annotations. Either side may be nil.
func (c classes) annotations(section Section, a, b *node) {
	found := false
	for _, name := range union(a, b) {
		x, y := a.member(name), b.member(name)
		if x == y {
			continue
		}
		found = true
		cautious, hint := false, section == SectionTools // the default, which is always the lesser promise
		switch name {
		case "readOnlyHint", "idempotentHint":
		case "destructiveHint", "openWorldHint":
			cautious = true
		default:
			hint = false
		}
		switch {
		case hint:
			c.hint(x, y, cautious)
		case name == "title" && section == SectionTools:
			c.add(classTitle)
		case name == "lastModified" && section != SectionTools:
			c.add(classContent)
		default:
			c.add(classOther)
		}
	}
	if !found {
		c.add(classOther) // one is absent and the other empty, or one is no object
	}
}

// hint classifies a hint whose default, the lesser promise, is less.
func (c classes) hint(x, y *node, less bool) {
	value := func(n *node) bool {
		if n.is(jsontext.KindTrue) || n.is(jsontext.KindFalse) {
			return n.kind == jsontext.KindTrue
		}
		if n != nil {
			c.add(classOther) // clients may take it for true
		}
		return less
	}
	switch was, is := value(x), value(y); {
	case was == is:
		c.add(classOther)
	case is == less:
		c.add(classAnnotation)
	default:
		c.add(classPromise)
	}
}

// arguments classifies the arguments of a prompt. Either side may be nil. An argument that is gone
// is L015, because the specification does not say what a server does with one that it does not know.
func (c classes) arguments(a, b *node) {
	was, ok := argumentsByName(a)
	is, ok2 := argumentsByName(b)
	if !ok || !ok2 {
		c.add(classNarrowed, classOther)
		return
	}
	found := false
	for name, y := range is {
		x := was[name]
		found = found || x != y
		switch required := y.member("required").is(jsontext.KindTrue); {
		case x == y:
		case x == nil && required:
			c.add(classNarrowed)
		case x == nil:
			c.add(classOptional)
		default:
			c.argument(x, y, required)
		}
	}
	for name := range was {
		if is[name] == nil {
			found = true
			c.add(classOther)
		}
	}
	if !found {
		c.add(classOther) // the order, or an empty list that was absent
	}
}

func (c classes) argument(x, y *node, required bool) {
	for _, name := range union(x, y) {
		if x.members[name] == y.members[name] {
			continue
		}
		switch was := x.member("required").is(jsontext.KindTrue); {
		case name == "description", name == "title":
			c.add(classWording)
		case name != "required" || was == required:
			c.add(classOther)
		case required:
			c.add(classNarrowed)
		default:
			c.add(classLoosened)
		}
	}
}

// argumentsByName returns the arguments of a prompt by name, and false unless all of them are
// objects with names that differ.
func argumentsByName(list *node) (map[string]*node, bool) {
	if list == nil {
		return nil, true
	}
	byName := map[string]*node{}
	for _, arg := range list.items {
		name := arg.member("name")
		if !name.is(jsontext.KindString) || byName[name.text] != nil {
			return nil, false
		}
		byName[name.text] = arg
	}
	return byName, list.is(jsontext.KindBeginArray)
}
