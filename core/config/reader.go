package config

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mcptrack/mcptrack/core/config/tree"
	"github.com/mcptrack/mcptrack/core/suggest"
)

// A reader turns the tree of one document into servers.
type reader struct {
	*document
	expander    expander
	lookPath    func(string) (string, error) // nil: search PATH
	config      *Config                      // what was read so far
	ids         map[string]int               // offset of the first use of each ID
	envFiles    map[string]envFile
	commands    map[[2]string]bool   // whether it was found, by search path and command
	unsupported []unsupportedKey     // of all servers, in the order of the file
	off         func(id string) bool // whether the host disables a server elsewhere in the file
	// visit, if not nil, is called with every entry instead of adding it to the config.
	visit func(e *entry, id string)
}

// servers reads one container.
func (r *reader) servers(c container) {
	r.expander.braces = c.braces
	defer func() { r.expander.braces = false }()
	switch {
	case c.value.Kind == tree.Null:
	case c.value.Kind == tree.Object:
		r.serverMap(c)
	case c.value.Kind == tree.List:
		for i, item := range c.value.Items {
			if r.full() { // no later error is kept
				return
			}
			r.listEntry(item, c.path.index(i), i)
		}
	case c.key.Name == "servers":
		r.errorAt(c.value.Offset, c.path, CodeType, fmt.Sprintf(`Config at %s must contain a "servers" array`, r.file),
			"an object of servers by name is read too")
	default:
		r.errorAt(c.value.Offset, c.path, CodeType,
			fmt.Sprintf(`Config at %s has invalid %q; expected object of servers by name`, r.file, c.key.Name), "")
	}
}

func (r *reader) listEntry(n *tree.Node, path pointer, index int) {
	if n.Kind != tree.Object {
		r.errorAt(n.Offset, path, CodeType, fmt.Sprintf("Entry at index %d must be an object", index), "")
		return
	}
	e := r.entry(n, path, fmt.Sprintf("Server at index %d", index))
	needsID := fmt.Sprintf(`Entry at index %d must include a non-empty string "id"`, index)
	if e.isBuiltin() {
		return
	}
	key := "id"
	id := e.members["id"]
	if id == nil && e.members["name"] != nil { // Continue names its servers by "name"
		key, id = "name", e.members["name"]
	}
	switch {
	case id == nil:
		r.errorAt(n.Offset, path, CodeMissing, needsID, "")
		e.add("")
	case id.Value.Kind != tree.String:
		r.errorAt(id.Value.Offset, path.key(key), CodeType, needsID, "")
		e.add("")
	default:
		name := id.Value.Text // never expanded, like the names of a map
		if strings.TrimSpace(name) != "" {
			e.label = "Server " + quote(name)
		}
		r.checkID(name, needsID, id.Value.Offset, path.key(key))
		e.add(name)
	}
}

func (r *reader) serverMap(c container) {
	for _, m := range c.value.Members {
		if r.full() {
			return
		}
		if c.overridden[m.Name] || c.value.Kind == tree.Object && isComment(m.Name) && m.Value.Kind != tree.Object {
			continue
		}
		at := c.path.key(m.Name)
		r.checkID(m.Name, "Server name must not be empty", m.Offset, at)
		if m.Value.Kind != tree.Object {
			r.errorAt(m.Value.Offset, at, CodeType, fmt.Sprintf("Server %s must be an object", quote(m.Name)), "")
			continue
		}
		e := r.entry(m.Value, at, "Server "+quote(m.Name))
		if e.isBuiltin() {
			continue
		}
		if id, ok := e.members["id"]; ok && !(id.Value.Kind == tree.String && id.Value.Text == m.Name) {
			r.errorAt(id.Value.Offset, at.key("id"), CodeConflict,
				fmt.Sprintf(`%s has another "id"; in a map of servers the key is the id`, e.label), `remove "id"`)
		}
		e.add(m.Name)
	}
}

// maxID is the most characters of a server ID.
const maxID = 128

// checkID reports an ID that is invalid or already used by an earlier server.
func (r *reader) checkID(id, empty string, offset int, path pointer) {
	if strings.TrimSpace(id) == "" {
		r.errorAt(offset, path, CodeID, empty, "")
		return
	}
	if !printableID(id) {
		r.errorAt(offset, path, CodeID,
			fmt.Sprintf("Server %s has an invalid id; expected at most %d printable characters", quote(id), maxID), "")
		return
	}
	if first, ok := r.ids[id]; ok {
		line, _ := r.Position(first)
		r.errorAt(offset, path, CodeDuplicateID, fmt.Sprintf("Duplicate server id %s found", quote(id)),
			fmt.Sprintf("it is already used on line %d", line))
		return
	}
	r.ids[id] = offset
}

// printableID reports whether s is short and made of visible characters and
// ASCII spaces only: an ID is shown in logs, tables and event streams.
func printableID(s string) bool {
	return utf8.RuneCountInString(s) <= maxID &&
		strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// inputs checks the "inputs" of VS Code. Their values come from the environment, so only their
// form matters.
func (r *reader) inputs(list *tree.Node) {
	if list.Kind != tree.List {
		r.errorAt(list.Offset, "/inputs", CodeType, fmt.Sprintf(`Config at %s has invalid "inputs"; expected array`, r.file), "")
		return
	}
	for i, item := range list.Items {
		path := pointer("/inputs").index(i)
		if item.Kind != tree.Object {
			r.errorAt(item.Offset, path, CodeType, fmt.Sprintf("Input at index %d must be an object", i), "")
			continue
		}
		needsID := fmt.Sprintf(`Input at index %d must include a non-empty string "id"`, i)
		switch id := item.Get("id"); {
		case id == nil:
			r.errorAt(item.Offset, path, CodeMissing, needsID, "")
		case id.Value.Kind != tree.String || id.Value.Text == "":
			r.errorAt(id.Value.Offset, path.key("id"), CodeType, needsID, "")
		}
	}
}

// unknownKeys warns of keys that are neither in own nor in foreign, the keys of other programs.
func (r *reader) unknownKeys(object *tree.Node, path pointer, label string, own, foreign []string) {
	for _, m := range object.Members {
		if r.warnings == maxProblems || slices.Contains(own, m.Name) || slices.Contains(foreign, m.Name) || isComment(m.Name) {
			continue
		}
		hint := ""
		meant := misnamed(m.Name)
		if !slices.Contains(own, meant) {
			meant = suggest.Nearest(m.Name, own)
		}
		if meant != "" {
			hint = fmt.Sprintf("did you mean %q?", meant)
		}
		r.warnAt(m.Offset, path.key(m.Name), CodeUnknownKey, fmt.Sprintf("%s has unknown key %s", label, quote(m.Name)), hint)
	}
}

// firstMembers yields the first member of each name in an object, in the order of the file.
// Duplicates are reported elsewhere.
func firstMembers(object *tree.Node) iter.Seq2[string, *tree.Member] {
	return func(yield func(string, *tree.Member) bool) {
		first := object.Index()
		for _, m := range object.Members {
			if first[m.Name] == m && !yield(m.Name, m) {
				return
			}
		}
	}
}
