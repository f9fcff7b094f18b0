package config

import (
	"path/filepath"
	"slices"

	"github.com/mcptrack/mcptrack/core/config/tree"
)

// disabledElsewhere returns a function that reports whether a server is switched off by a key
// outside its own entry: by "disabledMcpServers" of the workspace in Claude Code's own file, or
// by "excluded" and "allowed" in "mcp" of Gemini CLI and Qwen Code.
func (r *reader) disabledElsewhere(root *tree.Node) func(id string) bool {
	var off, allowed []string
	if m := root.Get("projects"); m != nil && m.Value.Kind == tree.Object {
		index := m.Value.Index()
		for dir := r.expander.workspace; ; dir = filepath.Dir(dir) {
			for _, name := range []string{dir, filepath.ToSlash(dir)} {
				if p := index[name]; p != nil {
					off = append(off, listed(p.Value, "disabledMcpServers")...)
				}
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	restricted := false
	if m := root.Get("mcp"); m != nil && root.Get("mcpServers") != nil {
		off = append(off, listed(m.Value, "excluded")...)
		allowed = listed(m.Value, "allowed")
		restricted = m.Value.Get("allowed") != nil && len(allowed) > 0
	}
	return func(id string) bool { return slices.Contains(off, id) || restricted && !slices.Contains(allowed, id) }
}

// listed returns the strings in the list that is the member name of n.
func listed(n *tree.Node, name string) []string {
	if n.Kind != tree.Object {
		return nil
	}
	m := n.Get(name)
	if m == nil || m.Value.Kind != tree.List {
		return nil
	}
	var out []string
	for _, item := range m.Value.Items {
		if item.Kind == tree.String {
			out = append(out, item.Text)
		}
	}
	return out
}
