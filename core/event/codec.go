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

// UnmarshalJSON decodes the wire form, also that of a newer version: members and causes
// that it does not know are ignored, as are optional members whose value it does not
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
	p, err := decodePayload(h.Type, data)
	if err != nil {
		return err
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

// appendMembers appends the members as the tags of the fields describe them, each after a
// comma. It does not use encoding/json because nearly all events are of this type.
func (r ResourceUpdated) appendMembers(b []byte) ([]byte, error) {
	if r.Changed != nil {
		b = strconv.AppendBool(append(b, `,"changed":`...), *r.Changed)
	}
	var err error
	text := func(name, value string, shown bool) {
		if shown && err == nil {
			b, err = appendString(append(append(append(b, `,"`...), name...), `":`...), value)
		}
	}
	text("name", r.Name, r.Name != "")
	text("mimeType", r.MimeType, r.MimeType != "")
	if r.Size != nil {
		b = strconv.AppendInt(append(b, `,"size":`...), *r.Size, 10)
	}
	text("digest", r.Digest.String(), !r.Digest.IsZero())
	text("previousDigest", r.PreviousDigest.String(), !r.PreviousDigest.IsZero())
	if r.Content != nil {
		text("content", *r.Content, true)
	}
	if r.Diff != nil {
		text("diff", *r.Diff, true)
	}
	return b, err
}

// MarshalJSON implements [json.Marshaler].
func (s ResourceSet) MarshalJSON() ([]byte, error) {
	if s.URIs != nil {
		return printable.Marshal(s.URIs)
	}
	return strconv.AppendInt(nil, int64(s.Count), 10), nil
}

// UnmarshalJSON implements [json.Unmarshaler].
func (s *ResourceSet) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' {
		err := json.Unmarshal(data, &s.URIs)
		s.Count = len(s.URIs)
		return err
	}
	return json.Unmarshal(data, &s.Count)
}

// MarshalJSON implements [json.Marshaler].
func (l ListChanged) MarshalJSON() ([]byte, error) {
	type alias ListChanged
	l.Added, l.Removed, l.Changed = orEmpty(l.Added), orEmpty(l.Removed), orEmpty(l.Changed)
	return printable.Marshal(alias(l))
}

// MarshalJSON implements [json.Marshaler].
func (c ConfigReloaded) MarshalJSON() ([]byte, error) {
	type alias ConfigReloaded
	c.Added, c.Removed, c.Changed = orEmpty(c.Added), orEmpty(c.Removed), orEmpty(c.Changed)
	return printable.Marshal(alias(c))
}

// MarshalJSON implements [json.Marshaler].
func (m Milliseconds) MarshalJSON() ([]byte, error) {
	return strconv.AppendInt(nil, time.Duration(m).Milliseconds(), 10), nil
}

// UnmarshalJSON implements [json.Unmarshaler].
func (m *Milliseconds) UnmarshalJSON(data []byte) error {
	n, err := strconv.ParseInt(string(data), 10, 64)
	if err != nil {
		return errors.New("a duration is not a whole number of milliseconds")
	}
	*m = Milliseconds(time.Duration(n) * time.Millisecond)
	return nil
}

// orEmpty returns s, or an empty slice for nil, so that JSON has [] and not null.
func orEmpty(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// appendNames appends an object of strings, the names sorted. It does not use encoding/json
// because it is nearly always empty.
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

// plain reports whether s needs no escape at all, as most names and URIs.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
