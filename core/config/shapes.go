package config

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/mcptrack/mcptrack/core/config/hosts"
	"github.com/mcptrack/mcptrack/core/config/tree"
	"github.com/mcptrack/mcptrack/core/suggest"
)

// A container is an object or list of a file that holds servers.
type container struct {
	key   *tree.Member
	path  pointer
	value *tree.Node
	// braces is set where strings refer to variables as {env:NAME}, as in opencode.
	braces bool
	// overridden are the names of servers that another container has too and wins.
	overridden map[string]bool
}

// containers returns where the file keeps its servers:
//
//	servers            our list, and the object of VS Code
//	mcpServers         Claude, Cursor, Windsurf, Gemini and most others; a list in Continue
//	mcp_servers        Codex
//	context_servers    Zed
//	extensions         Goose
//	mcp                opencode and Crush; in the settings of VS Code an object with "servers"
//	projects           Claude Code's own file: those of the workspace, and mcpServers
//
// or, if every member of the root is a server, the root itself (plugins of Claude
// Code). A key that is null counts as an empty object.
func (r *reader) containers(root *tree.Node) []container {
	index := root.Index()
	var found []container
	add := func(m *tree.Member, path pointer, braces bool) {
		found = append(found, container{key: m, path: path, value: m.Value, braces: braces})
	}
	for _, name := range containerKeys() {
		if m := index[name]; m != nil && (name != "extensions" || isGoose(m.Value)) {
			add(m, pointer("").key(name), false)
		}
	}
	if m := index["mcp"]; m != nil && len(found) == 0 && m.Value.Kind == tree.Object {
		if inner := m.Value.Get("servers"); inner != nil {
			add(inner, "/mcp/servers", false)
		} else if allObjects(m.Value) {
			add(m, "/mcp", true)
		}
	}
	if m := index["projects"]; m != nil && m.Value.Kind == tree.Object {
		if c, ok := r.project(m); ok {
			if len(found) == 1 && found[0].value.Kind == tree.Object {
				found[0].overridden = map[string]bool{}
				for _, member := range c.value.Members {
					found[0].overridden[member.Name] = true
				}
			}
			return append([]container{c}, found...)
		}
	}
	if len(found) == 0 && isFlat(root) {
		found = append(found, container{value: root})
	}
	return found
}

func containerKeys() []string {
	return []string{"servers", "mcpServers", "mcp_servers", "context_servers", "extensions", "mcp.servers"}
}

// project returns the servers that Claude Code has for the workspace or the nearest
// folder above it.
func (r *reader) project(projects *tree.Member) (container, bool) {
	index := projects.Value.Index()
	for dir := r.expander.workspace; ; dir = filepath.Dir(dir) {
		for _, name := range []string{dir, filepath.ToSlash(dir)} {
			m := index[name]
			if m == nil || m.Value.Kind != tree.Object {
				continue
			}
			if servers := m.Value.Get("mcpServers"); servers != nil && servers.Value.Kind == tree.Object {
				return container{key: servers, path: pointer("/projects").key(name).key("mcpServers"), value: servers.Value}, true
			}
		}
		if dir == filepath.Dir(dir) {
			return container{}, false
		}
	}
}

// isGoose distinguishes extensions of Goose from those of other programs.
func isGoose(n *tree.Node) bool {
	if n.Kind != tree.Object {
		return false
	}
	for _, m := range n.Members {
		if m.Value.Kind == tree.Object && (m.Value.Get("cmd") != nil || m.Value.Get("uri") != nil || m.Value.Get("type") != nil) {
			return true
		}
	}
	return false
}

func allObjects(n *tree.Node) bool {
	for _, m := range n.Members {
		if m.Value.Kind != tree.Object && !isComment(m.Name) {
			return false
		}
	}
	return true
}

// isFlat reports whether every member of the root is a server.
func isFlat(root *tree.Node) bool {
	servers := 0
	for _, m := range root.Members {
		switch {
		case isComment(m.Name):
		case looksLikeServer(m.Value):
			servers++
		default:
			return false
		}
	}
	return servers > 0
}

// looksLikeServer reports whether an object says how to reach something.
func looksLikeServer(n *tree.Node) bool {
	for _, name := range []string{"command", "cmd", "url", "serverUrl", "httpUrl", "uri"} {
		if m := n.Get(name); m != nil && (m.Value.Kind == tree.String || m.Value.Kind == tree.List) {
			return true
		}
	}
	return false
}

// isComment reports whether a key is one that no program gives a meaning to.
func isComment(name string) bool {
	return name == "$schema" || name == "$comment" || strings.HasPrefix(name, "_") || strings.HasPrefix(name, "//")
}

// root reads the document.
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
	for _, m := range root.Members { // what else a settings file has twice is not ours
		if first := index[m.Name]; first != m && !seen[m.Name] && ours[m.Name] {
			seen[m.Name] = true
			line, _ := r.Position(first.Offset)
			r.errorAt(m.Offset, pointer("").key(m.Name), CodeDuplicateKey,
				fmt.Sprintf("Duplicate key %s; it is already on line %d", quote(m.Name), line), "keep one of them")
		}
	}
	for _, c := range found {
		r.duplicateKeys(c.value, c.path, c.value.Kind == tree.Object)
		r.servers(c)
	}
	for _, name := range []string{"inputs", "index"} {
		if m := index[name]; m != nil && m.Value.Kind != tree.Null && len(found) > 0 {
			r.duplicateKeys(m.Value, pointer("").key(name), false)
			if name == "inputs" {
				r.inputs(m.Value)
			} else {
				r.config.Index = r.index(m.Value)
			}
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

// noServers explains a document that is an object without servers.
func (r *reader) noServers(root *tree.Node) {
	hint := `the least is {"servers": []}`
	for _, m := range root.Members {
		if looksLikeServer(m.Value) {
			hint = `wrap the servers: {"mcpServers": {…}}`
		}
	}
	r.errorAt(root.Offset, "", CodeMissing, r.needsServers(), hint)
}

// rootKeys are the keys of a document that mean something to us.
func rootKeys() map[string]bool {
	keys := map[string]bool{"mcp": true, "inputs": true, "index": true}
	for _, name := range containerKeys() {
		keys[name] = true
	}
	return keys
}

// maxNearMisses is how many unknown keys of a root are compared with ours.
const maxNearMisses = 200

// unknownRootKeys warns of the keys beside the servers: one by one where one of ours
// was probably meant, and of all others in one line.
func (r *reader) unknownRootKeys(root *tree.Node, found []container) {
	own := []string{"servers", "mcpServers", "inputs", "index"}
	known := rootKeys()
	for _, name := range []string{"projects", "sandbox", "version", "imports", "mcpProxy"} {
		known[name] = true
	}
	for _, c := range found {
		known[c.key.Name] = true
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
