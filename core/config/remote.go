package config

import (
	"cmp"
	"fmt"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/mcptrack/mcptrack/core/config/tree"
	"github.com/mcptrack/mcptrack/core/ipscope"
	"github.com/mcptrack/mcptrack/core/suggest"
)

// transportTypes maps the type names used by hosts, normalised by suggest.Plain, to transports.
func transportTypes() map[string]Transport {
	return map[string]Transport{"stdio": TransportStdio, "local": TransportStdio, "command": TransportStdio, "http": TransportHTTP,
		"streamablehttp": TransportHTTP, "streamable": TransportHTTP, "httpstream": TransportHTTP, "remote": TransportHTTP,
		"sse": TransportSSE, "httpsse": TransportSSE, "catalog": TransportCatalog}
}

// declared returns the transport specified by the entry's "type". fallback is true if http may fall
// back to sse, because the type is "remote" or absent. ok is false if the type is absent or unknown.
// In a file that may be another program's, an unknown type is ignored if the entry has either a command or
// a URL.
func (e *entry) declared() (t Transport, fallback bool, f field, ok bool) {
	_, hasCommand := e.first("command")
	_, hasURL := e.first("url")
	settled := e.form != own && hasCommand != hasURL
	if f, ok := e.first("type"); ok && settled && f.value.Kind != tree.String {
		e.unknownType(f)
		return "", true, f, false
	}
	value, f, ok := e.text(e.keys.get("type").spellings...)
	if !ok {
		return "", f.value == nil, f, false
	}
	plain := suggest.Plain(value)
	t, ok = transportTypes()[plain]
	switch {
	case ok:
	case plain == "ws" || plain == "websocket":
		e.noWebsocket(f)
	case settled && !e.expander.refers(f.value.Text):
		e.unknownType(f)
		return "", true, f, false
	default:
		e.notOneOf(f, value, []string{"catalog", "http", "sse", "stdio", "streamable-http", "streamableHttp"})
	}
	return t, plain == "remote", f, ok
}

func (e *entry) unknownType(f field) {
	types := []string{"stdio", "http", "sse", "catalog"}
	hint := cmp.Or(didYouMean(f.value.Text, types), "mcptrack knows "+strings.Join(types, ", "))
	e.warnAt(f.key, f.path, CodeForeign, fmt.Sprintf("%s has a %q that mcptrack does not know and ignores", e.label, f.name), hint)
}

// noWebsocket reports, once per server, that websocket is not supported.
func (e *entry) noWebsocket(f field) {
	const clause = "transport websocket is not supported"
	if !slices.Contains(*e.missing, clause) {
		e.lacks(f.value, f.path, CodeUnsupported, clause, `use "http" if the server supports it`)
	}
}

// transport determines how to connect to the server, and reports contradictory keys.
func (e *entry) transport(s *Server) {
	declared, fallback, typeField, known := e.declared()
	command, hasCommand := e.first("command")
	address, hasURL := e.first("url")

	missing := func(key, hint string) {
		if !s.Enabled { // in opencode such an entry disables a server defined in another file
			return
		}
		at, path := e.object.Offset, e.path
		if m := e.object.Get(key); m != nil { // the key is present, but null or ""
			at, path, hint = m.Value.Offset, e.path.key(key), ""
		}
		e.errorAt(at, path, CodeMissing, fmt.Sprintf(`%s must include a non-empty string %q`, e.label, key), hint)
	}
	mismatch := func(f field) {
		e.errorAt(typeField.value.Offset, typeField.path, CodeConflict,
			fmt.Sprintf("%s is of type %q, which has no %q", e.label, declared, f.name), "")
	}
	switch {
	case hasCommand && hasURL:
		later := later(command, address)
		e.errorAt(later.key, later.path, CodeConflict,
			fmt.Sprintf("%s has both %q and %q", e.label, command.name, address.name),
			"a server has either a program or a URL; keep one of them")
	case !hasCommand && !hasURL && known && declared != TransportStdio:
		missing("url", "")
	case !hasCommand && !hasURL:
		hint := `or a "url", for a server over HTTP`
		if declared == TransportStdio {
			hint = ""
		}
		missing("command", hint)
	case declared == TransportStdio && hasURL:
		mismatch(address)
	case known && declared != TransportStdio && hasCommand:
		mismatch(command)
	}
	switch {
	case known:
		s.Transport, s.Fallback = declared, fallback
	case hasURL && !hasCommand:
		s.Transport, s.Fallback = TransportHTTP, fallback
	default:
		s.Transport = TransportStdio
	}
}

// remote reads how to connect to a server over HTTP.
func (e *entry) remote(spellings []string, s *Server) {
	address, headers := e.url(spellings, s), e.headers()
	if s.Transport != TransportStdio {
		s.URL, s.Headers = NewSecret(address), headers
	}
}

// url returns the URL, or an empty string if it is absent or was reported as invalid. No message
// quotes any part of the URL.
func (e *entry) url(spellings []string, s *Server) string {
	f, ok := e.find(spellings...)
	if !ok {
		return ""
	}
	needs := fmt.Sprintf("%s must include a non-empty string %q", e.label, f.name)
	if f.value.Kind != tree.String {
		e.errorAt(f.value.Offset, f.path, CodeType, needs, "")
		return ""
	}
	e.secretURL(f.value.Text, f)
	e.bareVariable(f.value, f.path, f.name)
	value, ok := e.expand(f.value, f.path, f.name)
	if !ok {
		return ""
	}
	value = strings.TrimSpace(value)
	if value == "" && strings.TrimSpace(f.value.Text) == "" {
		e.errorAt(f.value.Offset, f.path, CodeValue, needs, "")
		return ""
	}
	if lower := strings.ToLower(value); strings.HasPrefix(lower, "ws://") || strings.HasPrefix(lower, "wss://") {
		e.noWebsocket(f)
		return ""
	}
	u, what, hint := checkURL(value)
	if what == "" && s.Transport == TransportCatalog && (u.RawQuery != "" || u.ForceQuery || u.Fragment != "") {
		what, hint = "the URL of a catalog must not have a query or a fragment",
			`specify the base URL, to which /api/version is appended; put credentials in "headers"`
	}
	if what != "" {
		e.invalidValue(f.value, f.path, CodeURL, fmt.Sprintf("invalid %q; %s", f.name, what), hint)
		return ""
	}
	if strings.EqualFold(u.Scheme, "http") && !ipscope.Loopback(u.Hostname()) {
		e.warnAt(f.value.Offset, f.path, CodeInsecureURL,
			fmt.Sprintf("%s uses an unencrypted connection", e.label), "use https; http is safe only for servers on this machine")
	}
	if s.Transport == TransportHTTP && !s.Fallback && strings.HasSuffix(strings.TrimSuffix(u.Path, "/"), "/sse") {
		e.warnAt(f.value.Offset, f.path, CodeTransport,
			fmt.Sprintf(`%s is of type "http", but its URL ends in "/sse"`, e.label), `for the older transport, set "type" to "sse"`)
	}
	return value
}

// checkURL returns the parsed URL, or what is wrong with it and a hint.
func checkURL(value string) (u *url.URL, what, hint string) {
	u, err := url.Parse(value)
	hint = `write "https://HOST/PATH"`
	switch {
	case value == "":
		return nil, "it is empty", ""
	case strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) }):
		return nil, "it has a no-break space or an invisible character", "remove it"
	case err != nil:
		return nil, "it is not a URL", hint
	case !strings.EqualFold(u.Scheme, "http") && !strings.EqualFold(u.Scheme, "https"):
		return nil, "its scheme must be http or https", hint
	case u.Hostname() == "":
		return nil, "it has no host", hint
	case u.Opaque != "":
		return nil, `it lacks "//" after the scheme`, hint
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, "its port must be from 1 to 65535", ""
		}
	}
	return u, "", ""
}

// withHeaders returns the entry, and the objects in it that may have keys for headers, too: "requestOptions" of
// Continue and "auth" of Mistral Vibe.
func (e *entry) withHeaders() []*entry {
	all := []*entry{e}
	for _, name := range []string{"requestOptions", "auth"} {
		if f, ok := e.field(name); ok && f.value.Kind == tree.Object {
			all = append(all, e.inside(f))
		}
	}
	return all
}

// headerFields returns the fields of all hosts with objects of headers.
func (e *entry) headerFields() (all []field) {
	for _, in := range e.withHeaders() {
		for _, name := range []string{"headers", "http_headers", "env_http_headers"} {
			if f, ok := in.field(name); ok {
				all = append(all, f)
			}
		}
	}
	return all
}

// A variableHeader is a header whose value is a prefix, followed by the value of the variable that a field names.
type variableHeader struct {
	field
	header, prefix string
}

// variableHeaders returns the headers that have keys of their own: "bearer_token_env_var" of Codex,
// "bearerTokenEnvVar" of Kimi Code, and "api_key_env" of Mistral Vibe.
func (e *entry) variableHeaders() (all []variableHeader) {
	for _, in := range e.withHeaders() {
		for _, name := range []string{"bearer_token_env_var", "bearerTokenEnvVar", "api_key_env"} {
			f, ok := in.field(name)
			if !ok {
				continue
			}
			v := variableHeader{f, "Authorization", "Bearer "}
			if h, ok := in.field("api_key_header"); ok {
				v.header = h.value.Text
			}
			if format, ok := in.field("api_key_format"); ok {
				if v.prefix, ok = strings.CutSuffix(format.value.Text, "{token}"); !ok {
					e.invalid(format, `text that ends in "{token}"`, "")
				}
			}
			all = append(all, v)
		}
	}
	return all
}

func (e *entry) headers() map[string]Secret {
	headers := map[string]Secret{}
	seen := map[string]string{}
	for _, f := range e.headerFields() {
		if f.value.Kind != tree.Object {
			e.invalid(f, "object of strings", `write {"Name": "value"}`)
			continue
		}
		for key, m := range firstMembers(f.value) {
			e.header(f, key, m, headers, seen)
		}
	}
	for _, v := range e.variableHeaders() {
		_, written := seen[textproto.CanonicalMIMEHeaderKey(v.header)]
		switch {
		case v.value.Kind != tree.String:
			e.invalid(v.field, "string", "write the name of a variable, such as API_TOKEN")
		case !validHeaderName(v.header):
			e.errorAt(v.key, v.path, CodeHeader, e.label+" has an invalid header name", "")
		case !written:
			e.fromVariable(v.value, v.path, v.header, v.prefix, headers)
		}
	}
	return headers
}

func validHeaderName(name string) bool { return alphanumeric(name, "!#$%&'*+-.^_`|~") }

func (e *entry) header(f field, name string, m *tree.Member, headers map[string]Secret, seen map[string]string) {
	if e.expander.refers(name) { // a placeholder that was not filled in
		e.lacks(m.Value, f.path, CodeHeader, "a header name has a reference, which is only expanded in values", `write {"Name": "${VALUE}"}`)
		return
	}
	if !validHeaderName(name) {
		e.errorAt(m.Offset, f.path, CodeHeader, e.label+" has an invalid header name", `write {"Name": "value"}`)
		return
	}
	path := f.path.key(name)
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	if first, ok := seen[canonical]; ok {
		e.errorAt(m.Offset, path, CodeConflict,
			fmt.Sprintf("%s has header %s twice; it is already set as %s", e.label, quote(name), quote(first)), "header names are case-insensitive; keep one of them")
		return
	}
	seen[canonical] = name
	switch {
	case m.Value.Kind == tree.Null:
	case m.Value.Kind != tree.String:
		e.errorAt(m.Value.Offset, path, CodeType, fmt.Sprintf("%s header %s must be a string", e.label, quote(name)), "")
	case f.name == "env_http_headers":
		e.fromVariable(m.Value, path, name, "", headers)
	default:
		e.plaintext(name, m.Value, path, "header "+quote(name))
		e.bareVariable(m.Value, path, "headers."+name)
		value, ok := e.expand(m.Value, path, "headers."+name)
		if !ok {
			return
		}
		if !validHeaderValue(value) {
			e.invalidValue(m.Value, path, CodeHeader, fmt.Sprintf("control characters in the value of header %s", quote(name)), "")
			return
		}
		headers[name] = NewSecret(value)
	}
}

// fromVariable sets a header to prefix followed by the value of the variable whose name is in n.
func (e *entry) fromVariable(n *tree.Node, path pointer, name, prefix string, headers map[string]Secret) {
	value, err := e.expander.byName(n.Text)
	if err != nil {
		e.lacks(n, path, err.code, quote("headers."+name)+" "+err.message, err.hint)
		return
	}
	if !validHeaderValue(value) {
		e.lacks(n, path, CodeHeader, fmt.Sprintf("control characters in the value of header %s", quote(name)), "")
		return
	}
	headers[name] = NewSecret(prefix + value)
}

// validHeaderValue reports whether a value can be sent in a header: it contains no control
// characters, such as line breaks.
func validHeaderValue(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) < 0
}
