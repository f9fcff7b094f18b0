package lock

import (
	"cmp"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// A direction says what it means for the whole schema that a part of it accepts more or less.
type direction int

const (
	straight  direction = iota // the same
	reversed                   // the opposite: the part is below "not"
	undecided                  // either: the part is a condition
	unused                     // nothing that can be seen: no reference that was followed leads to the part
)

// A pair is a part of the old schema and the part of the new one that takes its place.
type pair struct {
	old, new *node
	way      direction
}

// A document is one side of the comparison: references are resolved within it.
type document struct {
	root   *node
	merged map[*node][]*node // see [schemas.resolve]
}

// schemas compares two JSON Schemas (draft-07 to 2020-12) by their keywords. It does not prove
// anything about the values that they accept: what has the same meaning with other keywords is
// reported as both loosened and narrowed.
//
// It keeps a queue instead of recursion and compares no pair twice, so that schemas that refer to
// themselves end. A budget in proportion to the size of both schemas limits its time.
type schemas struct {
	all      nodes
	found    classes
	old, new document
	queue    []pair
	seen     map[pair]bool
	met      map[[2]*node]bool // pairs that were compared because references lead to both
	defs     [][2]*node        // values of $defs and definitions, old and new
	opaque   bool              // there is a reference that cannot be resolved
	budget   int
}

// maxChain limits how many references may lead to one schema.
const maxChain = 64

// compareSchemas adds the classes of the differences between two schemas to found. Either may be nil,
// which accepts everything.
func compareSchemas(all nodes, found classes, old, new *node) {
	newSchemas(all, found, old, new).classify()
}

func newSchemas(all nodes, found classes, old, new *node) *schemas {
	return &schemas{all: all, found: found,
		old:  document{root: old, merged: map[*node][]*node{}},
		new:  document{root: new, merged: map[*node][]*node{}},
		seen: map[pair]bool{}, met: map[[2]*node]bool{},
		budget: 10_000 + 16*len(all)}
}

func (s *schemas) classify() {
	s.sub(s.old.root, s.new.root, straight)
	s.run()
	if s.definitions(); s.budget < 0 {
		s.unknown()
	}
}

func (s *schemas) run() {
	for len(s.queue) > 0 && s.budget >= 0 {
		p := s.queue[0]
		s.queue = s.queue[1:]
		s.compare(p)
	}
}

// push queues a pair.
func (s *schemas) push(old, new *node, way direction) {
	p := pair{old, new, way}
	if old == new && (!old.refs || s.old.root == s.new.root) || s.seen[p] {
		return
	}
	s.seen[p] = true
	s.queue = append(s.queue, p)
}

// sub queues the values of a keyword whose default is the schema that accepts everything.
func (s *schemas) sub(old, new *node, way direction) {
	if old == nil && new == nil {
		return
	}
	everything := func(n *node) *node {
		if n == nil || n.is(jsontext.KindTrue) {
			return s.all.object(nil)
		}
		return n
	}
	x, y := everything(old), everything(new)
	if x == y && old != new {
		s.found.add(classOther) // the default was written or left out
	}
	s.push(x, y, way)
}

// accepts notes that a part of the schema accepts more, less, or both.
func (s *schemas) accepts(way direction, more, less bool) {
	if way == reversed {
		more, less = less, more
	}
	switch {
	case !more && !less:
	case way == undecided:
		s.unknown()
	case way == unused:
		s.found.add(classOther)
		if s.opaque {
			s.found.add(classNarrowed)
		}
	default:
		if more {
			s.found.add(classLoosened)
		}
		if less {
			s.found.add(classNarrowed)
		}
	}
}

// unknown notes a change whose effect cannot be decided.
func (s *schemas) unknown() { s.found.add(classNarrowed, classOther) }

// compare classifies the differences between two schemas and queues the pairs of their parts:
//   - L006: a name in required was dropped, though the property is still there; type, enum or const
//     allow more values; a bound, pattern, format, uniqueItems or multipleOf was dropped or relaxed;
//     anyOf or oneOf has another alternative; allOf, dependentRequired, dependentSchemas,
//     patternProperties or not lack one; additionalProperties or another subschema accepts more.
//   - L007: the opposite of these.
//     A schema that becomes one of several alternatives is loosened, too.
//   - L004: there is another property, and it is not required. If it is, L007.
//   - A property is gone: L007 if additionalProperties is false, so that callers who set it fail;
//     L007 and L015 if additionalProperties is a schema; otherwise L015, because they do not fail, but
//     what they set has no effect any more.
//   - L007 and L015: the effect cannot be decided: pattern, format, $dynamicRef or a condition (if)
//     differ, or a reference that cannot be resolved, or a keyword has a value of the wrong type.
//   - L002: a text, see [Classify].
//   - L015: another keyword differs (JSON Schema says that unknown ones have no effect), or $schema
//     or $id; or a definition that no reference was seen to use.
func (s *schemas) compare(p pair) {
	a, b := s.follow(p)
	if a == b && (!a.refs || s.old.root == s.new.root) {
		return
	}
	rejects := jsontext.KindFalse
	if a.is(rejects) || b.is(rejects) {
		s.accepts(p.way, a.is(rejects), b.is(rejects) && !a.is(rejects))
		return
	}
	if a.is(jsontext.KindTrue) {
		a = s.all.object(nil)
	}
	if b.is(jsontext.KindTrue) {
		b = s.all.object(nil)
	}
	if !a.is(jsontext.KindBeginObject) || !b.is(jsontext.KindBeginObject) {
		if a != b {
			s.unknown()
		}
		return
	}
	done := s.wrapped(a, b, p.way)
	for _, name := range s.union(a, b) {
		x, y := a.members[name], b.members[name]
		if done[name] {
			continue
		}
		if x == y && !x.refs && name != "$ref" && name != "$dynamicRef" && name != "$recursiveRef" {
			continue
		}
		s.keyword(name, a, b, p.way)
	}
}

// follow replaces schemas that are references by what they refer to.
func (s *schemas) follow(p pair) (a, b *node) {
	was, is := s.resolve(&s.old, p.old), s.resolve(&s.new, p.new)
	for i := 1; i < min(len(was), len(is)); i++ {
		s.met[[2]*node{was[i], is[i]}] = true
	}
	return was[0], is[0]
}

// resolve returns a schema without its $ref, followed by the schemas to which that led. Members
// beside $ref replace the keywords of the schema that it refers to. A reference stays where it is if it does
// not lead to a schema in the document, is part of a circle, or if members beside it restrict the
// values in another way.
func (s *schemas) resolve(doc *document, n *node) []*node {
	if !n.member("$ref").is(jsontext.KindString) {
		return []*node{n}
	}
	if known := doc.merged[n]; known != nil {
		return known
	}
	chain := []*node{n}
	for now := n; now.member("$ref") != nil && len(chain) <= maxChain; {
		target := locate(doc.root, now.member("$ref"))
		if target == nil || slices.Contains(chain[1:], target) {
			break
		}
		chain = append(chain, target)
		s.budget -= 1 + len(now.member("$ref").text)/16
		if target.is(jsontext.KindTrue) {
			target = s.all.object(nil)
		}
		if len(now.names) == 1 || target.is(jsontext.KindFalse) {
			now, chain[0] = target, target
			continue
		}
		if !target.is(jsontext.KindBeginObject) {
			break
		}
		for _, name := range slices.Concat(target.names, now.names) {
			s.budget -= 1 + len(name)/16
		}
		if s.budget < 0 {
			break
		}
		members := maps.Clone(target.members)
		clash := false
		for name, value := range now.members {
			switch was := members[name]; {
			case name == "$ref":
				continue
			case was == nil, was == value, isText(name):
			default:
				clash = true
			}
			members[name] = value
		}
		if clash {
			chain = chain[:len(chain)-1]
			break
		}
		now = s.all.object(members)
		chain[0] = now
	}
	doc.merged[n] = chain
	return chain
}

// locate returns the schema that a reference within a document leads to, or nil.
func locate(root, ref *node) *node {
	if !ref.is(jsontext.KindString) {
		return nil
	}
	pointer, ok := strings.CutPrefix(ref.text, "#")
	if !ok {
		return nil
	}
	pointer, err := url.PathUnescape(pointer)
	if err != nil || pointer != "" && pointer[0] != '/' {
		return nil
	}
	n := root
	if pointer == "" {
		return n
	}
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for token := range strings.SplitSeq(pointer[1:], "/") {
		switch {
		case n.is(jsontext.KindBeginObject):
			n = n.members[unescape.Replace(token)]
		case n.is(jsontext.KindBeginArray):
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(n.items) {
				return nil
			}
			n = n.items[i]
		default:
			return nil
		}
	}
	return n
}

// union is like [union], and costs.
func (s *schemas) union(a, b *node) []string {
	names := union(a, b)
	s.budget -= len(names) + 1
	return names
}

// pay subtracts what it costs to look at the items of arrays.
func (s *schemas) pay(lists ...*node) {
	for _, list := range lists {
		if list != nil {
			s.budget -= len(list.items)
		}
	}
}

// isText reports whether a keyword is a text for the reader of a schema, and restricts nothing.
func isText(name string) bool {
	switch name {
	case "description", "title", "default", "examples", "example", "$comment", "enumNames", "enumDescriptions", "markdownDescription":
		return true
	}
	return false
}

// keyword classifies the differences in one keyword of two schemas.
func (s *schemas) keyword(name string, a, b *node, way direction) {
	x, y := a.members[name], b.members[name]
	s.pay(x, y)
	switch name {
	case "properties":
		s.properties(a, b, way)
	case "patternProperties", "dependentSchemas", "dependentRequired", "dependencies":
		s.restrictions(x, y, way)
	case "additionalProperties", "unevaluatedProperties", "additionalItems", "unevaluatedItems", "propertyNames":
		s.sub(x, y, way)
	case "items", "prefixItems":
		s.elements(x, y, way)
	case "allOf":
		s.alternatives(x, y, way, false)
	case "anyOf", "oneOf":
		s.alternatives(x, y, way, true)
	case "contains":
		switch {
		case x == nil || y == nil:
			s.accepts(way, y == nil, x == nil)
		case a.members["maxContains"] != nil || b.members["maxContains"] != nil:
			s.sub(x, y, max(way, undecided))
		default:
			s.sub(x, y, way)
		}
	case "not":
		if x != nil && y != nil {
			s.sub(x, y, turn(way))
		} else {
			s.accepts(way, y == nil, x == nil)
		}
	case "then", "else":
		if x != nil && y != nil {
			s.sub(x, y, way)
		} else {
			s.unknown()
		}
	case "if":
		if x != nil && y != nil {
			s.sub(x, y, max(way, undecided))
		} else {
			s.unknown()
		}
	case "$defs", "definitions":
		s.defs = append(s.defs, [2]*node{x, y})
	case "$ref", "$dynamicRef", "$recursiveRef":
		was, is := locate(s.old.root, x), locate(s.new.root, y)
		switch {
		case name == "$ref" && was != nil && is != nil: // the members beside it are compared, too
			s.met[[2]*node{was, is}] = true
			if s.push(was, is, way); x != y {
				s.found.add(classOther)
			}
		case x != y:
			s.opaque = true
			s.unknown()
		default:
			s.opaque = true
		}
	default:
		if x != y {
			s.assertion(name, a, b, way)
		}
	}
}

// turn returns the direction below "not".
func turn(way direction) direction {
	switch way {
	case straight:
		return reversed
	case reversed:
		return straight
	}
	return way
}

// assertion classifies a keyword that has no subschemas and differs.
func (s *schemas) assertion(name string, a, b *node, way direction) {
	x, y := a.members[name], b.members[name]
	more, less, ok := false, false, true
	switch name {
	case "type":
		more, less, ok = compareTypes(x, y)
	case "enum", "const":
		more, less, ok = s.values(a, b)
	case "required":
		more, less, ok = s.required(a, b)
	case "minimum", "exclusiveMinimum":
		more, less, ok = compareBounds(a, b, "minimum", "exclusiveMinimum", 1)
	case "maximum", "exclusiveMaximum":
		more, less, ok = compareBounds(a, b, "maximum", "exclusiveMaximum", -1)
	case "minLength", "minItems", "minProperties":
		more, less, ok = compareNumbers(x, y, 0, 1)
	case "minContains":
		more, less, ok = compareNumbers(x, y, 1, 1)
	case "maxLength", "maxItems", "maxProperties", "maxContains":
		more, less, ok = compareNumbers(x, y, math.Inf(1), -1)
	case "multipleOf":
		more, less, ok = compareMultiples(x, y)
	case "uniqueItems":
		was, is := x.is(jsontext.KindTrue), y.is(jsontext.KindTrue)
		more, less = was && !is, is && !was
	case "pattern", "format":
		more, less, ok = y == nil, x == nil, x == nil || y == nil
	default:
		if isText(name) {
			s.found.add(classWording)
		} else {
			s.found.add(classOther)
		}
		return
	}
	switch {
	case !ok:
		s.unknown()
	case !more && !less:
		s.found.add(classOther) // the order, or a default that was written or left out
	default:
		s.accepts(way, more, less)
	}
}

// properties compares the properties of two objects by name.
func (s *schemas) properties(a, b *node, way direction) {
	was, is := a.members["properties"], b.members["properties"]
	if was != nil && !was.is(jsontext.KindBeginObject) || is != nil && !is.is(jsontext.KindBeginObject) {
		s.unknown()
		return
	}
	s.pay(b.members["required"])
	required := listed(b.members["required"])
	names := s.union(was, is)
	for _, name := range names {
		x, y := was.member(name), is.member(name)
		switch {
		case x != nil && y != nil:
			s.push(x, y, way)
		case way == reversed:
			s.unknown()
		case way != straight:
			s.accepts(way, true, true)
		case x == nil && required[name]:
			s.found.add(classNarrowed)
		case x == nil:
			s.found.add(classOptional)
		case b.members["additionalProperties"].is(jsontext.KindFalse):
			s.found.add(classNarrowed)
		case b.members["additionalProperties"] != nil && !b.members["additionalProperties"].is(jsontext.KindTrue):
			s.unknown()
		default:
			s.found.add(classOther)
		}
	}
	if len(names) == 0 {
		s.found.add(classOther) // an empty object was written or left out
	}
}

// required compares the required names. A name whose property is gone does not count, because that
// is classified with the properties.
func (s *schemas) required(a, b *node) (more, less, ok bool) {
	was, is := a.members["required"], b.members["required"]
	if was != nil && !was.is(jsontext.KindBeginArray) || is != nil && !is.is(jsontext.KindBeginArray) {
		return false, false, false
	}
	before, after := listed(was), listed(is)
	had, has := a.member("properties"), b.member("properties")
	for name := range before {
		if gone := had.member(name) != nil && has.member(name) == nil; !after[name] && !gone {
			more = true
		}
	}
	for name := range after {
		less = less || !before[name]
	}
	return more, less, true
}

// listed returns the strings in an array as a set.
func listed(list *node) map[string]bool {
	names := map[string]bool{}
	if list != nil {
		for _, item := range list.items {
			if item.is(jsontext.KindString) {
				names[item.text] = true
			}
		}
	}
	return names
}

// restrictions compares an object of which each member restricts the values further. Members are
// schemas or lists of required names.
func (s *schemas) restrictions(a, b *node, way direction) {
	if a != nil && !a.is(jsontext.KindBeginObject) || b != nil && !b.is(jsontext.KindBeginObject) {
		s.unknown()
		return
	}
	names := s.union(a, b)
	for _, name := range names {
		switch x, y := a.member(name), b.member(name); {
		case x == nil || y == nil:
			s.accepts(way, y == nil, x == nil)
		case x.is(jsontext.KindBeginArray) && y.is(jsontext.KindBeginArray):
			s.pay(x, y)
			before, after := listed(x), listed(y)
			more, less := lacks(before, after), lacks(after, before)
			if s.accepts(way, more, less); x != y && !more && !less {
				s.found.add(classOther)
			}
		default:
			s.push(x, y, way)
		}
	}
	if len(names) == 0 {
		s.found.add(classOther)
	}
}

// lacks reports whether a value of one set is missing in another.
func lacks[K comparable](of, in map[K]bool) bool {
	for v := range of {
		if !in[v] {
			return true
		}
	}
	return false
}

// elements compares the schemas of the elements of an array: one for all, or one for each position.
func (s *schemas) elements(x, y *node, way direction) {
	if !x.is(jsontext.KindBeginArray) && !y.is(jsontext.KindBeginArray) {
		s.sub(x, y, way)
		return
	}
	if x != nil && !x.is(jsontext.KindBeginArray) || y != nil && !y.is(jsontext.KindBeginArray) {
		s.unknown()
		return
	}
	var was, is []*node
	if x != nil {
		was = x.items
	}
	if y != nil {
		is = y.items
	}
	for i := range min(len(was), len(is)) {
		s.push(was[i], is[i], way)
	}
	if s.accepts(way, len(was) > len(is), len(is) > len(was)); len(was)+len(is) == 0 {
		s.found.add(classOther)
	}
}

// alternatives compares two lists of schemas without regard to their order. Equal schemas belong
// together, then those with the same type, const and $ref, then the others by their order if there
// are as many. What remains was added or removed; it makes the schema accept more or less if any
// element suffices (anyOf), and less or more if all are needed (allOf).
func (s *schemas) alternatives(x, y *node, way direction, any bool) {
	if x == nil || y == nil || !x.is(jsontext.KindBeginArray) || !y.is(jsontext.KindBeginArray) {
		if x != nil && y != nil {
			s.unknown()
		} else {
			s.accepts(way, y == nil, x == nil)
		}
		return
	}
	was, is := x.items, y.items
	alike := 0
	for _, key := range []func(*node) [4]*node{
		func(n *node) [4]*node { return [4]*node{n} },
		func(n *node) [4]*node { return [4]*node{nil, n.member("type"), n.member("const"), n.member("$ref")} },
	} {
		n := len(was)
		was, is = s.match(was, is, key, way)
		alike += n - len(was)
	}
	if len(was) == len(is) {
		if alike == len(x.items) && alike == len(y.items) && x != y {
			s.order(x, y)
		}
		for i := range was {
			s.push(was[i], is[i], way)
		}
		return
	}
	gained, lost := len(is) > 0, len(was) > 0
	if any {
		s.accepts(way, gained, lost)
	} else {
		s.accepts(way, lost, gained)
	}
}

// wrapped recognises that a schema became an alternative of anyOf or oneOf, or was one, as when
// {"type": "string"} becomes nullable. It compares the schema with the alternative of its type and
// returns the keywords that this covers.
func (s *schemas) wrapped(a, b *node, way direction) map[string]bool {
	for _, name := range []string{"anyOf", "oneOf"} {
		plain, wrapper, gained := a, b, true
		if plain.members[name] != nil {
			plain, wrapper, gained = b, a, false
		}
		list := wrapper.members[name]
		if !list.is(jsontext.KindBeginArray) || plain.members["anyOf"] != nil || plain.members["oneOf"] != nil {
			continue
		}
		done := map[string]bool{name: true}
		inner := map[string]*node{}
		for _, keyword := range plain.names {
			if wrapper.members[keyword] == nil && !isText(keyword) && keyword != "$defs" && keyword != "definitions" {
				inner[keyword], done[keyword] = plain.members[keyword], true
			}
		}
		s.budget -= len(plain.names) + len(list.items)
		at := slices.IndexFunc(list.items, func(n *node) bool { return inner["type"] != nil && n.member("type") == inner["type"] })
		if at < 0 {
			continue
		}
		if alternative := s.all.object(inner); gained {
			s.push(alternative, list.items[at], way)
		} else {
			s.push(list.items[at], alternative, way)
		}
		if others := len(list.items) > 1; others {
			s.accepts(way, gained, !gained)
		} else {
			s.found.add(classOther)
		}
		return done
	}
	return nil
}

// order notes that two lists have the same elements in another order.
func (s *schemas) order(x, y *node) {
	sorted := func(list *node) []*node {
		return slices.SortedFunc(slices.Values(list.items), func(a, b *node) int { return cmp.Compare(a.id, b.id) })
	}
	if slices.Equal(sorted(x), sorted(y)) {
		s.found.add(classOther)
	}
}

// match queues the pairs of schemas with the same key, in order, and returns the others.
func (s *schemas) match(was, is []*node, key func(*node) [4]*node, way direction) (restOld, restNew []*node) {
	waiting := map[[4]*node][]*node{}
	for _, n := range is {
		waiting[key(n)] = append(waiting[key(n)], n)
	}
	matched := map[[4]*node]int{}
	for _, n := range was {
		k := key(n)
		if i := matched[k]; i < len(waiting[k]) {
			s.push(n, waiting[k][i], way)
			matched[k]++
		} else {
			restOld = append(restOld, n)
		}
	}
	for _, n := range is {
		if k := key(n); matched[k] > 0 {
			matched[k]--
		} else {
			restNew = append(restNew, n)
		}
	}
	return restOld, restNew
}

// definitions classifies what differs in $defs and was not compared through a reference. A
// definition that was added or removed counts only if nothing else has changed that could need it or
// have needed it.
func (s *schemas) definitions() {
	for i := 0; i < len(s.defs); i++ { // comparing definitions may append to defs
		was, is := s.defs[i][0], s.defs[i][1]
		names := s.union(was, is)
		if len(names) == 0 && was != is {
			s.found.add(classOther)
		}
		for _, name := range names {
			x, y := was.member(name), is.member(name)
			switch {
			case x == y || s.met[[2]*node{x, y}]:
			case x != nil && y != nil:
				s.push(x, y, unused)
			case !s.found[classOptional] && !s.found[classLoosened] && !s.found[classNarrowed]:
				s.found.add(classOther)
			}
		}
		s.run()
	}
}

// values compares the values that enum or const allow. A new value with white space is a text that a
// model reads.
func (s *schemas) values(a, b *node) (more, less, ok bool) {
	allowed := func(n *node) (values map[*node]bool, limited, ok bool) {
		only, list := n.members["const"], n.members["enum"]
		if only == nil && list == nil {
			return nil, false, true
		}
		values = map[*node]bool{}
		if list == nil {
			values[only] = true
			return values, true, true
		}
		for _, v := range list.items {
			values[v] = only == nil || only == v
		}
		maps.DeleteFunc(values, func(_ *node, allowed bool) bool { return !allowed })
		return values, true, list.is(jsontext.KindBeginArray)
	}
	was, limitedA, okA := allowed(a)
	is, limitedB, okB := allowed(b)
	for v := range is {
		if !was[v] && v.is(jsontext.KindString) && strings.ContainsAny(v.text, " \t\r\n") {
			s.found.add(classWording)
		}
	}
	switch {
	case !okA || !okB:
		return false, false, false
	case !limitedA || !limitedB:
		return limitedA && !limitedB, limitedB && !limitedA, true
	}
	return lacks(is, was), lacks(was, is), true
}

// compareTypes compares two values of type: a name, or a list of names. An integer is a number.
func compareTypes(x, y *node) (more, less, ok bool) {
	set := func(n *node) (map[string]bool, bool) {
		switch {
		case n == nil:
			return listedTypes("array", "boolean", "null", "number", "object", "string"), true
		case n.is(jsontext.KindString):
			return listedTypes(n.text), true
		}
		names := listed(n)
		for name := range listed(n) {
			names[name] = true
			if name == "number" {
				names["integer"] = true
			}
		}
		return names, n.is(jsontext.KindBeginArray)
	}
	was, okA := set(x)
	is, okB := set(y)
	return lacks(is, was), lacks(was, is), okA && okB
}

func listedTypes(names ...string) map[string]bool {
	set := map[string]bool{}
	for _, name := range names {
		if set[name] = true; name == "number" {
			set["integer"] = true
		}
	}
	return set
}

// compareBounds compares the inclusive and the exclusive bound together. sign is 1 for a lower bound
// and -1 for an upper one. The boolean bounds of draft-04 cannot be compared.
func compareBounds(a, b *node, inclusive, exclusive string, sign float64) (more, less, ok bool) {
	strictest := func(n *node) (bound float64, open, ok bool) {
		bound = math.Inf(-1)
		for _, name := range []string{inclusive, exclusive} {
			v := n.members[name]
			if v == nil {
				continue
			}
			if !v.is(jsontext.KindNumber) {
				return 0, false, false
			}
			if f := v.number * sign; f > bound || f == bound && name == exclusive {
				bound, open = f, name == exclusive
			}
		}
		return bound, open, true
	}
	was, openA, okA := strictest(a)
	is, openB, okB := strictest(b)
	more = is < was || is == was && openA && !openB
	less = is > was || is == was && openB && !openA
	return more, less, okA && okB
}

// compareNumbers compares two bounds with a default. sign is 1 for a lower bound and -1 for an upper.
func compareNumbers(x, y *node, absent, sign float64) (more, less, ok bool) {
	value := func(n *node) float64 {
		if n == nil {
			return absent * sign
		}
		return n.number * sign
	}
	ok = (x == nil || x.is(jsontext.KindNumber)) && (y == nil || y.is(jsontext.KindNumber))
	return value(y) < value(x), value(y) > value(x), ok
}

// compareMultiples compares two values of multipleOf.
func compareMultiples(x, y *node) (more, less, ok bool) {
	if x == nil || y == nil {
		return y == nil, x == nil, true
	}
	if !x.is(jsontext.KindNumber) || !y.is(jsontext.KindNumber) || x.number <= 0 || y.number <= 0 {
		return false, false, false
	}
	more = math.Mod(y.number, x.number) != 0 // some multiples of the new one were not allowed
	less = math.Mod(x.number, y.number) != 0
	return more, less, true
}
