package config

import (
	"fmt"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"

	"github.com/mcptrack/mcptrack/core/config/tree"
	"github.com/mcptrack/mcptrack/core/ipscope"
)

// remoteKeys reads the keys of an entry that say how a server is reached over HTTP.
type remoteKeys struct{ *entry }

// remote reads how a server is reached over HTTP.
func (e remoteKeys) remote(s *Server) {
	address := e.url(s)
	headers := e.headers()
	if s.Transport != TransportStdio {
		s.URL, s.Headers = NewSecret(address), headers
	}
}

// url returns the URL if it is valid; "" if it is absent, or invalid and reported. No message
// quotes any part of it.
func (e remoteKeys) url(s *Server) string {
	f, ok := e.find(urlKeys()...)
	if !ok {
		return ""
	}
	needs := fmt.Sprintf("%s must include a non-empty string %q", e.label, f.name)
	if f.value.Kind != tree.String {
		e.errorAt(f.value.Offset, f.path, CodeType, needs, "")
		return ""
	}
	e.secretURL(f.value.Text, f)
	programKeys(e).bareVariable(f.value, f.path, f.name)
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
			`write the base URL, to which /api/version is appended; put credentials into "headers"`
	}
	if what != "" {
		e.invalidValue(f.value, f.path, CodeURL, fmt.Sprintf("invalid %q; %s", f.name, what), hint)
		return ""
	}
	if strings.EqualFold(u.Scheme, "http") && !ipscope.Loopback(u.Hostname()) {
		e.warnAt(f.value.Offset, f.path, CodeInsecureURL,
			fmt.Sprintf("%s is reached without encryption", e.label), "use https; http is safe only for servers on this machine")
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
	case strings.ContainsAny(value, noBreakSpaces):
		return nil, "it has a no-break space", "remove it"
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

// headerKeys are the keys that set headers; the last three are those of Codex and Continue.
func headerKeys() []string {
	return []string{"headers", "http_headers", "env_http_headers", "bearer_token_env_var", "requestOptions"}
}

// headers returns the headers that every request to the server carries.
func (e remoteKeys) headers() map[string]Secret {
	headers := map[string]Secret{}
	seen := map[string]string{}
	for _, name := range headerKeys() {
		f, ok := e.field(name)
		if !ok {
			continue
		}
		if name == "requestOptions" {
			m := f.value.Get("headers")
			if m == nil {
				continue
			}
			f = field{name: "headers", key: m.Offset, value: m.Value, path: f.path.key("headers")}
		}
		switch {
		case name == "bearer_token_env_var" && f.value.Kind == tree.String:
			e.fromVariable(f.value, f.path, "Authorization", "Bearer ", headers)
		case name == "bearer_token_env_var":
			e.invalid(f, "string", "write the name of a variable, such as API_TOKEN")
		case f.value.Kind != tree.Object:
			e.invalid(f, "object of strings", `write {"Name": "value"}`)
		default:
			for key, m := range firstMembers(f.value) {
				e.header(f, key, m, headers, seen)
			}
		}
	}
	if len(headers) == 0 {
		return nil
	}
	return headers
}

// header reads one member of an object of headers.
func (e remoteKeys) header(f field, name string, m *tree.Member, headers map[string]Secret, seen map[string]string) {
	if e.expander.refers(name) { // a reference in the name: a template that was not filled in
		e.lacks(m.Value, f.path, CodeHeader, "a header name has a reference, which is only expanded in values", `write {"Name": "${VALUE}"}`)
		return
	}
	if !isToken(name) {
		e.errorAt(m.Offset, f.path, CodeHeader, fmt.Sprintf("%s has an invalid header name", e.label),
			`write {"Name": "value"}`)
		return
	}
	path := f.path.key(name)
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	if first, ok := seen[canonical]; ok {
		e.errorAt(m.Offset, path, CodeConflict,
			fmt.Sprintf("%s has header %s twice, as %s before", e.label, quote(name), quote(first)), "header names ignore case; keep one of them")
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
		programKeys(e).bareVariable(m.Value, path, "headers."+name)
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

// fromVariable sets a header to the value of the variable that n names.
func (e remoteKeys) fromVariable(n *tree.Node, path pointer, name, prefix string, headers map[string]Secret) {
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

// isToken reports whether s is a field name of RFC 9110, section 5.6.2.
func isToken(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", r))
	}) < 0
}

// validHeaderValue reports whether a value can be sent: line breaks and other controls must not
// reach a request.
func validHeaderValue(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) < 0
}
