package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// minPollInterval keeps a typing mistake from becoming a busy loop.
const minPollInterval = 100 * time.Millisecond

// server reads the entry and keeps it. It always reads all of it, so that no
// problem hides another.
func (e *entry) server(id string) {
	s := Server{ID: id}
	s.Description, _, _ = e.text("description")
	s.Enabled = e.enabled()
	e.expander.secrets = nil
	e.transport(&s)
	e.stdio(&s)
	e.remote(&s)
	s.OnConnect = e.onConnect()
	s.Secrets = e.expander.secrets
	e.tracking(&s)
	e.catalog(&s)
	own := make([]string, 0, 32)
	for name, others := range serverKeys() {
		own = append(append(own, name), others...)
	}
	slices.Sort(own)
	e.unknownKeys(e.object, e.path, e.label, own, foreignKeys())
	e.servers = append(e.servers, s)
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
	bothBoolean := (kind(on.value) == 't' || kind(on.value) == 'f') && (kind(off.value) == 't' || kind(off.value) == 'f')
	if bothBoolean && enabled == disabled {
		later := off
		if on.key > off.key {
			later = on
		}
		e.errorAt(later.key, later.path, CodeConflict,
			fmt.Sprintf(`%s has "enabled" and "disabled" that contradict each other`, e.label), "keep one of them")
	}
	return enabled
}

// transport decides how the server is reached and reports what does not go
// together.
func (e *entry) transport(s *Server) {
	kinds := map[string]Transport{"stdio": TransportStdio, "http": TransportHTTP, "streamable-http": TransportHTTP,
		"streamableHttp": TransportHTTP, "sse": TransportSSE, "catalog": TransportCatalog}
	hasType := e.members["type"] != nil || e.members["transport"] != nil
	declared, typeField, known := choice(e, "", kinds, "type", "transport")
	command, hasCommand := e.find("command")
	address, hasURL := e.findURL()

	missing := func(key, hint string) {
		e.errorAt(e.start, e.path, CodeMissing, fmt.Sprintf(`%s must include a non-empty string %q`, e.label, key), hint)
	}
	mismatch := func(f field) {
		e.errorAt(typeField.value.StartOffset, typeField.path, CodeConflict,
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
		s.Transport = declared
	case hasURL && !hasCommand:
		s.Transport, s.Fallback = TransportHTTP, !hasType
	default:
		s.Transport = TransportStdio
	}
	e.ineffective(s)
}

func (e *entry) findURL() (field, bool) {
	for _, name := range []string{"url", "serverUrl", "httpUrl"} {
		if m := e.members[name]; m != nil {
			return field{name: name, key: m.Name.StartOffset, value: &m.Value, path: e.path.key(name)}, true
		}
	}
	return field{}, false
}

// ineffective reports keys that the transport has no use for. Headers on a
// program are an error, because they are credentials that would never be sent.
func (e *entry) ineffective(s *Server) {
	if s.Transport == TransportStdio {
		if f, ok := e.present("headers"); ok {
			e.errorAt(f.key, f.path, CodeConflict, fmt.Sprintf(`%s has "headers", but is reached over stdio`, e.label),
				`give a program its credentials in "env"`)
		}
		return
	}
	for _, name := range []string{"args", "env", "envFile", "cwd", "workingDirectory"} {
		if f, ok := e.present(name); ok {
			e.warnAt(f.key, f.path, CodeIneffective,
				fmt.Sprintf("%s has %q, which does nothing for a server reached over HTTP", e.label, f.name), "")
		}
	}
}

// tracking reads what is to be followed.
func (e *entry) tracking(s *Server) {
	s.TrackResources = e.boolean("trackResources", false)
	s.TrackTools = e.boolean("trackTools", s.TrackResources)
	s.TrackPrompts = e.boolean("trackPrompts", s.TrackResources)
	s.Include, s.Exclude = e.globs("include"), e.globs("exclude")
	s.Read, _, _ = choice(e, ReadDigest, map[string]ReadMode{"digest": ReadDigest, "none": ReadNone}, "read")
	s.PollInterval = e.duration("pollInterval", DefaultPollInterval, minPollInterval)
	s.ConnectTimeout = e.duration("connectTimeout", 0, time.Millisecond)
	s.RequestTimeout = e.duration("requestTimeout", DefaultRequestTimeout, time.Millisecond)

	protocol, f, ok := choice(e, ProtocolAuto, map[string]Protocol{"auto": ProtocolAuto, "legacy": ProtocolLegacy,
		"modern": ProtocolModern}, "protocol", "protocolEra")
	s.Protocol = protocol
	if ok && protocol == ProtocolModern && s.Transport == TransportSSE {
		e.errorAt(f.value.StartOffset, f.path, CodeConflict,
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

// isDuration reports whether s has the form of a positive Go duration: numbers,
// each with its unit.
func isDuration(s string) bool {
	rest := s
	for rest != "" {
		digits := strings.TrimLeft(rest, "0123456789")
		if digits == rest {
			return false
		}
		if fraction, ok := strings.CutPrefix(digits, "."); ok {
			if digits = strings.TrimLeft(fraction, "0123456789"); digits == fraction {
				return false
			}
		}
		unit := ""
		for _, u := range []string{"ns", "us", "µs", "μs", "ms", "s", "m", "h"} {
			if strings.HasPrefix(digits, u) {
				unit = u
				break
			}
		}
		if unit == "" {
			return false
		}
		rest = digits[len(unit):]
	}
	return s != ""
}
