package config

import (
	"fmt"
)

// An Imported is one server of another host's config, converted to our own format: its
// references are in our form, and references replace its plain-text secrets.
type Imported struct {
	ID      string
	Enabled bool
	// Keys are the members of the server's entry, except its id, in the order in which they are
	// written. Their values are strings, booleans, json.Number, []any, map[string]any.
	Keys []Key
	// Variables are those that replaced plain-text secrets.
	Variables []Variable
}

// A Key is one member of an entry.
type Key struct {
	Name  string
	Value any
}

// A Variable is an environment variable that has to be set before the server can be used.
type Variable struct {
	Name string `json:"name"`
	File string `json:"file"`
	Line int    `json:"line"`
}

// Names are the variables that replace secrets, so that several imports use one name for one
// secret. The zero value is empty.
type Names struct{ secrets map[string]Secret }

// take returns the name for the secret, or a similar one if name already stands for another
// secret.
func (n *Names) take(name, secret string) string {
	if n.secrets == nil {
		n.secrets = map[string]Secret{}
	}
	for i := 1; ; i++ {
		numbered := name
		if i > 1 {
			numbered = fmt.Sprintf("%s_%d", name, i)
		}
		if known, taken := n.secrets[numbered]; !taken || known == NewSecret(secret) {
			n.secrets[numbered] = NewSecret(secret)
			return numbered
		}
	}
}

// Import returns the servers of a config of any host. Problems has errors if the file
// cannot be used; no server is returned then.
func Import(path string, opts Options, names *Names) ([]Imported, Problems) {
	cfg, problems := Load(path, opts)
	if cfg == nil {
		return nil, problems
	}
	data, problem := readFile(path, SizeLimit(path))
	if problem != nil { // the file changed after Load
		return nil, Problems{*problem}
	}
	d := newDocument(data, path)
	format := opts.Format
	if format == "" {
		format = d.Detect(path)
	}
	root, failure := d.Parse(format)
	workspace, err := opts.workspace()
	if failure != nil || err != nil {
		return nil, Problems{{Severity: SeverityError, File: path, Line: 1, Column: 1, Code: CodeUnreadable, Message: "file changed while it was read"}}
	}
	var servers []Imported
	r := &reader{document: d, expander: newExpander(opts, workspace, path), config: &Config{}, ids: map[string]int{}}
	r.expander.verbatim, r.expander.getenv = true, func(string) (string, bool) { return "", true }
	r.visit = func(e *entry, id string) {
		if srv := e.imported(id, names); len(srv.Keys) > 0 { // without keys the entry only switches off a server of another file
			servers = append(servers, srv)
		}
	}
	r.root(root)
	return servers, problems
}
