package config

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// A reader turns the tree of one document into servers.
type reader struct {
	*document
	expander     expander
	lookPath     func(string) (string, error) // nil: search PATH
	servers      []Server
	catalogIndex Index
	ids          map[string]int // offset of the first use
	envFiles     map[string]envFile
	commands     map[[2]string]bool // found, by search path and command
}

// root reads the document: one of the three shapes.
func (r *reader) root(tree *hujson.Value) {
	object, ok := tree.Value.(*hujson.Object)
	if !ok {
		hint := ""
		if kind(tree) == '[' {
			hint = `wrap the list: {"servers": […]}`
		}
		r.errorAt(tree.StartOffset, "", CodeType, r.needsServers(), hint)
		return
	}
	members := firstMembers(object)
	list, isServers := members["servers"]
	named, isNamed := members["mcpServers"]
	if isServers && isNamed {
		later := named
		if list.Name.StartOffset > named.Name.StartOffset {
			later = list
		}
		r.errorAt(later.Name.StartOffset, pointer("").key(text(&later.Name)), CodeConflict,
			fmt.Sprintf(`Config at %s has both "servers" and "mcpServers"`, r.file), "move all servers into one of them")
	}
	var byName []*hujson.Object // their keys are server IDs
	for _, m := range []*hujson.ObjectMember{list, named} {
		if m != nil {
			if servers, ok := m.Value.Value.(*hujson.Object); ok {
				byName = append(byName, servers)
			}
		}
	}
	r.duplicateKeys(tree, "", byName)
	if isServers {
		r.serversValue(&list.Value, "/servers")
	}
	if isNamed {
		if serverMap, ok := named.Value.Value.(*hujson.Object); ok {
			r.serverMap(serverMap, "/mcpServers")
		} else {
			r.errorAt(named.Value.StartOffset, "/mcpServers", CodeType,
				fmt.Sprintf(`Config at %s has invalid "mcpServers"; expected object of servers by name`, r.file),
				`a list of servers belongs under "servers"`)
		}
	}
	if inputs, ok := members["inputs"]; ok {
		r.inputs(&inputs.Value)
	}
	if x, ok := members["index"]; ok {
		r.catalogIndex = r.index(&x.Value)
	}
	if isServers || isNamed {
		own, foreign := rootKeys()
		r.unknownKeys(object, "", "Config at "+r.file, own, foreign)
		return
	}
	r.noServers(object, tree.StartOffset)
}

func (r *reader) needsServers() string {
	return fmt.Sprintf(`Config at %s must contain a "servers" array or an "mcpServers" object`, r.file)
}

// noServers explains a document that is an object without servers.
func (r *reader) noServers(object *hujson.Object, offset int) {
	for i := range object.Members {
		m := &object.Members[i]
		if inner, ok := m.Value.Value.(*hujson.Object); ok {
			keys := firstMembers(inner)
			if keys["command"] != nil || keys["url"] != nil {
				r.errorAt(offset, "", CodeMissing, r.needsServers(), `wrap the servers: {"mcpServers": {…}}`)
				return
			}
		}
	}
	r.errorAt(offset, "", CodeMissing, r.needsServers(), `the least is {"servers": []}`)
	own, foreign := rootKeys()
	r.unknownKeys(object, "", "Config at "+r.file, own, foreign)
}

// serversValue reads "servers": a list, or a map as VS Code has it.
func (r *reader) serversValue(v *hujson.Value, path pointer) {
	switch t := v.Value.(type) {
	case *hujson.Array:
		for i := range t.Elements {
			if r.full { // nothing that follows would be kept or used
				return
			}
			r.listEntry(&t.Elements[i], path.index(i), i)
		}
	case *hujson.Object:
		r.serverMap(t, path)
	default:
		r.errorAt(v.StartOffset, path, CodeType, fmt.Sprintf(`Config at %s must contain a "servers" array`, r.file),
			"an object of servers by name is read too")
	}
}

func (r *reader) listEntry(v *hujson.Value, path pointer, index int) {
	object, ok := v.Value.(*hujson.Object)
	if !ok {
		r.errorAt(v.StartOffset, path, CodeType, fmt.Sprintf("Entry at index %d must be an object", index), "")
		return
	}
	e := r.entry(object, v.StartOffset, path, fmt.Sprintf("Server at index %d", index))
	needsID := fmt.Sprintf(`Entry at index %d must include a non-empty string "id"`, index)
	id, ok := e.members["id"]
	switch {
	case !ok:
		hint := ""
		if e.members["name"] != nil {
			hint = `"name" is not read here; call it "id"`
		}
		r.errorAt(v.StartOffset, path, CodeMissing, needsID, hint)
		e.server("")
	case !isString(&id.Value):
		r.errorAt(id.Value.StartOffset, path.key("id"), CodeType, needsID, "")
		e.server("")
	default:
		raw := text(&id.Value)
		if strings.TrimSpace(raw) != "" {
			e.label = "Server " + quote(raw)
		}
		value, ok := e.expand(&id.Value, path.key("id"), "id")
		if ok {
			r.checkID(value, raw, needsID, id.Value.StartOffset, path.key("id"))
		}
		e.server(value)
	}
}

func (r *reader) serverMap(object *hujson.Object, path pointer) {
	for i := range object.Members {
		if r.full {
			return
		}
		m := &object.Members[i]
		name := text(&m.Name)
		at := path.key(name)
		r.checkID(name, name, "Server name must not be empty", m.Name.StartOffset, at)
		entry, ok := m.Value.Value.(*hujson.Object)
		if !ok {
			r.errorAt(m.Value.StartOffset, at, CodeType, fmt.Sprintf("Server %s must be an object", quote(name)), "")
			continue
		}
		e := r.entry(entry, m.Value.StartOffset, at, "Server "+quote(name))
		if id, ok := e.members["id"]; ok && !(isString(&id.Value) && text(&id.Value) == name) {
			r.errorAt(id.Value.StartOffset, at.key("id"), CodeConflict,
				fmt.Sprintf(`%s has another "id"; in a map of servers the key is the id`, e.label), `remove "id"`)
		}
		e.server(name)
	}
}

// maxID is the most characters of a server ID.
const maxID = 128

// checkID reports an ID that is no ID, or that an earlier server has. The raw
// form is shown, as the ID may hold expanded variables.
func (r *reader) checkID(id, raw, empty string, offset int, path pointer) {
	if strings.TrimSpace(id) == "" {
		r.errorAt(offset, path, CodeID, empty, "")
		return
	}
	if !printableID(id) {
		r.errorAt(offset, path, CodeID,
			fmt.Sprintf("Server %s has an invalid id; expected at most %d printable characters", quote(raw), maxID), "")
		return
	}
	if first, ok := r.ids[id]; ok {
		line, _ := r.position(first)
		r.errorAt(offset, path, CodeDuplicateID, fmt.Sprintf("Duplicate server id %s found", quote(raw)),
			fmt.Sprintf("it is already used on line %d", line))
		return
	}
	r.ids[id] = offset
}

// inputs checks the declarations of VS Code. What they ask for comes from the
// environment, so only their form matters.
func (r *reader) inputs(v *hujson.Value) {
	list, ok := v.Value.(*hujson.Array)
	if !ok {
		r.errorAt(v.StartOffset, "/inputs", CodeType, fmt.Sprintf(`Config at %s has invalid "inputs"; expected array`, r.file), "")
		return
	}
	for i := range list.Elements {
		element := &list.Elements[i]
		path := pointer("/inputs").index(i)
		object, ok := element.Value.(*hujson.Object)
		if !ok {
			r.errorAt(element.StartOffset, path, CodeType, fmt.Sprintf("Input at index %d must be an object", i), "")
			continue
		}
		id, ok := firstMembers(object)["id"]
		switch {
		case !ok:
			r.errorAt(element.StartOffset, path, CodeMissing, fmt.Sprintf(`Input at index %d must include a non-empty string "id"`, i), "")
		case !isString(&id.Value) || text(&id.Value) == "":
			r.errorAt(id.Value.StartOffset, path.key("id"), CodeType, fmt.Sprintf(`Input at index %d must include a non-empty string "id"`, i), "")
		}
	}
}

// unknownKeys warns of keys that neither we nor, as far as we know, others read.
func (r *reader) unknownKeys(object *hujson.Object, path pointer, label string, own, foreign []string) {
	for i := range object.Members {
		m := &object.Members[i]
		name := text(&m.Name)
		if r.full || slices.Contains(own, name) || slices.Contains(foreign, name) || strings.HasPrefix(name, "//") {
			continue
		}
		hint := ""
		meant := misnamed(name)
		if !slices.Contains(own, meant) {
			meant = nearest(name, own)
		}
		if meant != "" {
			hint = fmt.Sprintf("did you mean %q?", meant)
		}
		r.warnAt(m.Name.StartOffset, path.key(name), CodeUnknownKey, fmt.Sprintf("%s has unknown key %s", label, quote(name)), hint)
	}
}

// firstMembers indexes an object by key. Duplicates are reported elsewhere.
func firstMembers(object *hujson.Object) map[string]*hujson.ObjectMember {
	members := make(map[string]*hujson.ObjectMember, len(object.Members))
	for i := range object.Members {
		m := &object.Members[i]
		if name := text(&m.Name); members[name] == nil {
			members[name] = m
		}
	}
	return members
}

// firstMembersInOrder yields the members of an object in the order of the file,
// leaving out duplicates.
func firstMembersInOrder(object *hujson.Object) iter.Seq2[string, *hujson.ObjectMember] {
	return func(yield func(string, *hujson.ObjectMember) bool) {
		first := firstMembers(object)
		for i := range object.Members {
			m := &object.Members[i]
			if name := text(&m.Name); first[name] == m && !yield(name, m) {
				return
			}
		}
	}
}
