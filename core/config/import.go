package config

import (
	"bytes"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/config/credential"
	"github.com/mcptrack/mcptrack/core/config/tree"
	"github.com/mcptrack/mcptrack/core/printable"
)

// An Imported is one server from the config of another host, converted to mcptrack's own format.
// Its plain-text secrets are replaced by references.
type Imported struct {
	ID      string
	Enabled bool
	// Keys holds the members of the server's entry, except its id, in the order used in the manual.
	// Their values are strings, booleans, json.Number, []any and map[string]any.
	Keys Keys
	// Variables lists the variables that replace plain-text secrets.
	Variables []Variable
}

// A Key is one member of an entry.
type Key struct {
	Name  string
	Value any
}

// Keys are the members of a JSON object, in order.
type Keys []Key

// MarshalJSON encodes the members in order.
func (keys Keys) MarshalJSON() ([]byte, error) {
	members := make([][]byte, len(keys))
	for i, k := range keys {
		name, err := printable.Marshal(k.Name)
		if err != nil {
			return nil, err
		}
		value, err := printable.Marshal(k.Value)
		if err != nil {
			return nil, err
		}
		members[i] = slices.Concat(name, []byte(":"), value)
	}
	return slices.Concat([]byte("{"), bytes.Join(members, []byte(",")), []byte("}")), nil
}

// A Variable is an environment variable that must be set before the server can be used.
type Variable struct {
	Name string `json:"name"`
	File string `json:"file"`
	Line int    `json:"line"`
}

// Names holds the names of the variables that replace secrets. It is shared by several imports, so
// that each secret has one name. The zero value is empty.
type Names struct{ secrets map[string]Secret }

// take reserves a variable name for a secret and returns it. If the name is already used for
// another secret, a number is appended.
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

// Import returns the servers in a config of any host, or none if the config must be refused. It omits
// those whose entries have errors, and those that only run mcptrack attach.
func Import(path string, opts Options, names *Names) ([]Imported, Problems) {
	cfg, problems := Load(path, opts)
	if cfg == nil {
		return nil, problems
	}
	data, _, problem := openFile(path, SizeLimit(path))
	if problem != nil { // the file changed after it was loaded
		return nil, Problems{*problem}
	}
	var servers []Imported
	loaded := newDocument(data, path).visit(opts, func(e *entry, id string) {
		if known, ok := cfg.Server(id); ok && known.Attaches() || problems.errorIn(e.path.String()) != "" {
			return
		}
		if srv := e.imported(id, names); len(srv.Keys) > 0 { // an entry without keys only disables a server defined in another file
			servers = append(servers, srv)
		}
	})
	if !loaded {
		return nil, Problems{{Severity: SeverityError, File: path, Line: 1, Column: 1, Code: CodeUnreadable, Message: "file changed while it was read"}}
	}
	return servers, problems
}

// An importer converts the values of one entry and replaces the secrets in them.
type importer struct {
	*entry
	out   *Imported
	names *Names // nil means that plain-text secrets are kept
}

// imported converts one entry to the key names and value forms of mcptrack's own format.
func (e *entry) imported(id string, names *Names) Imported {
	s := &Server{ID: id}
	e.server, e.missing = s, (*clauses)(&s.Missing)
	im := importer{entry: e, out: &Imported{ID: id, Enabled: e.enabled() && !e.off(id)}, names: names}
	transport, fallback, _, known := im.declared()
	if _, hasURL := im.first("url"); !known {
		if transport = TransportStdio; hasURL {
			transport = TransportHTTP
		}
	}
	for _, k := range e.keys {
		f, ok := im.find(k.spellings...)
		if !k.use.includes(transport) {
			continue // the new config would have a warning about it
		}
		switch k.name {
		case "id", "enabled", "disabled", "trackResources": // set by the code that writes the config
		case "args": // converted together with command
		case "type":
			if known && !fallback && transport != TransportStdio {
				im.add(k.name, string(transport))
			}
		case "command":
			command, args := im.commandLine(k.spellings)
			im.add(k.name, command)
			im.add("args", args)
		case "env":
			env, optional := im.environment()
			im.add(k.name, env)
			im.add("env_vars", optional)
		case "url":
			if ok {
				im.add(k.name, im.replaced(f.value, credential.FindURL(f.value.Text), id))
			}
		case "headers":
			im.add(k.name, im.headerValues())
		case "oauth":
			im.add(k.name, im.login())
		default:
			if ok {
				im.add(k.name, im.value(f.value, ""))
			}
		}
	}
	return *im.out
}

// add adds a key, unless its value is empty.
func (im *importer) add(name string, value any) {
	switch v := reflect.ValueOf(value); v.Kind() {
	case reflect.String, reflect.Map, reflect.Slice:
		if v.Len() == 0 {
			return
		}
	}
	im.out.Keys = append(im.out.Keys, Key{name, value})
}

// secret returns a reference that replaces a secret in a value, or the secret if secrets are kept.
func (im *importer) secret(n *tree.Node, secret, name string) string {
	if im.names == nil {
		return secret
	}
	name = strings.ToUpper(strings.Join(credential.Words(name), "_"))
	if name == "" || '0' <= name[0] && name[0] <= '9' || !isShellName(name) || credential.Doubtful(name) {
		name = "MCP_SECRET"
	}
	name = im.names.take(name, secret)
	line, _ := im.Position(n.Offset)
	im.out.Variables = append(im.out.Variables, Variable{Name: name, File: im.file, Line: line})
	return "${" + name + "}"
}

// replaced returns a value with its references in mcptrack's own form and its secrets replaced by
// variables, whose names are derived from label and the secret's name.
func (im *importer) replaced(n *tree.Node, spans []credential.Span, label string) string {
	var out strings.Builder
	at := 0
	for _, s := range spans {
		name := label
		if s.Name != "" && !strings.EqualFold(s.Name, label) {
			name += " " + s.Name
		} else if s.Name == "" {
			name += " secret"
		}
		out.WriteString(im.references(n, n.Text[at:s.From], label) + im.secret(n, n.Text[s.From:s.To], name))
		at = s.To
	}
	out.WriteString(im.references(n, n.Text[at:], label))
	return out.String()
}

// references returns a text with its references in mcptrack's own form. A reference whose name may
// be a token is replaced like a secret.
func (im *importer) references(n *tree.Node, text, label string) string {
	var out strings.Builder
	for {
		before, body, after, found, closed := im.expander.nextReference(text)
		if !found || !closed {
			return out.String() + im.expander.portable(text)
		}
		out.WriteString(before)
		reference := text[len(before) : len(text)-len(after)]
		name, _, _ := strings.Cut(body, ":-")
		if i := strings.LastIndexAny(name, ":."); i >= 0 {
			name = name[i+1:]
		}
		switch {
		case im.doubts(name):
			out.WriteString(im.secret(n, reference, label+" secret"))
		case name == "CLAUDE_PLUGIN_ROOT" && im.expander.plugin != "":
			out.WriteString(im.pluginRoot())
		default:
			out.WriteString(im.expander.portable(reference))
		}
		text = after
	}
}

// pluginRoot returns the folder of the plugin to which the file belongs, because
// ${CLAUDE_PLUGIN_ROOT} has no value in other configs.
func (im *importer) pluginRoot() string {
	inside, err := filepath.Rel(im.expander.workspace, im.expander.plugin)
	switch {
	case err != nil || !filepath.IsLocal(inside):
		return im.expander.plugin
	case inside == ".":
		return "${workspaceFolder}"
	}
	return "${workspaceFolder}/" + filepath.ToSlash(inside)
}

// doubts reports whether the name of a variable may be a credential that must be replaced.
func (im *importer) doubts(name string) bool { return im.names != nil && credential.Doubtful(name) }

// named converts a string that has a name, such as the value of a header.
func (im *importer) named(n *tree.Node, name, label string) string {
	return im.replaced(n, credential.Find(name, n.Text), label)
}

// variable returns a reference to the environment variable whose name is the value of n.
func (im *importer) variable(n *tree.Node, label string) string {
	if im.doubts(n.Text) {
		return im.secret(n, n.Text, label)
	}
	return "${" + n.Text + "}"
}

func (im *importer) commandLine(spellings []string) (command string, args []any) {
	_, f, _, raw := im.command(spellings, func(int) string { return "" })
	if f.value == nil || f.value.Kind != tree.String {
		return "", nil
	}
	if list, ok := im.field("args"); ok {
		raw = append(raw, list.value.Items...)
	}
	for i, spans := range credential.FindArgs(texts(raw)) {
		args = append(args, im.replaced(raw[i], spans, im.out.ID))
	}
	return im.named(f.value, "", im.out.ID), args
}

// environment returns the environment variables of the server, and the names of variables that are
// passed on only if they are set.
func (im *importer) environment() (env map[string]any, optional []any) {
	env = map[string]any{}
	for _, key := range passedOnKeys() {
		f, _ := im.field(key)
		if f.value == nil {
			continue
		}
		for _, item := range f.value.Items {
			switch name := passedOnName(item); {
			case key == "env_vars" && !im.doubts(name.Text):
				optional = append(optional, name.Text)
			case key == "env_keys" && !im.doubts(name.Text):
				env[name.Text] = "${" + name.Text + "}"
			}
		}
	}
	for _, f := range im.envFields() {
		for name, m := range firstMembers(f.value) {
			if m.Value.Kind == tree.Null {
				env[name] = nil
			} else {
				env[name] = im.named(m.Value, name, name)
			}
		}
	}
	return env, optional
}

func (im *importer) headerValues() map[string]any {
	headers := map[string]any{}
	for _, v := range im.variableHeaders() {
		headers[v.header] = v.prefix + im.variable(v.value, im.out.ID+" "+v.header)
	}
	for _, f := range im.headerFields() {
		for header, m := range firstMembers(f.value) {
			switch {
			case f.name == "env_http_headers":
				headers[header] = im.variable(m.Value, im.out.ID+" "+header)
			case m.Value.Kind == tree.String:
				headers[header] = im.named(m.Value, header, im.out.ID)
			}
		}
	}
	return headers
}

// login converts the members of "oauth" to mcptrack's own names. Members that only other hosts use
// are omitted.
func (im *importer) login() map[string]any {
	out := map[string]any{}
	cursor := false
	for _, key := range []string{"auth", "oauth"} { // the last one takes precedence, as in entry.oauth
		f, ok := im.field(key)
		if !ok || f.value.Kind != tree.Object || typeOf(f.value) == "static" {
			continue
		}
		cursor = cursor || key == "auth" && typeOf(f.value) == ""
		members := f.value.Index()
		for _, k := range oauthKeys() {
			for _, spelling := range k.spellings {
				if m := members[spelling]; m != nil && m.Value.Kind != tree.Null {
					out[k.name] = im.value(m.Value, k.name)
				}
			}
		}
	}
	for _, name := range []string{"scopes", "oauthScopes"} { // keys of Codex and Kiro
		if f, ok := im.field(name); ok && f.value.Kind == tree.List && out["scopes"] == nil {
			out["scopes"] = im.value(f.value, "")
		}
	}
	if cursor && out["clientId"] != nil && out["callbackPort"] == nil && out["redirectUri"] == nil {
		out["redirectUri"] = cursorRedirect
	}
	return out
}

// value converts the value of one of mcptrack's own keys.
func (im *importer) value(n *tree.Node, name string) any {
	switch n.Kind {
	case tree.Object:
		out := make(map[string]any, len(n.Members))
		for key, m := range firstMembers(n) {
			out[key] = im.value(m.Value, key)
		}
		return out
	case tree.List:
		out := make([]any, len(n.Items))
		for i, item := range n.Items {
			out[i] = im.value(item, name)
		}
		return out
	case tree.String:
		return im.named(n, name, im.out.ID)
	}
	return im.any(n, "", "")
}
