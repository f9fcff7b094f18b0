package config

import (
	"path/filepath"
	"strings"

	"github.com/mcptrack/mcptrack/core/config/credential"
	"github.com/mcptrack/mcptrack/core/config/tree"
)

// An importer converts the values of one entry and replaces the secrets in them.
type importer struct {
	*entry
	out   *Imported
	names *Names
}

// imported converts one entry.
func (e *entry) imported(id string, names *Names) Imported {
	s := &Server{ID: id}
	e.server, e.missing = s, (*clauses)(&s.Missing)
	out := Imported{ID: id, Enabled: e.enabled() && !e.off(id)}
	im := importer{entry: e, out: &out, names: names}
	add := func(name string, value any, present bool) {
		if present {
			out.Keys = append(out.Keys, Key{name, value})
		}
	}
	if f, ok := e.field("description"); ok && f.value.Kind == tree.String {
		add("description", im.named(f.value, "", id), true)
	}
	transport, fallback, _, declared := remoteKeys{e}.declared()
	add("type", string(transport), declared && !fallback && transport != TransportStdio)
	command, args := im.command()
	add("command", command, command != "")
	add("args", args, len(args) > 0)
	env, optional := im.env()
	add("env", env, len(env) > 0)
	add("env_vars", optional, len(optional) > 0)
	for _, names := range [][]string{{"envFile"}, {"cwd", "workingDirectory"}} {
		if f, ok := e.find(names...); ok && f.value.Kind == tree.String {
			add(names[0], im.named(f.value, "", id), true)
		}
	}
	address := im.url()
	add("url", address, address != "")
	headers := im.headers()
	add("headers", headers, len(headers) > 0)
	if transport != TransportStdio {
		oauth := im.oauth()
		add("oauth", oauth, len(oauth) > 0)
	}
	for _, name := range []string{"trackTools", "trackPrompts", "include", "exclude", "read", "mode", "pollInterval", "safetyInterval",
		"catalogInterval", "events", "onConnect", "protocol", "connectTimeout", "requestTimeout", "shared"} {
		names := []string{name}
		if name == "protocol" {
			names = append(names, "protocolEra")
		}
		if f, ok := e.find(names...); ok {
			add(name, im.any(f.value, ""), true)
		}
	}
	return out
}

// secret returns the reference that replaces a secret in a value.
func (im *importer) secret(n *tree.Node, secret, name string) string {
	name = strings.ToUpper(strings.Join(credential.Words(name), "_"))
	if name == "" || '0' <= name[0] && name[0] <= '9' || !isShellName(name) || credential.Doubtful(name) {
		name = "MCP_SECRET"
	}
	name = im.names.take(name, secret)
	line, _ := im.Position(n.Offset)
	im.out.Variables = append(im.out.Variables, Variable{Name: name, File: im.file, Line: line})
	return "${" + name + "}"
}

// replaced returns a value with its references in our form and its secrets replaced. The
// variables that replace them are named after label and the name that the secret stands under.
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

// references returns a text with its references in our form. If the name in a reference may be
// a token, another name replaces it.
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
		case credential.Doubtful(name):
			out.WriteString(im.secret(n, reference, label+" secret"))
		case name == "CLAUDE_PLUGIN_ROOT" && im.expander.plugin != "":
			out.WriteString(im.pluginRoot())
		default:
			out.WriteString(im.expander.portable(reference))
		}
		text = after
	}
}

// pluginRoot returns the folder of the plugin that the file belongs to, because
// ${CLAUDE_PLUGIN_ROOT} would have no value in a config elsewhere.
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

// named converts a string that stands under a name, such as that of a header.
func (im *importer) named(n *tree.Node, name, label string) string {
	return im.replaced(n, credential.Find(name, n.Text), label)
}

// variable returns a reference to the environment variable whose name is the value of n.
func (im *importer) variable(n *tree.Node, label string) string {
	if credential.Doubtful(n.Text) {
		return im.secret(n, n.Text, label)
	}
	return "${" + n.Text + "}"
}

func (im *importer) command() (command string, args []any) {
	_, f, _, raw := programKeys{im.entry}.command(func(int) string { return "" })
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

// env returns the variables of the server, and the names of those that it is given only if they
// are set.
func (im *importer) env() (env map[string]any, optional []any) {
	env = map[string]any{}
	for _, key := range passedOnKeys() {
		f, _ := im.field(key)
		if f.value == nil {
			continue
		}
		for _, item := range f.value.Items {
			switch name := passedOnName(item); {
			case key == "env_vars" && !credential.Doubtful(name.Text):
				optional = append(optional, name.Text)
			case key == "env_keys" && !credential.Doubtful(name.Text):
				env[name.Text] = "${" + name.Text + "}"
			}
		}
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
			if m.Value.Kind == tree.Null {
				env[name] = nil
			} else {
				env[name] = im.named(m.Value, name, name)
			}
		}
	}
	return env, optional
}

func (im *importer) url() string {
	f, ok := remoteKeys{im.entry}.findURL()
	if !ok || f.value.Kind != tree.String {
		return ""
	}
	return im.replaced(f.value, credential.FindURL(f.value.Text), im.out.ID)
}

func (im *importer) headers() map[string]any {
	headers := map[string]any{}
	for _, name := range headerKeys() {
		f, ok := im.field(name)
		switch {
		case !ok:
		case name == "bearer_token_env_var":
			headers["Authorization"] = "Bearer " + im.variable(f.value, im.out.ID+" authorization")
		case name == "env_http_headers":
			for header, m := range firstMembers(f.value) {
				headers[header] = im.variable(m.Value, im.out.ID+" "+header)
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
				if m.Value.Kind == tree.String {
					headers[header] = im.named(m.Value, header, im.out.ID)
				}
			}
		}
	}
	return headers
}

// oauth converts the login settings: keys of other hosts get our names, and those that only
// they use are left out.
func (im *importer) oauth() map[string]any {
	out := map[string]any{}
	cursor := false
	for _, key := range []string{"auth", "oauth"} { // the last counts, as in oauthKeys.oauth
		f, ok := im.field(key)
		if !ok || f.value.Kind != tree.Object {
			continue
		}
		cursor = cursor || key == "auth"
		members := f.value.Index()
		for _, name := range oauthMembers() {
			for _, spelling := range oauthSpellings(name) {
				if m := members[spelling]; m != nil && m.Value.Kind != tree.Null {
					out[name] = im.any(m.Value, name)
				}
			}
		}
	}
	if f, ok := im.field("scopes"); ok && f.value.Kind == tree.List && out["scopes"] == nil { // Codex
		out["scopes"] = im.any(f.value, "")
	}
	if cursor && out["clientId"] != nil && out["callbackPort"] == nil && out["redirectUri"] == nil {
		out["redirectUri"] = cursorRedirect
	}
	return out
}

// any converts the value of one of our own keys.
func (im *importer) any(n *tree.Node, name string) any {
	switch n.Kind {
	case tree.Object:
		out := make(map[string]any, len(n.Members))
		for key, m := range firstMembers(n) {
			out[key] = im.any(m.Value, key)
		}
		return out
	case tree.List:
		out := make([]any, len(n.Items))
		for i, item := range n.Items {
			out[i] = im.any(item, name)
		}
		return out
	case tree.String:
		return im.named(n, name, im.out.ID)
	}
	return trackingKeys{im.entry}.any(n, "", "")
}
