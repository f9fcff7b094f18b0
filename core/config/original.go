package config

import (
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/config/credential"
	"github.com/mcptrack/mcptrack/core/config/tree"
)

// An Original is the entry of a server in a host's config, with what another config needs to
// contain instead of it.
type Original struct {
	// Imported has all keys of the entry, including unknown ones. Its secrets are kept.
	Imported
	// Path leads from the root of the file to the entry: keys, and indexes in decimal.
	Path  []string
	Entry *tree.Node
	// Invalid is the message of an error in the entry; empty if there is none.
	Invalid string
	// Bare is the warning that the entry has $NAME, which its host may expand but mcptrack does not; empty if it
	// has none.
	Bare string
	// Named lists the environment variables that the host sends in headers, which the entry names without a
	// reference.
	Named []string
	// References lists the environment variables that the entry refers to, with the first reference
	// to each as written.
	References []Reference
}

// A Reference is a reference to an environment variable or an input.
type Reference struct{ Name, Text string }

// Originals reads the entries of a host's config. It returns no config if the file must be refused,
// as Load does.
func Originals(data []byte, path string, opts Options) (*Config, []Original, Problems) {
	cfg, problems := LoadData(data, path, opts)
	if cfg == nil {
		return nil, nil, problems
	}
	var all []Original
	newDocument(data, path).visit(opts, func(e *entry, id string) {
		o := Original{Imported: e.imported(id, nil), Path: e.path.keys(), Entry: e.object,
			Invalid: problems.errorIn(e.path.String()), References: e.references()}
		if i := slices.IndexFunc(problems, func(p Problem) bool { return p.Code == CodeBareVariable && p.in(e.path.String()) }); i >= 0 {
			o.Bare = problems[i].Message + "; " + problems[i].Hint
		}
		for _, v := range e.variableHeaders() {
			o.Named = append(o.Named, v.value.Text)
		}
		if f, ok := e.field("env_http_headers"); ok {
			for _, m := range f.value.Members {
				o.Named = append(o.Named, m.Value.Text)
			}
		}
		im := importer{entry: e, out: &o.Imported}
		if f, ok := e.find("trackResources"); ok {
			im.add("trackResources", im.value(f.value, ""))
		} else if srv, ok := cfg.Server(id); ok && srv.TrackResources {
			im.add("trackResources", true)
		}
		for _, m := range e.object.Members {
			if !slices.Contains(e.names, m.Name) {
				im.add(m.Name, im.value(m.Value, m.Name))
			}
		}
		all = append(all, o)
	})
	return cfg, all, problems
}

// keys returns the keys and indexes of the pointer.
func (p pointer) keys() []string {
	if p == "" {
		return nil
	}
	keys := strings.Split(string(p[1:]), "/")
	for i, k := range keys {
		keys[i] = strings.ReplaceAll(strings.ReplaceAll(k, "~1", "/"), "~0", "~")
	}
	return keys
}

// references returns the references to variables in the strings of the entry.
func (e *entry) references() (all []Reference) {
	var walk func(n *tree.Node)
	walk = func(n *tree.Node) {
		for _, m := range n.Members {
			walk(m.Value)
		}
		for _, item := range n.Items {
			walk(item)
		}
		for text := n.Text; n.Kind == tree.String; {
			before, body, after, found, closed := e.expander.nextReference(text)
			if !found || !closed {
				return
			}
			name := variableOf(body)
			known := slices.ContainsFunc(all, func(r Reference) bool { return r.Name == name })
			if name != "" && !known && !credential.Doubtful(name) {
				all = append(all, Reference{name, text[len(before) : len(text)-len(after)]})
			}
			text = after
		}
	}
	walk(e.object)
	return all
}

// variableOf returns the environment variable to which a reference with the given text refers, or
// "" if it refers to something else.
func variableOf(body string) string {
	body, _, _ = strings.Cut(body, ":-")
	scheme, name, ok := strings.Cut(body, ":")
	switch {
	case ok && scheme == "env" && isEnvName(name):
		return name
	case ok && scheme == "input":
		return inputVariable(name)
	case ok && scheme == "secrets":
		_, name, _ = strings.Cut(name, ".")
		return name
	case ok || !isShellName(body):
		return ""
	}
	switch body {
	case "workspaceFolder", "workspaceRoot", "cwd", "workspaceFolderBasename", "userHome", "pathSeparator", "CLAUDE_PROJECT_DIR", "CLAUDE_PLUGIN_ROOT":
		return ""
	}
	return body
}

// Keeps reports whether a host still needs a member of the entry if another program runs the
// server: it neither affects what is run or sent, nor what is followed.
func (o *Original) Keeps(name string) bool {
	switch name {
	case "id", "name", "description", "enabled", "disabled":
		return true
	}
	return !slices.Contains(serverKeys().names(), name)
}

// Unsupported returns a key of the entry that changes how the host connects to the server in a way
// that mcptrack does not support, or "".
func (o *Original) Unsupported() string {
	for _, name := range unsupportedKeys() {
		if m := o.Entry.Get(name); m != nil && m.Value.Kind != tree.Null && (m.Value.Kind != tree.Bool || m.Value.True()) {
			return name
		}
	}
	return ""
}
