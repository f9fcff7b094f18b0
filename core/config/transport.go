package config

import (
	"fmt"
	"slices"
)

// transportTypes maps the spellings of a type that hosts use, in lower case without "-" and
// "_", to transports.
func transportTypes() map[string]Transport {
	return map[string]Transport{"stdio": TransportStdio, "local": TransportStdio, "command": TransportStdio, "http": TransportHTTP,
		"streamablehttp": TransportHTTP, "streamable": TransportHTTP, "httpstream": TransportHTTP, "remote": TransportHTTP,
		"sse": TransportSSE, "httpsse": TransportSSE, "catalog": TransportCatalog}
}

// declared returns the transport that the entry's "type" or "transport" names. "remote" means
// either HTTP transport, and sets fallback. ok is false if the key is absent or its value
// unknown.
func (e remoteKeys) declared() (t Transport, fallback bool, f field, ok bool) {
	value, f, ok := e.text("type", "transport")
	if !ok {
		return "", f.value == nil, f, false
	}
	plain := plainKey(value)
	t, ok = transportTypes()[plain]
	switch {
	case ok:
	case plain == "ws" || plain == "websocket":
		e.noWebsocket(f)
	default:
		e.notOneOf(f, value, []string{"catalog", "http", "sse", "stdio", "streamable-http", "streamableHttp"})
	}
	return t, plain == "remote", f, ok
}

// noWebsocket reports, once per server, that websocket is not supported.
func (e remoteKeys) noWebsocket(f field) {
	const clause = "transport websocket is not supported"
	if !slices.Contains(*e.missing, clause) {
		e.lacks(f.value, f.path, CodeUnsupported, clause, `use "http" if the server offers it`)
	}
}

// transport decides how the server is reached and reports keys that contradict each other.
func (e *entry) transport(s *Server) {
	declared, fallback, typeField, known := remoteKeys{e}.declared()
	command, hasCommand := e.field("command")
	if !hasCommand {
		command, hasCommand = e.field("cmd")
	}
	address, hasURL := remoteKeys{e}.findURL()

	missing := func(key, hint string) {
		if !s.Enabled { // such an entry switches off a server of another file, as in opencode
			return
		}
		at, path := e.object.Offset, e.path
		if m := e.object.Get(key); m != nil { // null or ""
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
		later := address
		if command.key > address.key {
			later = command
		}
		e.errorAt(later.key, later.path, CodeConflict,
			fmt.Sprintf("%s has both %q and %q", e.label, command.name, address.name),
			"a server is either a program or a URL; keep one")
	case !hasCommand && !hasURL && known && declared != TransportStdio:
		missing("url", "")
	case !hasCommand && !hasURL:
		hint := `or a "url", if it is reached over HTTP`
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
	e.ineffective(s)
}

// urlKeys are the spellings of "url".
func urlKeys() []string { return []string{"url", "serverUrl", "httpUrl", "uri", "tcp"} }

// findURL returns the first of urlKeys that is set, without reporting others that differ.
func (e remoteKeys) findURL() (field, bool) {
	for _, name := range urlKeys() {
		if f, ok := e.field(name); ok {
			return f, true
		}
	}
	return field{}, false
}

// ineffective reports keys that the transport does not use. Headers of a program are an error,
// because they are credentials that would never be sent.
func (e *entry) ineffective(s *Server) {
	if s.Transport == TransportStdio {
		for _, name := range headerKeys() {
			if f, ok := e.present(name); ok {
				e.errorAt(f.key, f.path, CodeConflict, fmt.Sprintf(`%s has %q, but is reached over stdio`, e.label, name),
					`give a program its credentials in "env"`)
			}
		}
		return
	}
	for _, name := range []string{"args", "env", "environment", "envs", "env_vars", "envFile", "cwd", "workingDirectory"} {
		if f, ok := e.present(name); ok {
			e.warnAt(f.key, f.path, CodeIneffective,
				fmt.Sprintf("%s has %q, which does nothing for a server reached over HTTP", e.label, f.name), "")
		}
	}
}
