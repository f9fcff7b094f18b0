package feed

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/eventstream"
	"github.com/mcptrack/mcptrack/core/journal"
)

// frame is one entry of the log as clients get it. It is encoded once, shared, and immutable.
type frame struct {
	seq         uint64
	kind        event.Type
	server, uri string    // decoded, for filters
	received    time.Time // when the server's notification arrived; zero: unknown
	event       []byte    // the bytes for Hub.Events
	feed        []byte    // the bytes for Hub.Feed; nil: it does not send this entry
}

// newFrame encodes an entry. The content of the log is not trusted: an entry that cannot be encoded
// as one event with an ID is replaced by a gap.
func newFrame(e *journal.Entry, epoch string) *frame {
	f, ok := encode(e)
	if !ok {
		g := event.Gap{From: event.FormatID(epoch, max(e.Seq, 1)-1), To: event.FormatID(epoch, e.Seq), Reason: journal.ReasonDamaged}
		f = gapFrame(g, e.Seq)
	}
	return f
}

// gapFrame returns the frame of a gap that ends with entry number seq, whose ID is g.To.
func gapFrame(g event.Gap, seq uint64) *frame {
	e := journal.GapOf(g, seq)
	f, _ := encode(&e) // three strings always encode
	return f
}

func encode(e *journal.Entry) (*frame, bool) {
	data := e.Data()
	if _, _, err := event.ParseID(e.ID); err != nil || bytes.ContainsAny(data, "\r\n") {
		return nil, false
	}
	h, ok := scan(data)
	if !ok {
		return nil, false
	}
	f := &frame{seq: e.Seq, kind: event.Type(h.kind), server: h.server.text(), uri: h.uri.text()}
	f.event = eventstream.Append(make([]byte, 0, len(data)+len(e.ID)+len(h.kind)+24), e.ID, h.kind, data)
	f.feed = feedFrame(e, f, h.timestamp)
	return f, true
}

// literal is a JSON string as it appears in the document, with its quotes; nil: none.
type literal []byte

// text returns the decoded string.
func (l literal) text() string {
	if len(l) < 2 {
		return ""
	}
	if bytes.IndexByte(l, '\\') < 0 {
		return string(l[1 : len(l)-1])
	}
	var s string
	_ = json.Unmarshal(l, &s) // an invalid string counts as absent
	return s
}

// head is the beginning of an event in its wire form.
type head struct {
	kind        string
	server, uri literal
	timestamp   time.Time
}

// scan parses the head of a document written by core/event: strings in a fixed order, up to the
// timestamp. Decoding the whole document would be most of the work of a replay. scan fails on
// documents that core/event cannot have written.
func scan(data []byte) (h head, ok bool) {
	if len(data) < 2 || data[0] != '{' || data[len(data)-1] != '}' {
		return head{}, false
	}
	for at := 1; ; at++ { // past { or ,
		key, next := scanString(data, at)
		if key == nil || next >= len(data) || data[next] != ':' {
			return head{}, false
		}
		value, end := scanString(data, next+1)
		if value == nil || end >= len(data) || data[end] != ',' && data[end] != '}' {
			return head{}, false
		}
		at = end
		switch string(key) {
		case `"type"`:
			h.kind = string(value[1 : len(value)-1])
		case `"serverId"`:
			h.server = value
		case `"resourceUri"`:
			h.uri = value
		case `"timestamp"`:
			t, err := time.Parse(time.RFC3339, string(value[1:len(value)-1]))
			h.timestamp = t
			return h, err == nil && eventName(h.kind)
		}
	}
}

// scanString returns the string literal at a position and the position after it; nil: there is none.
func scanString(data []byte, at int) (literal, int) {
	if at >= len(data) || data[at] != '"' {
		return nil, at
	}
	for i := at + 1; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return literal(data[at : i+1]), i + 1
		}
	}
	return nil, at
}

// eventName reports whether a type can be an SSE event name. The type may be unknown to this version,
// as a newer version on the same cluster may have stored the event.
func eventName(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && c != '.' && c != '_' {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// appendStopped appends the last frame of a stream when the tracker stops.
func appendStopped(b []byte, feed bool, now time.Time) []byte {
	if feed {
		return appendVibeChat(b, "", vibeChat{Type: vibeStopped, Timestamp: now.UnixMilli()})
	}
	return eventstream.Append(b, "", "tracker_stopped", []byte(`{"type":"tracker_stopped","timestamp":"`+now.UTC().Format(event.TimeFormat)+`"}`))
}

// appendCheckpoint appends a checkpoint: an ID from which a client can resume, without an event of
// the log. It has data, as browsers differ on whether an ID alone counts.
func appendCheckpoint(b []byte, epoch string, seq uint64, now time.Time) []byte {
	id := event.FormatID(epoch, seq)
	return eventstream.Append(b, id, "checkpoint", []byte(`{"id":"`+id+`","type":"checkpoint","timestamp":"`+
		now.UTC().Format(event.TimeFormat)+`","seq":`+strconv.FormatUint(seq, 10)+"}"))
}
