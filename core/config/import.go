package config

import (
	"fmt"
	"strings"

	"github.com/mcptrack/mcptrack/core/config/tree"
)

// An Imported is one server of a config as our own format has it: with references in
// our form and without secrets in plain text.
type Imported struct {
	ID      string
	Enabled bool
	// Keys are the members of its entry but the id, in the order in which they are
	// written. Their values are strings, booleans, json.Number, []any, map[string]any.
	Keys []Key
	// Variables are the names that stand where a secret was, and where it was.
	Variables []Variable
}

// A Key is one member of an entry.
type Key struct {
	Name  string
	Value any
}

// A Variable has to be set before the server can be used.
type Variable struct {
	Name string `json:"name"`
	File string `json:"file"`
	Line int    `json:"line"`
}

// Names are the variables that stand for secrets in several imports, each for one
// secret. The zero value has none.
type Names struct{ secrets map[string]Secret }

// take returns the name, or one like it if that stands for another secret.
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
	data, _, problem := readFile(path, SizeLimit(path))
	if problem != nil { // since it was loaded
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
	r.visit = func(e *entry, id string) { servers = append(servers, e.imported(id, names)) }
	r.root(root)
	return servers, problems
}

// imported converts one entry.
func (e *entry) imported(id string, names *Names) Imported {
	e.server = &Server{ID: id}
	out := Imported{ID: id, Enabled: e.enabled()}
	im := importer{entry: e, out: &out, names: names}
	add := func(name string, value any, present bool) {
		if present {
			out.Keys = append(out.Keys, Key{name, value})
		}
	}
	description, _, hasDescription := e.text("description")
	add("description", description, hasDescription)
	transport, fallback, _, declared := remoteKeys{e}.declared()
	add("type", string(transport), declared && !fallback && transport != TransportStdio)
	command, args := im.command()
	add("command", command, command != "")
	add("args", args, len(args) > 0)
	env := im.env()
	add("env", env, len(env) > 0)
	for _, names := range [][]string{{"envFile"}, {"cwd", "workingDirectory"}} {
		if f, ok := e.find(names...); ok && f.value.Kind == tree.String {
			add(names[0], e.expander.portable(f.value.Text), true)
		}
	}
	address := im.url()
	add("url", address, address != "")
	headers := im.headers()
	add("headers", headers, len(headers) > 0)
	for _, name := range []string{"trackTools", "trackPrompts", "include", "exclude", "read", "mode", "pollInterval", "safetyInterval",
		"catalogInterval", "onConnect", "protocol", "connectTimeout", "requestTimeout"} {
		if f, ok := e.field(name); ok {
			add(name, trackingKeys{e}.any(f.value, "", ""), true)
		}
	}
	return out
}

// An importer converts the values of one entry and replaces the secrets in them.
type importer struct {
	*entry
	out   *Imported
	names *Names
}

// secret returns the reference that takes the place of a secret.
func (im *importer) secret(n *tree.Node, name string) string {
	name = strings.ToUpper(strings.Join(nameWords(name), "_"))
	if name == "" || '0' <= name[0] && name[0] <= '9' || !isShellName(name) {
		name = "MCP_SECRET"
	}
	name = im.names.take(name, n.Text)
	line, _ := im.Position(n.Offset)
	im.out.Variables = append(im.out.Variables, Variable{Name: name, File: im.file, Line: line})
	return "${" + name + "}"
}

func (im *importer) command() (command string, args []any) {
	_, f, _, raw := programKeys{im.entry}.command(func(int) string { return "" })
	if f.value == nil || f.value.Kind != tree.String {
		return "", nil
	}
	if list, ok := im.field("args"); ok {
		raw = append(raw, list.value.Items...)
	}
	flag := ""
	for _, n := range raw {
		name, value, joined := strings.Cut(n.Text, "=")
		separator := "="
		if header, rest, isHeader := strings.Cut(n.Text, ": "); isHeader && !joined {
			name, value, joined, separator = header, rest, true, ": "
		}
		switch {
		case joined && secretName(name) && literalSecret(value), joined && tokenShaped(value):
			args = append(args, name+separator+scheme(value)+im.secret(n, im.out.ID+" "+name))
		case tokenShaped(n.Text) || urlPassword(n.Text) || flag != "" && !strings.HasPrefix(n.Text, "-") && secretName(flag) && literalSecret(n.Text):
			args = append(args, im.secret(n, im.out.ID+" "+flag))
		default:
			args = append(args, im.expander.portable(n.Text))
		}
		flag = ""
		if strings.HasPrefix(n.Text, "-") && !joined {
			flag = n.Text
		}
	}
	return im.expander.portable(f.value.Text), args
}

// scheme returns the scheme at the beginning of credentials, with its space.
func scheme(value string) string {
	if i := strings.IndexByte(value, ' '); i > 0 && i < 8 {
		return value[:i+1]
	}
	return ""
}

func (im *importer) env() map[string]any {
	env := map[string]any{}
	inherited := map[string]Secret{}
	programKeys{im.entry}.passedOn(inherited)
	for name := range inherited {
		env[name] = "${" + name + "}"
	}
	objects := []*tree.Node{}
	if c, ok := im.field("command"); ok && c.value.Kind == tree.Object && c.value.Get("env") != nil {
		objects = append(objects, c.value.Get("env").Value)
	}
	if f, ok := im.find("env", "environment", "envs"); ok {
		objects = append(objects, f.value)
	}
	for _, object := range objects {
		for name, m := range firstMembers(object) {
			text := m.Value.Text
			switch {
			case m.Value.Kind == tree.Null:
				env[name] = nil
			case tokenShaped(text) || urlPassword(text) || secretName(name) && literalSecret(text):
				env[name] = im.secret(m.Value, name)
			default:
				env[name] = im.expander.portable(text)
			}
		}
	}
	return env
}

func (im *importer) url() string {
	f, ok := remoteKeys{im.entry}.findURL()
	if !ok || f.value.Kind != tree.String {
		return ""
	}
	if secretInURL(f.value.Text) {
		return im.secret(f.value, im.out.ID+" url")
	}
	return im.expander.portable(f.value.Text)
}

func (im *importer) headers() map[string]any {
	headers := map[string]any{}
	for _, name := range headerKeys() {
		f, ok := im.field(name)
		switch {
		case !ok:
		case name == "bearer_token_env_var":
			headers["Authorization"] = "Bearer ${" + f.value.Text + "}"
		case name == "env_http_headers":
			for header, m := range firstMembers(f.value) {
				headers[header] = "${" + m.Value.Text + "}"
			}
		default:
			object := f.value
			if name == "requestOptions" {
				if m := object.Get("headers"); m != nil {
					object = m.Value
				} else {
					continue
				}
			}
			for header, m := range firstMembers(object) {
				switch text := m.Value.Text; {
				case m.Value.Kind != tree.String:
				case tokenShaped(text) || secretName(header) && literalSecret(text):
					headers[header] = scheme(text) + im.secret(m.Value, im.out.ID+" "+header)
				default:
					headers[header] = im.expander.portable(text)
				}
			}
		}
	}
	return headers
}
