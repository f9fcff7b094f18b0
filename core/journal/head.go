package journal

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Head contains the first members of an event's wire form.
type Head struct {
	Type      event.Type
	Server    Literal // value of serverId
	URI       Literal // value of resourceUri
	Timestamp time.Time

	begin, end int // where the member serverId is, with the comma before it
}

// Literal is a JSON string, including its quotes, as it appears in a document; nil if absent.
type Literal []byte

// Text decodes the string. It returns "" for an invalid string.
func (l Literal) Text() string {
	if len(l) < 2 {
		return ""
	}
	if bytes.IndexByte(l, '\\') < 0 {
		return string(l[1 : len(l)-1])
	}
	var s string
	_ = json.Unmarshal(l, &s) // an invalid string is treated as absent
	return s
}

// ScanHead parses the head of a document written by core/event: strings in a fixed order, up to the
// timestamp. It is much faster than decoding the document. It returns false for documents that
// core/event cannot have written. The literals share the memory of data.
func ScanHead(data []byte) (h Head, ok bool) {
	if len(data) < 2 || data[0] != '{' || data[len(data)-1] != '}' {
		return Head{}, false
	}
	for at := 1; ; at++ { // skip { or ,
		key, next := scanString(data, at)
		if key == nil || next >= len(data) || data[next] != ':' {
			return Head{}, false
		}
		value, end := scanString(data, next+1)
		if value == nil || end >= len(data) || data[end] != ',' && data[end] != '}' {
			return Head{}, false
		}
		switch string(key) {
		case `"type"`:
			h.Type = event.Type(value[1 : len(value)-1])
		case `"serverId"`:
			h.Server, h.begin, h.end = value, at-1, end
		case `"resourceUri"`:
			h.URI = value
		case `"timestamp"`:
			t, err := time.Parse(time.RFC3339, string(value[1:len(value)-1]))
			h.Timestamp = t
			return h, err == nil && eventName(string(h.Type))
		}
		at = end
	}
}

// scanString returns the string literal at a position and the position after it. The literal is nil
// if there is none.
func scanString(data []byte, at int) (Literal, int) {
	if at >= len(data) || data[at] != '"' {
		return nil, at
	}
	for i := at + 1; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return Literal(data[at : i+1]), i + 1
		}
	}
	return nil, at
}

// eventName reports whether an event type can be used as an SSE event name. A newer version of
// mcptrack on the same cluster may have stored a type that is unknown to this version.
func eventName(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && c != '.' && c != '_' {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// ServerID returns the server of the entry's event. It is empty for a gap, for an event that does
// not concern a server, and for an entry that is not a valid event.
func (e *Entry) ServerID() string {
	if e.event != nil {
		return e.event.ServerID
	}
	h, _ := ScanHead(e.data)
	return h.Server.Text()
}

// Type returns the type of the entry's event, or "" for an entry that is not a valid event.
func (e *Entry) Type() event.Type {
	if e.event != nil {
		return e.event.Type()
	}
	h, _ := ScanHead(e.data)
	return h.Type
}

// OfServer returns a copy of the entry whose event concerns the server with another id. The entry
// must have a ServerID.
func (e Entry) OfServer(id string) Entry {
	if e.event != nil {
		renamed := *e.event
		renamed.ServerID = id
		e.event, e.data = &renamed, nil
		return e
	}
	h, _ := ScanHead(e.data)
	value, _ := printable.Marshal(id) // a string can always be encoded
	data := make([]byte, 0, len(e.data)+len(value))
	data = append(append(data, e.data[:h.begin]...), `,"serverId":`...)
	e.data = append(append(data, value...), e.data[h.end:]...)
	return e
}
