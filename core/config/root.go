package config

import (
	"fmt"
	"strings"

	"github.com/mcptrack/mcptrack/core/config/hosts"
	"github.com/mcptrack/mcptrack/core/config/tree"
	"github.com/mcptrack/mcptrack/core/suggest"
)

// root reads the whole document.
func (r *reader) root(root *tree.Node) {
	if root.Kind != tree.Object {
		hint := ""
		if root.Kind == tree.List {
			hint = `wrap the list: {"servers": […]}`
		}
		r.errorAt(root.Offset, "", CodeType, r.needsServers(), hint)
		return
	}
	found := r.containers(root)
	if len(found) > 1 && !strings.HasPrefix(string(found[0].path), "/projects/") {
		first, later := found[0].key, found[1].key
		if first.Offset > later.Offset {
			first, later = later, first
		}
		r.errorAt(later.Offset, pointer("").key(later.Name), CodeConflict,
			fmt.Sprintf(`Config at %s has both %q and %q`, r.file, first.Name, later.Name), "move all servers into one of them")
	}
	index, seen, ours := root.Index(), map[string]bool{}, rootKeys()
	for _, m := range root.Members { // duplicates elsewhere in a settings file concern other programs
		if first := index[m.Name]; first != m && !seen[m.Name] && ours[m.Name] {
			seen[m.Name] = true
			line, _ := r.Position(first.Offset)
			r.errorAt(m.Offset, pointer("").key(m.Name), CodeDuplicateKey,
				fmt.Sprintf("Duplicate key %s; it is already on line %d", quote(m.Name), line), "keep one of them")
		}
	}
	r.off = r.disabledElsewhere(root)
	for _, c := range found {
		r.duplicateKeys(c.value, c.path, c.value.Kind == tree.Object)
		r.servers(c)
	}
	for _, beside := range []struct {
		name string
		read func(*tree.Node)
	}{
		{"inputs", r.inputs},
		{"index", func(v *tree.Node) { r.config.Index = r.index(v) }},
		{"webhooks", func(v *tree.Node) { r.config.Webhooks = r.webhooks(v) }},
	} {
		if beside.name == "webhooks" && hosts.IsSettings(r.file) {
			continue // a setting of another program
		}
		if m := index[beside.name]; m != nil && m.Value.Kind != tree.Null && len(found) > 0 {
			r.duplicateKeys(m.Value, pointer("").key(beside.name), false)
			beside.read(m.Value)
		}
	}
	if len(found) == 0 && !hosts.IsSettings(r.file) {
		r.noServers(root)
	}
	if len(found) == 0 || found[0].value != root {
		r.unknownRootKeys(root, found)
	}
}

func (r *reader) needsServers() string {
	return fmt.Sprintf(`Config at %s must contain a "servers" array or an "mcpServers" object`, r.file)
}

// noServers reports that an object has no servers, and why.
func (r *reader) noServers(root *tree.Node) {
	hint := `the smallest config is {"servers": []}`
	if looksLikeServer(root) {
		hint = `give the server a name: {"mcpServers": {"NAME": {…}}}`
	}
	for _, m := range root.Members {
		if looksLikeServer(m.Value) {
			hint = `wrap the servers: {"mcpServers": {…}}`
		}
	}
	r.errorAt(root.Offset, "", CodeMissing, r.needsServers(), hint)
}

// rootKeys are the keys of a document's root that have a meaning here.
func rootKeys() map[string]bool {
	keys := map[string]bool{"mcp": true, "inputs": true, "index": true, "webhooks": true}
	for _, name := range containerKeys() {
		keys[name] = true
	}
	return keys
}

// maxNearMisses bounds the unknown keys of a root that are compared with ours.
const maxNearMisses = 200

// unknownRootKeys warns of unknown keys beside the servers: one by one if one of our keys was
// probably meant, and of all others in one line.
func (r *reader) unknownRootKeys(root *tree.Node, found []container) {
	own := []string{"servers", "mcpServers", "inputs", "index", "webhooks"}
	known := rootKeys()
	for _, name := range []string{"projects", "sandbox", "version", "imports", "mcpProxy"} {
		known[name] = true
	}
	for _, c := range found {
		known[c.key.Name] = true
		if first, _, nested := strings.Cut(strings.TrimPrefix(string(c.path), "/"), "/"); nested {
			known[first] = true
		}
	}
	var others []*tree.Member
	for _, m := range root.Members {
		if isComment(m.Name) || known[m.Name] {
			continue
		}
		meant := ""
		if len(others) < maxNearMisses {
			meant = misnamed(m.Name)
		}
		if meant == "" && len(others) < maxNearMisses {
			meant = suggest.Nearest(m.Name, own)
		}
		if meant == "" {
			others = append(others, m)
			continue
		}
		r.warnAt(m.Offset, pointer("").key(m.Name), CodeUnknownKey,
			fmt.Sprintf("Config at %s has unknown key %s", r.file, quote(m.Name)), fmt.Sprintf("did you mean %q?", meant))
	}
	switch n := len(others); {
	case n == 1 && !hosts.IsSettings(r.file):
		r.warnAt(others[0].Offset, pointer("").key(others[0].Name), CodeUnknownKey,
			fmt.Sprintf("Config at %s has unknown key %s", r.file, quote(others[0].Name)), "")
	case n == 1:
		r.warnAt(others[0].Offset, pointer("").key(others[0].Name), CodeUnknownKey,
			fmt.Sprintf("Config at %s has a key that is not read here: %s", r.file, quote(others[0].Name)), "")
	case n > 1:
		r.warnAt(others[0].Offset, pointer("").key(others[0].Name), CodeUnknownKey,
			fmt.Sprintf("Config at %s has %d keys that are not read here, such as %s", r.file, n, quote(others[0].Name)), "")
	}
}
