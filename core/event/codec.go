package event

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/printable"
)

// TimeFormat is RFC 3339 with exactly three fractional digits; times are in UTC.
const TimeFormat = "2006-01-02T15:04:05.000Z"

// header is the fixed part of the wire form, in the order it is written.
type header struct {
	ID          string `json:"id,omitempty"`
	Type        Type   `json:"type"`
	ServerID    string `json:"serverId,omitempty"`
	ResourceURI string `json:"resourceUri,omitempty"`
	Timestamp   string `json:"timestamp"`
	Cause       Cause  `json:"cause,omitempty"`
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
	if u, ok := e.Payload.(ResourceUpdated); ok {
		if b, err = u.appendMembers(b); err != nil {
			return b[:start], fmt.Errorf("encode %s: %w", e.Type(), err)
		}
	} else if e.Payload != nil {
		p, err := marshal(e.Payload)
		if err != nil {
			return b[:start], fmt.Errorf("encode %s: %w", e.Type(), err)
		}
		if len(p) > 2 { // more than {}
			b = append(append(b, ','), printable.JSON(p[1:len(p)-1])...)
		}
	}
	return append(b, '}'), nil
}

// UnmarshalJSON reads the wire form back. Members it does not know are ignored;
// an unknown type is an error.
func (e *Event) UnmarshalJSON(data []byte) error {
	var h header
	if err := json.Unmarshal(data, &h); err != nil {
		return fmt.Errorf("event: %w", err)
	}
	ts, err := time.Parse(time.RFC3339, h.Timestamp)
	if err != nil {
		return fmt.Errorf("event: timestamp: %w", err)
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
	if !slices.Contains([]Cause{"", CauseNotify, CauseTrailing, CauseResync, CausePoll}, h.Cause) {
		return fmt.Errorf("event: unknown cause %q", printable.Line(string(h.Cause), 64))
	}
	*e = Event{ID: h.ID, Seq: seq, ServerID: h.ServerID, ResourceURI: h.ResourceURI, Timestamp: ts.UTC(), Cause: h.Cause, Payload: p}
	return nil
}

// ParseID takes an id apart.
func ParseID(id string) (epoch string, seq uint64, err error) {
	epoch, number, _ := strings.Cut(id, "-")
	if _, err = strconv.ParseUint(epoch, 16, 64); err == nil && epoch == strings.ToLower(epoch) {
		if seq, err = strconv.ParseUint(number, 10, 64); err == nil && FormatID(epoch, seq) == id {
			return epoch, seq, nil
		}
	}
	return "", 0, fmt.Errorf("event: %q is no id", printable.Line(id, 64))
}

func decodePayload(t Type, data []byte) (Payload, error) {
	switch t {
	case TypeServerState:
		return decode[ServerState](data)
	case TypeSubscriptionActive:
		return decode[SubscriptionActive](data)
	case TypeResourceUpdated:
		return decode[ResourceUpdated](data)
	case TypeResourceAdded:
		return decode[ResourceAdded](data)
	case TypeResourceRemoved:
		return decode[ResourceRemoved](data)
	case TypeResourceChanged:
		return decode[ResourceChanged](data)
	case TypeResourcesListChanged, TypeTemplatesListChanged, TypePromptsListChanged, TypeToolsListChanged:
		l, err := decode[ListChanged](data)
		if err != nil {
			return nil, err
		}
		lc := l.(ListChanged)
		lc.List = catalog.Kind(strings.TrimSuffix(string(t), ".list_changed"))
		return lc, nil
	case TypeConfigReloaded:
		return decode[ConfigReloaded](data)
	case TypeConfigRejected:
		return decode[ConfigRejected](data)
	case TypeResourceContent:
		return decode[ResourceContent](data)
	case TypePromptContent:
		return decode[PromptContent](data)
	case TypeToolResult:
		return decode[ToolResult](data)
	case TypeSubscriptionsChanged:
		return decode[SubscriptionsChanged](data)
	case TypeGap:
		return decode[Gap](data)
	}
	return nil, fmt.Errorf("event: unknown type %q", printable.Line(string(t), 64))
}

func decode[P Payload](data []byte) (Payload, error) {
	var p P
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("event %s: %w", p.Type(), err)
	}
	return p, nil
}

// resourceUpdated has the digests in their wire form.
type resourceUpdated struct {
	resourceUpdatedAlias
	digests
}

// digests are those of the content now and before, as they are on the wire.
type digests struct {
	Digest         string `json:"digest,omitempty"`
	PreviousDigest string `json:"previousDigest,omitempty"`
}

func (d digests) parse(now, before *catalog.Digest) (err error) {
	if *now, err = catalog.ParseDigest(d.Digest); err == nil {
		*before, err = catalog.ParseDigest(d.PreviousDigest)
	}
	return err
}

type resourceUpdatedAlias ResourceUpdated

// MarshalJSON implements [json.Marshaler].
func (r ResourceUpdated) MarshalJSON() ([]byte, error) {
	b, err := r.appendMembers([]byte{'{'})
	if len(b) > 1 {
		b[1] = '{' // instead of the first comma
		b = b[1:]
	}
	return append(b, '}'), err
}

// appendMembers appends the members, each after a comma. It is written out
// because nearly all events are of this type.
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
	for _, t := range []struct {
		name  string
		value *string
	}{{"content", r.Content}, {"diff", r.Diff}} {
		if t.value != nil {
			text(t.name, *t.value, true)
		}
	}
	return b, err
}

// UnmarshalJSON implements [json.Unmarshaler].
func (r *ResourceUpdated) UnmarshalJSON(data []byte) error {
	var w resourceUpdated
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	*r = ResourceUpdated(w.resourceUpdatedAlias)
	return w.parse(&r.Digest, &r.PreviousDigest)
}

// MarshalJSON implements [json.Marshaler].
func (s ResourceSet) MarshalJSON() ([]byte, error) {
	if s.URIs != nil {
		return marshal(s.URIs)
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
	return marshal(alias(l))
}

// MarshalJSON implements [json.Marshaler].
func (c ConfigReloaded) MarshalJSON() ([]byte, error) {
	type alias ConfigReloaded
	c.Added, c.Removed, c.Changed = orEmpty(c.Added), orEmpty(c.Removed), orEmpty(c.Changed)
	return marshal(alias(c))
}

// MarshalJSON implements [json.Marshaler].
func (m Milliseconds) MarshalJSON() ([]byte, error) {
	return strconv.AppendInt(nil, time.Duration(m).Milliseconds(), 10), nil
}

// UnmarshalJSON implements [json.Unmarshaler].
func (m *Milliseconds) UnmarshalJSON(data []byte) error {
	n, err := strconv.ParseInt(string(data), 10, 64)
	*m = Milliseconds(time.Duration(n) * time.Millisecond)
	return err
}

// orEmpty keeps a consumer from having to tell null and [] apart.
func orEmpty(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

func appendString(b []byte, s string) ([]byte, error) {
	if plain(s) {
		return append(append(append(b, '"'), s...), '"'), nil
	}
	q, err := marshal(s)
	return append(b, printable.JSON(q)...), err
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

// marshal is json.Marshal without the escapes for HTML: URIs are full of &.
func marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}
