// Package event defines the events of a tracker in a single format, used for stdout, the SSE feed,
// the event log and programs that embed mcptrack.
//
// An [Event] consists of a header and a typed [Payload]; on the wire they form one flat JSON object
// on one line. An event is never modified after publication, so goroutines share it without a lock.
//
// Events describe states, not individual transitions. Once a resource stops changing, its last
// event describes its current content; intermediate states may have been merged.
//
// To add an event type, declare its constant and its payload struct with a Type method, and add one
// row to [Definitions]. Decoding, filters, completion, --count and the help are derived from these.
// Then describe it in [Event.Describe], whose words all outputs show.
package event

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/printable"
)

// Event is a single event: something that a tracker observed or did.
type Event struct {
	// ID consists of the epoch in 16 hex digits, a hyphen, and a sequence number that increases by
	// one with every event of the epoch. It is used as the SSE id, and any consumer can use it to
	// detect duplicates. The log sets it.
	ID string
	// Seq is the sequence number contained in ID.
	Seq uint64
	// ServerID is the server's id in the config; empty for events that do not concern a server.
	ServerID string
	// ResourceURI is the resource that the event concerns; empty if it does not concern a single
	// resource.
	ResourceURI string
	// Timestamp is when the change was detected, in UTC. It is formatted with three fractional
	// digits.
	Timestamp time.Time
	// Cause describes how the change was detected; empty if not applicable.
	Cause Cause
	// Payload is the type-specific part of the event. Its dynamic type determines the event's type.
	Payload Payload
	// Exported maps names and URIs in this event to the names and URIs under which a gateway
	// exposes them to its clients, if they differ. It is set by a gateway that stores the event. If
	// it is nil, it is omitted on the wire.
	Exported map[string]string
	// Trace is the traceparent (W3C Trace Context) of the span that records this event, so that its
	// delivery, also by another process, can link to it. Empty, and omitted on the wire, if nothing
	// was traced.
	Trace string
	// Received is when the notification that caused the event arrived from the server; zero if
	// there was none. It is used for measurements and is not part of the wire format.
	Received time.Time
}

// Type returns the payload's type, or an empty string if there is no payload.
func (e *Event) Type() Type {
	if e.Payload == nil {
		return ""
	}
	return e.Payload.Type()
}

// Payload is the type-specific part of an event. [Definitions] lists the implementations.
type Payload interface{ Type() Type }

// Cause describes how a change was detected.
type Cause string

// The causes.
const (
	// CauseNotify means that the server announced the change, outside the debounce window of an
	// earlier event.
	CauseNotify Cause = "notify"
	// CauseTrailing means that the change was announced within the debounce window of an earlier
	// event. The event is published at the end of the window, because the content differs from the
	// last published content.
	CauseTrailing Cause = "trailing"
	// CauseResync means that the change was found by a full comparison, made because notifications
	// may have been lost.
	CauseResync Cause = "resync"
	// CausePoll means that the change was found by polling a server that does not push updates.
	CausePoll Cause = "poll"
	// CauseEvent means that an event sent by the server (MCP Events) prompted the read or list
	// request that found the change.
	CauseEvent Cause = "event"
	// CauseHook means that a message to an incoming webhook prompted the read or list request that
	// found the change.
	CauseHook Cause = "hook"
)

// Words returns a phrase that says how a change was detected, or an empty string if this version does not
// know the cause.
func (c Cause) Words() string {
	switch c {
	case CauseNotify:
		return "announced"
	case CauseTrailing:
		return "end of a burst"
	case CauseResync:
		return "found after a reconnect"
	case CausePoll:
		return "found by polling"
	case CauseEvent:
		return "named by an event"
	case CauseHook:
		return "read because of a hook"
	}
	return ""
}

// FormatID returns the event ID for an epoch and a sequence number.
func FormatID(epoch string, seq uint64) string {
	id := make([]byte, 0, 40) // 16 hex digits, a hyphen and 20 digits
	return string(strconv.AppendUint(append(append(id, epoch...), '-'), seq, 10))
}

// ParseID is the inverse of [FormatID].
func ParseID(id string) (epoch string, seq uint64, err error) {
	epoch, number, _ := strings.Cut(id, "-")
	if _, err = strconv.ParseUint(epoch, 16, 64); err == nil && epoch == strings.ToLower(epoch) {
		if seq, err = strconv.ParseUint(number, 10, 64); err == nil && FormatID(epoch, seq) == id {
			return epoch, seq, nil
		}
	}
	return "", 0, fmt.Errorf("invalid event id %q", printable.Line(id, 64))
}

// TimeFormat is RFC 3339 with exactly three fractional digits. It is only used for times in UTC.
const TimeFormat = "2006-01-02T15:04:05.000Z"

// traceLength is the length of a traceparent of version 00, the only one that is written.
const traceLength = 55

// header holds the members common to all events, in wire order.
type header struct {
	ID          string            `json:"id,omitempty"`
	Type        Type              `json:"type"`
	ServerID    string            `json:"serverId,omitempty"`
	ResourceURI string            `json:"resourceUri,omitempty"`
	Timestamp   string            `json:"timestamp"`
	Cause       Cause             `json:"cause,omitempty"`
	Trace       string            `json:"trace,omitempty"`
	Exported    map[string]string `json:"exported,omitempty"`
}

// MarshalJSON encodes the event as one flat object on one line, with every control and formatting
// character escaped.
func (e Event) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil) }

// AppendJSON appends the JSON encoding of the event to b, without a trailing newline.
func (e *Event) AppendJSON(b []byte) ([]byte, error) {
	start := len(b)
	b = append(b, '{')
	if e.ID != "" {
		b = append(append(append(b, `"id":"`...), e.ID...), `",`...)
	}
	b = append(append(append(b, `"type":"`...), e.Type()...), '"')
	var err error
	if e.ServerID != "" {
		if b, err = appendString(append(b, `,"serverId":`...), e.ServerID); err != nil {
			return b[:start], err
		}
	}
	if e.ResourceURI != "" {
		if b, err = appendString(append(b, `,"resourceUri":`...), e.ResourceURI); err != nil {
			return b[:start], err
		}
	}
	b = e.Timestamp.UTC().AppendFormat(append(b, `,"timestamp":"`...), TimeFormat)
	b = append(b, '"')
	if e.Cause != "" {
		b = append(append(append(b, `,"cause":"`...), e.Cause...), '"')
	}
	if e.Trace != "" {
		if b, err = appendString(append(b, `,"trace":`...), e.Trace); err != nil {
			return b[:start], err
		}
	}
	if e.Exported != nil {
		if b, err = appendNames(append(b, `,"exported":`...), e.Exported); err != nil {
			return b[:start], err
		}
	}
	if u, ok := e.Payload.(ResourceUpdated); ok {
		if b, err = u.appendMembers(b); err != nil {
			return b[:start], fmt.Errorf("encode %s: %w", e.Type(), err)
		}
	} else if e.Payload != nil {
		p, err := printable.Marshal(e.Payload)
		if err != nil {
			return b[:start], fmt.Errorf("encode %s: %w", e.Type(), err)
		}
		if len(p) > 2 { // the payload has at least one member
			b = append(append(b, ','), p[1:len(p)-1]...)
		}
	}
	return append(b, '}'), nil
}

// UnmarshalJSON decodes an event written by this version or a newer one. It ignores unknown members
// and causes, and optional members whose values it cannot decode. For an unknown type it returns
// [ErrUnknownType].
func (e *Event) UnmarshalJSON(data []byte) error {
	var h header
	if err := json.Unmarshal(data, &h); err != nil {
		wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
		switch {
		case !ok || wrong.Field == "":
			return errors.New("invalid event: not a JSON object")
		case wrong.Field == "exported", strings.HasPrefix(wrong.Field, "exported."):
			h.Exported = nil
		case wrong.Field != "cause" && wrong.Field != "trace":
			return fmt.Errorf("invalid event: member %q is a JSON %s", printable.Line(wrong.Field, 64), wrong.Value)
		}
	}
	ts, err := time.Parse(time.RFC3339, h.Timestamp)
	if err != nil {
		return fmt.Errorf("invalid event: timestamp %q is not in RFC 3339 format", printable.Line(h.Timestamp, 64))
	}
	d, ok := Define(h.Type)
	if !ok {
		return fmt.Errorf("%w %q", ErrUnknownType, printable.Line(string(h.Type), 64))
	}
	p, err := d.decode(data)
	if err != nil {
		return fmt.Errorf("invalid %s event: %w", h.Type, err)
	}
	var seq uint64
	if h.ID != "" {
		if _, seq, err = ParseID(h.ID); err != nil {
			return err
		}
	}
	if len(h.Trace) != traceLength {
		h.Trace = ""
	}
	if h.Cause.Words() == "" {
		h.Cause = ""
	}
	*e = Event{ID: h.ID, Seq: seq, ServerID: h.ServerID, ResourceURI: h.ResourceURI, Timestamp: ts.UTC(), Cause: h.Cause, Trace: h.Trace, Exported: h.Exported, Payload: p}
	return nil
}

// appendNames appends a JSON object whose values are strings, with its keys sorted. For an empty
// object, the usual case, it avoids encoding/json.
func appendNames(b []byte, names map[string]string) ([]byte, error) {
	if len(names) == 0 {
		return append(b, "{}"...), nil
	}
	all, err := printable.Marshal(names)
	return append(b, all...), err
}

func appendString(b []byte, s string) ([]byte, error) {
	if plain(s) {
		return append(append(append(b, '"'), s...), '"'), nil
	}
	q, err := printable.Marshal(s)
	return append(b, q...), err
}

// plain reports whether s can be written as a JSON string without escaping, as most names and URIs
// can.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
