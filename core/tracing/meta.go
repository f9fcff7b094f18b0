package tracing

import (
	"bytes"
	"encoding/json"
	"strings"

	"go.opentelemetry.io/otel/trace"
)

// The members of _meta that carry a trace context (SEP-414).
const (
	Parent  = "traceparent"
	State   = "tracestate"
	Baggage = "baggage"
)

// maxMember limits the length of each of these members in bytes. W3C Baggage requires that at least
// 8,192 bytes are passed on, W3C Trace Context 512.
const maxMember = 8 << 10

// Clean returns a _meta object without the trace context that must not be passed on: members that are
// not strings, are longer than 8 KiB or contain characters outside printable ASCII, a traceparent in
// another format, and a tracestate without a valid traceparent. All other members stay as they are. If
// there is nothing to remove, Clean returns meta itself.
func Clean(meta json.RawMessage) json.RawMessage {
	if !mentions(meta) {
		return meta
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(meta, &members) != nil {
		return meta
	}
	before := len(members)
	if !isParent(text(members[Parent])) {
		delete(members, Parent)
		delete(members, State)
	}
	for _, name := range []string{State, Baggage} {
		if text(members[name]) == "" {
			delete(members, name)
		}
	}
	if len(members) == before {
		return meta
	}
	out, err := json.Marshal(members)
	if err != nil {
		return nil
	}
	return out
}

// mentions reports whether an object may contain a trace context. A name with escapes is not noticed:
// such a member is passed on unchanged.
func mentions(meta []byte) bool {
	return bytes.Contains(meta, []byte(`"`+Parent+`"`)) || bytes.Contains(meta, []byte(`"`+State+`"`)) || bytes.Contains(meta, []byte(`"`+Baggage+`"`))
}

// text returns the text of a member, or an empty string if it is missing or must not be passed on.
func text(raw json.RawMessage) (s string) {
	if len(raw) < 2 || len(raw) > maxMember+2 || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return ""
	}
	return s
}

// isParent reports whether s is a traceparent. Versions after 00 may have more fields.
func isParent(s string) bool {
	const v00 = len("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	if len(s) < v00 || len(s) > 512 || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return false
	}
	version, id, parent, flags := s[:2], s[3:35], s[36:52], s[53:v00]
	if version == "00" && len(s) > v00 || len(s) > v00 && s[v00] != '-' || version == "ff" {
		return false
	}
	hex := func(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }
	return hex(version) && hex(id) && hex(parent) && hex(flags) && strings.Trim(id, "0") != "" && strings.Trim(parent, "0") != ""
}

// parse returns the context that a traceparent and a tracestate describe. It is invalid if the
// traceparent is. An invalid tracestate is ignored.
func parse(parent, state string) trace.SpanContext {
	if !isParent(parent) {
		return trace.SpanContext{}
	}
	var c trace.SpanContextConfig
	c.TraceID, _ = trace.TraceIDFromHex(parent[3:35]) // checked by isParent
	c.SpanID, _ = trace.SpanIDFromHex(parent[36:52])
	last := parent[54]
	c.TraceFlags = trace.TraceFlags(strings.IndexByte("0123456789abcdef", last)) & trace.FlagsSampled
	c.TraceState, _ = trace.ParseTraceState(state)
	return trace.NewSpanContext(c)
}

// Traceparent returns the span's traceparent, or an empty string if there is none.
func (s Span) Traceparent() string {
	if s.otel == nil {
		return ""
	}
	c := s.otel.SpanContext()
	if !c.IsValid() {
		return ""
	}
	return "00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-" + (c.TraceFlags() & trace.FlagsSampled).String()
}

// Inject makes the span the parent of the request whose _meta is given: it sets traceparent, and sets
// tracestate to the trace's. It keeps baggage.
func (s Span) Inject(meta map[string]any) {
	parent := s.Traceparent()
	if parent == "" {
		return
	}
	meta[Parent] = parent
	if state := s.otel.SpanContext().TraceState().String(); state != "" {
		meta[State] = state
	} else {
		delete(meta, State)
	}
}
