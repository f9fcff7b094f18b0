// Package event defines the events of a tracker: one envelope for stdout, the SSE
// feed, the log and embedders.
//
// An [Event] is a header and a typed [Payload]; on the wire they are one flat
// JSON object in one line. An event is not modified after publication, so
// goroutines share it without a lock.
//
// Events are states, not edges. Once a resource no longer changes, its last event
// describes its current content; states in between may have been merged.
//
// To add a type of event, declare its constant and its payload struct with a Type
// method, and add one row to [Definitions]. Decoding, filters, completion, --count and
// the help follow from these. Describe it in output/lines, and add it to the types that the
// dashboard listens to, in assets/feed.js.
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

// Event is one thing that happened.
type Event struct {
	// ID is the epoch in 16 hex digits, a hyphen, and a number that rises by one
	// with every event of the epoch. It is the SSE id, and the key by which every
	// sink can recognise a repetition. The log sets it.
	ID string
	// Seq is the number in ID.
	Seq uint64
	// ServerID is the server's id in the config; "" for events about no server.
	ServerID string
	// ResourceURI is set on events about one resource.
	ResourceURI string
	// Timestamp is when the change was noticed, in UTC; shown with three fractional digits.
	Timestamp time.Time
	// Cause is how the change was noticed; "" if that does not apply.
	Cause Cause
	// Payload is what happened. Its dynamic type determines the event's type.
	Payload Payload
	// Exported maps the names and URIs of the server in this event to those under which the
	// clients of a gateway find them, if they differ. A gateway that stores the event sets it; if
	// it is nil, it is absent on the wire.
	Exported map[string]string
	// Received is when the server's notification that caused the event arrived; zero if there was
	// none. It is for measurements and not part of the wire form.
	Received time.Time
}

// Type returns the payload's type, "" without a payload.
func (e *Event) Type() Type {
	if e.Payload == nil {
		return ""
	}
	return e.Payload.Type()
}

// Payload is the content of an event beyond its header. [Definitions] lists the implementations.
type Payload interface{ Type() Type }

// Cause is how a change was noticed.
type Cause string

// The causes.
const (
	// CauseNotify: the server announced the change, outside the window of an earlier event.
	CauseNotify Cause = "notify"
	// CauseTrailing: the change was announced within the window of an earlier event. It
	// is published at the end of the window, because the content differs from the one
	// published last.
	CauseTrailing Cause = "trailing"
	// CauseResync: the change was found by comparing everything again, because notifications may
	// have been lost.
	CauseResync Cause = "resync"
	// CausePoll: the change was found by reading from a server that does not push.
	CausePoll Cause = "poll"
	// CauseEvent: the change was found by reading or listing what an event of the
	// server (MCP Events) named.
	CauseEvent Cause = "event"
)

// known reports whether this version knows the cause.
func (c Cause) known() bool {
	switch c {
	case "", CauseNotify, CauseTrailing, CauseResync, CausePoll, CauseEvent:
		return true
	}
	return false
}

// FormatID returns the id of an event.
func FormatID(epoch string, seq uint64) string {
	return epoch + "-" + strconv.FormatUint(seq, 10)
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

// TimeFormat is RFC 3339 with exactly three fractional digits; times are in UTC.
const TimeFormat = "2006-01-02T15:04:05.000Z"

// header is the fixed part of the wire form, in the order it is written.
type header struct {
	ID          string            `json:"id,omitempty"`
	Type        Type              `json:"type"`
	ServerID    string            `json:"serverId,omitempty"`
	ResourceURI string            `json:"resourceUri,omitempty"`
	Timestamp   string            `json:"timestamp"`
	Cause       Cause             `json:"cause,omitempty"`
	Exported    map[string]string `json:"exported,omitempty"`
}

// MarshalJSON writes the event as one flat object in one line, with every
// control and formatting character escaped.
func (e Event) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil) }

// AppendJSON appends the wire form of the event to b, without a line feed.
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
		if len(p) > 2 { // more than {}
			b = append(append(b, ','), p[1:len(p)-1]...)
		}
	}
	return append(b, '}'), nil
}

// UnmarshalJSON decodes the wire form of this version or a newer one: it ignores members and
// causes that it does not know, and optional members whose value it does not
// understand. An unknown type is an [ErrUnknownType].
func (e *Event) UnmarshalJSON(data []byte) error {
	var h header
	if err := json.Unmarshal(data, &h); err != nil {
		wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
		switch {
		case !ok || wrong.Field == "":
			return errors.New("invalid event: not a JSON object")
		case wrong.Field == "exported", strings.HasPrefix(wrong.Field, "exported."):
			h.Exported = nil
		case wrong.Field != "cause":
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
	if !h.Cause.known() {
		h.Cause = ""
	}
	*e = Event{ID: h.ID, Seq: seq, ServerID: h.ServerID, ResourceURI: h.ResourceURI, Timestamp: ts.UTC(), Cause: h.Cause, Exported: h.Exported, Payload: p}
	return nil
}

// appendNames appends an object of strings, the names sorted. It avoids encoding/json for the empty
// object, the usual case.
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

// plain reports whether s needs no escapes, like most names and URIs.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
