package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mcptrack/mcptrack/core/config/tree"
)

// minPollInterval keeps a typing mistake from becoming a busy loop.
const minPollInterval = 100 * time.Millisecond

// minSafetyInterval is that of reads that should find nothing.
const minSafetyInterval = time.Second

// add reads the entry as a server and adds it. It always reads all of it, so that no
// problem hides another.
func (e *entry) add(id string) {
	if e.isBuiltin() {
		return
	}
	if e.visit != nil {
		e.visit(e, id)
		return
	}
	s := Server{ID: id}
	e.server = &s
	s.Enabled = e.enabled() // first, because a disabled server may lack anything
	s.Description = e.description()
	e.expander.secrets = nil
	e.transport(&s)
	programKeys{e}.stdio(&s)
	remoteKeys{e}.remote(&s)
	oauthKeys{e}.oauth(&s)
	s.OnConnect = trackingKeys{e}.onConnect()
	s.Secrets = e.expander.secrets
	trackingKeys{e}.tracking(&s)
	e.catalog(&s)
	e.noteUnsupported()
	e.unknownKeys(e.object, e.path, e.label, serverKeys(), foreignKeys())
	e.config.Servers = append(e.config.Servers, s)
}

// isBuiltin reports whether the entry is a part of its host rather than a server:
// nobody else can reach it.
func (e *entry) isBuiltin() bool {
	if f, ok := e.field("type"); ok { // Goose
		return slices.Contains([]string{"builtin", "platform", "frontend", "inline_python"}, f.value.Text)
	}
	_, hasURL := remoteKeys{e}.findURL()
	if e.members["command"] != nil || e.members["cmd"] != nil || hasURL {
		return false
	}
	if f, ok := e.field("source"); ok && f.value.Text == "extension" { // Zed
		return true
	}
	if !strings.HasPrefix(string(e.path), "/context_servers/") {
		return false
	}
	e.warnAt(e.object.Offset, e.path, CodeUnsupported,
		e.label+` has neither "command" nor "url" and is skipped; extensions of Zed start such servers`, "")
	return true
}

// description reads a text for people. References in it that cannot be replaced stay
// as they are: no server fails for want of them.
func (e *entry) description() string {
	f, ok := e.find("description")
	if !ok {
		return ""
	}
	if f.value.Kind != tree.String {
		e.invalid(f, "string", "")
		return ""
	}
	if value, errs := e.expander.expand(f.value.Text); len(errs) == 0 {
		return value
	}
	return f.value.Text
}

// enabled reads "enabled" and its opposite, "disabled".
func (e *entry) enabled() bool {
	enabled, disabled := e.boolean("enabled", true), e.boolean("disabled", false)
	on, hasOn := e.find("enabled")
	off, hasOff := e.find("disabled")
	if !hasOff {
		return enabled
	}
	if !hasOn {
		return !disabled
	}
	if on.value.Kind == tree.Bool && off.value.Kind == tree.Bool && enabled == disabled {
		later := off
		if on.key > off.key {
			later = on
		}
		e.errorAt(later.key, later.path, CodeConflict,
			fmt.Sprintf(`%s has "enabled" and "disabled" that contradict each other`, e.label), "keep one of them")
	}
	return enabled
}

// transportTypes are the types in the words of the hosts, without case, "-" and "_".
func transportTypes() map[string]Transport {
	return map[string]Transport{"stdio": TransportStdio, "local": TransportStdio, "http": TransportHTTP,
		"streamablehttp": TransportHTTP, "remote": TransportHTTP, "sse": TransportSSE, "catalog": TransportCatalog}
}

// declared returns the transport that the entry names. "remote" leaves open which of
// the two over HTTP it is.
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

// noWebsocket reports, once, that the server cannot be reached.
func (e remoteKeys) noWebsocket(f field) {
	const clause = "transport websocket is not supported"
	if !slices.Contains(e.server.Missing, clause) {
		e.lacks(f.value, f.path, CodeUnsupported, clause, `use "http" if the server offers it`)
	}
}

// transport decides how the server is reached and reports what does not go
// together.
func (e *entry) transport(s *Server) {
	declared, fallback, typeField, known := remoteKeys{e}.declared()
	command, hasCommand := e.field("command")
	if !hasCommand {
		command, hasCommand = e.field("cmd")
	}
	address, hasURL := remoteKeys{e}.findURL()

	missing := func(key, hint string) {
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
func urlKeys() []string { return []string{"url", "serverUrl", "httpUrl", "uri"} }

// findURL returns the first of them, without a comparison.
func (e remoteKeys) findURL() (field, bool) {
	for _, name := range urlKeys() {
		if f, ok := e.field(name); ok {
			return f, true
		}
	}
	return field{}, false
}

// ineffective reports keys that the transport has no use for. Headers on a
// program are an error, because they are credentials that would never be sent.
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

// tracking reads what is to be followed.
func (e trackingKeys) tracking(s *Server) {
	s.TrackResources = e.boolean("trackResources", false)
	s.TrackTools = e.boolean("trackTools", s.TrackResources)
	s.TrackPrompts = e.boolean("trackPrompts", s.TrackResources)
	s.Include, s.Exclude = e.globs("include"), e.globs("exclude")
	s.Read, _, _ = choice(e.entry, ReadDigest, map[string]ReadMode{"digest": ReadDigest, "none": ReadNone}, "read")
	s.Mode, _, _ = choice(e.entry, ModeAuto, map[string]Mode{"auto": ModeAuto, "poll": ModePoll}, "mode")
	s.PollInterval = e.duration("pollInterval", DefaultPollInterval, minPollInterval)
	s.SafetyInterval = e.durationOrZero("safetyInterval", DefaultSafetyInterval, minSafetyInterval)
	s.ConnectTimeout = e.duration("connectTimeout", 0, time.Millisecond)
	s.RequestTimeout = e.duration("requestTimeout", DefaultRequestTimeout, time.Millisecond)

	protocol, f, ok := choice(e.entry, ProtocolAuto, map[string]Protocol{"auto": ProtocolAuto, "legacy": ProtocolLegacy,
		"modern": ProtocolModern}, "protocol", "protocolEra")
	s.Protocol = protocol
	if ok && protocol == ProtocolModern && s.Transport == TransportSSE {
		e.errorAt(f.value.Offset, f.path, CodeConflict,
			fmt.Sprintf(`%s has %q "modern", which the sse transport does not speak`, e.label, f.name),
			`use type "http", or leave the protocol to "auto"`)
	}
}

// printableID reports whether s is short and made of visible characters and
// ASCII spaces only: an ID is shown in logs, tables and event streams.
func printableID(s string) bool {
	return utf8.RuneCountInString(s) <= maxID &&
		strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}
