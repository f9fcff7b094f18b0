package config

import (
	"fmt"
	"net/netip"
	"net/textproto"
	"net/url"
	"strings"

	"github.com/tailscale/hujson"
)

// remote reads how a server is reached over HTTP.
func (e *entry) remote(s *Server) {
	address := e.url(s)
	headers := e.headers()
	if s.Transport != TransportStdio {
		s.URL, s.Headers = NewSecret(address), headers
	}
}

// url returns the checked URL, "" if it is absent or reported. No message quotes
// any part of it.
func (e *entry) url(s *Server) string {
	f, ok := e.find("url", "serverUrl", "httpUrl")
	if !ok {
		return ""
	}
	if !isString(f.value) {
		e.errorAt(f.value.StartOffset, f.path, CodeType, fmt.Sprintf("%s must include a non-empty string %q", e.label, f.name), "")
		return ""
	}
	raw := text(f.value)
	e.secretURL(raw, f)
	value, ok := e.expand(f.value, f.path, f.name)
	if !ok {
		return ""
	}
	value = strings.TrimSpace(value)
	bad := func(code Code, what, hint string) string {
		e.errorAt(f.value.StartOffset, f.path, code, fmt.Sprintf("%s has invalid %q; %s", e.label, f.name, what), hint)
		return ""
	}
	if value == "" {
		e.errorAt(f.value.StartOffset, f.path, CodeValue, fmt.Sprintf("%s must include a non-empty string %q", e.label, f.name), "")
		return ""
	}
	u, err := url.Parse(value)
	switch {
	case err != nil:
		return bad(CodeURL, "it is not a URL", `write "https://HOST/PATH"`)
	case !strings.EqualFold(u.Scheme, "http") && !strings.EqualFold(u.Scheme, "https"):
		return bad(CodeURL, "its scheme must be http or https", `write "https://HOST/PATH"`)
	case u.Hostname() == "":
		return bad(CodeURL, "it has no host", `write "https://HOST/PATH"`)
	case u.Opaque != "":
		return bad(CodeURL, `it lacks "//" after the scheme`, `write "https://HOST/PATH"`)
	case s.Transport == TransportCatalog && (u.RawQuery != "" || u.ForceQuery || u.Fragment != ""):
		return bad(CodeURL, "that of a catalog has no query and no fragment",
			`write the base that /api/version comes after; credentials go into "headers"`)
	}
	if strings.EqualFold(u.Scheme, "http") && !loopback(u.Hostname()) {
		e.warnAt(f.value.StartOffset, f.path, CodeInsecureURL,
			fmt.Sprintf("%s is reached without encryption", e.label), "use https; http is for this machine")
	}
	if s.Transport == TransportHTTP && !s.Fallback && strings.HasSuffix(strings.TrimSuffix(u.Path, "/"), "/sse") {
		e.warnAt(f.value.StartOffset, f.path, CodeTransport,
			fmt.Sprintf(`%s is of type "http", but its URL ends in "/sse"`, e.label), `for the older transport, set "type" to "sse"`)
	}
	return value
}

// loopback reports whether a host name or address is this machine.
func loopback(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

func (e *entry) headers() map[string]Secret {
	f, ok := e.find("headers")
	if !ok {
		return nil
	}
	object, ok := f.value.Value.(*hujson.Object)
	if !ok {
		e.invalid(f, "object of strings", `write {"Name": "value"}`)
		return nil
	}
	headers, seen := make(map[string]Secret, len(object.Members)), map[string]string{}
	for name, m := range firstMembersInOrder(object) {
		if !isToken(name) {
			e.errorAt(m.Name.StartOffset, f.path, CodeHeader, fmt.Sprintf("%s has an invalid header name", e.label),
				`write {"Name": "value"}`)
			continue
		}
		path := f.path.key(name)
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		if first, ok := seen[canonical]; ok {
			e.errorAt(m.Name.StartOffset, path, CodeConflict,
				fmt.Sprintf("%s has header %s twice, as %s before", e.label, quote(name), quote(first)), "case does not matter; keep one")
			continue
		}
		seen[canonical] = name
		if !isString(&m.Value) {
			e.errorAt(m.Value.StartOffset, path, CodeType, fmt.Sprintf("%s header %s must be a string", e.label, quote(name)), "")
			continue
		}
		e.plaintext(name, &m.Value, path, "header "+quote(name))
		value, ok := e.expand(&m.Value, path, "headers."+name)
		if !ok {
			continue
		}
		if !validHeaderValue(value) {
			e.errorAt(m.Value.StartOffset, path, CodeHeader,
				fmt.Sprintf("%s header %s has a value with control characters", e.label, quote(name)), "")
			continue
		}
		headers[name] = NewSecret(value)
	}
	return headers
}

// isToken reports whether s is a field name of RFC 9110, section 5.6.2.
func isToken(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", r))
	}) < 0
}

// validHeaderValue keeps line breaks and other controls out of requests.
func validHeaderValue(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) < 0
}
