package config

import (
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/config/hosts"
	"github.com/mcptrack/mcptrack/core/config/tree"
)

// A container is an object or list in a file that contains servers.
type container struct {
	key   *tree.Member
	path  pointer
	value *tree.Node
	// braces means that strings refer to variables as {env:NAME}, as in opencode.
	braces bool
	// overridden holds the names of servers that are also defined by a container with higher
	// priority.
	overridden map[string]bool
}

// containers returns the objects and lists in the file that contain servers. They have these keys:
//
//	servers            mcptrack's own list, and an object in VS Code
//	mcpServers         Claude, Cursor, Windsurf, Gemini and most others; a list in Continue
//	mcp_servers        Codex; a list in Mistral Vibe
//	amp.mcpServers     Amp, also in the settings of VS Code
//	context_servers    Zed
//	extensions         Goose
//	mcp                opencode and Crush; in VS Code settings, an object with the key "servers",
//	                   located in "settings" (workspaces) or "customizations" (dev containers)
//	projects           Claude Code's own file: the servers of the workspace, and mcpServers
//
// If every member of the root object is a server, as in Claude Code plugins, the root object is the
// container. A key whose value is null is treated as an empty object.
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
	for _, path := range [][]string{{"mcp", "servers"}, {"mcp", "mcpServers"}, {"settings", "mcp", "servers"}, {"customizations", "vscode", "mcp", "servers"}, {"amp.mcpServers"}} {
		if m, at := descend(root, path); m != nil && len(found) == 0 {
			add(m, at, false)
		}
	}
	if m := index["mcp"]; m != nil && len(found) == 0 && m.Value.Kind == tree.Object && (allObjects(m.Value) || slices.ContainsFunc(m.Value.Members, func(one *tree.Member) bool { return r.looksLikeServer(one.Value) })) {
		add(m, "/mcp", true)
	}
	if path, servers := r.project(root); servers != nil {
		if len(found) == 1 && found[0].value.Kind == tree.Object {
			found[0].overridden = map[string]bool{}
			for _, member := range servers.Value.Members {
				found[0].overridden[member.Name] = true
			}
		}
		return append([]container{{key: servers, path: path.key("mcpServers"), value: servers.Value}}, found...)
	}
	if len(found) == 0 && r.isFlat(root) {
		found = append(found, container{value: root})
	}
	return found
}

// descend returns the member at a path of keys together with its JSON pointer, or nil if there is
// none.
func descend(n *tree.Node, path []string) (m *tree.Member, at pointer) {
	for _, name := range path {
		if m = n.Get(name); m == nil {
			return nil, ""
		}
		n, at = m.Value, at.key(name)
	}
	return m, at
}

func containerKeys() []string {
	return []string{"servers", "mcpServers", "mcp_servers", "context_servers", "extensions", "mcp.servers"}
}

// projects yields the objects that Claude Code's own config file contains for the workspace and its
// parent folders.
func (r *reader) projects(root *tree.Node) iter.Seq2[pointer, *tree.Node] {
	return func(yield func(pointer, *tree.Node) bool) {
		m := root.Get("projects")
		if m == nil {
			return
		}
		index := m.Value.Index()
		for dir := r.expander.workspace; ; dir = filepath.Dir(dir) {
			for _, name := range slices.Compact([]string{dir, filepath.ToSlash(dir)}) {
				if p := index[name]; p != nil && !yield(pointer("/projects").key(name), p.Value) {
					return
				}
			}
			if dir == filepath.Dir(dir) {
				return
			}
		}
	}
}

// project returns the member with the servers of the nearest folder that has any, with its path, or nil.
func (r *reader) project(root *tree.Node) (pointer, *tree.Member) {
	for path, project := range r.projects(root) {
		if servers := project.Get("mcpServers"); servers != nil && servers.Value.Kind == tree.Object {
			return path, servers
		}
	}
	return "", nil
}

// A Project is a folder with servers of its own in Claude Code's own file.
type Project struct {
	Folder  string   `json:"folder"` // absolute
	Servers []string `json:"servers"`
}

// Projects returns the folders with servers in Claude Code's own file that Load does not read, because they belong to
// other folders than the workspace. With the folder as workspace, it does. Folders that do not exist are left out.
func Projects(data []byte, path string, opts Options) []Project {
	r, root := newDocument(data, path).open(opts)
	if r == nil {
		return nil
	}
	return r.otherProjects(root)
}

func (r *reader) otherProjects(root *tree.Node) (all []Project) {
	_, here := r.project(root)
	projects := root.Get("projects")
	if projects == nil {
		return nil
	}
	for _, m := range projects.Value.Members {
		p, servers := Project{Folder: filepath.Clean(filepath.FromSlash(m.Name))}, m.Value.Get("mcpServers")
		info, err := os.Stat(p.Folder)
		if servers == nil || servers == here || m.Name != p.Folder && m.Name != filepath.ToSlash(p.Folder) || !filepath.IsAbs(p.Folder) || err != nil || !info.IsDir() {
			continue
		}
		for _, srv := range servers.Value.Members {
			p.Servers = append(p.Servers, srv.Name)
		}
		if p.Servers != nil {
			all = append(all, p)
		}
	}
	return all
}

// isGoose reports whether the "extensions" object belongs to Goose rather than to another program.
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

// isFlat reports whether every member of the root object is a server. A key of mcptrack names none, unless
// the file is at a host's own path.
func (r *reader) isFlat(root *tree.Node) bool {
	servers, ours, owned := 0, map[string]bool{}, hosts.Owns(absolute(r.file))
	for _, k := range besideKeys() {
		ours[k.name] = !owned
	}
	for _, m := range root.Members {
		switch {
		case isComment(m.Name):
		case ours[m.Name]:
			return false
		case r.looksLikeServer(m.Value):
			servers++
		default:
			return false
		}
	}
	return servers > 0
}

// looksLikeServer reports whether an object specifies how to connect to a server.
func (r *reader) looksLikeServer(n *tree.Node) bool {
	for _, name := range append(r.keys.get("command").spellings, r.keys.get("url").spellings...) {
		if m := n.Get(name); m != nil && (m.Value.Kind == tree.String || m.Value.Kind == tree.List) {
			return true
		}
	}
	return false
}

// isComment reports whether a key serves as a comment, such as "_note".
func isComment(name string) bool {
	return name == "$schema" || name == "$comment" || strings.HasPrefix(name, "_") || strings.HasPrefix(name, "//")
}

// disabledElsewhere returns a function that reports whether a server is disabled by a key outside
// its entry: "disabledMcpServers" for the workspace in Claude Code's own file, or "excluded" and
// "allowed" in "mcp" of Gemini CLI and Qwen Code.
func (r *reader) disabledElsewhere(root *tree.Node) func(id string) bool {
	var off, allowed []string
	for _, project := range r.projects(root) {
		off = append(off, listed(project, "disabledMcpServers")...)
	}
	if m := root.Get("mcp"); m != nil && root.Get("mcpServers") != nil {
		off = append(off, listed(m.Value, "excluded")...)
		allowed = listed(m.Value, "allowed")
	}
	return func(id string) bool {
		return slices.Contains(off, id) || len(allowed) > 0 && !slices.Contains(allowed, id)
	}
}

// listed returns the strings in the list stored under the given name in n.
func listed(n *tree.Node, name string) (out []string) {
	m := n.Get(name)
	if m == nil {
		return nil
	}
	for _, item := range m.Value.Items {
		if item.Kind == tree.String {
			out = append(out, item.Text)
		}
	}
	return out
}
