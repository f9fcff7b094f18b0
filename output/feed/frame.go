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

// frame is a log entry, encoded for clients. It is encoded once, shared by all clients, and
// immutable.
type frame struct {
	seq         uint64
	kind        event.Type
	server, uri string    // decoded values for filters
	received    time.Time // when the server's notification arrived; zero if unknown
	event       []byte    // encoded for Hub.Events
	feed        []byte    // encoded for Hub.Feed; nil if omitted there
}

// newFrame encodes a log entry. Log content is not trusted: an entry that cannot be encoded as
// exactly one event with an ID becomes a gap.
func newFrame(e *journal.Entry, epoch string) *frame {
	f, ok := encode(e)
	if !ok {
		g := event.Gap{From: event.FormatID(epoch, max(e.Seq, 1)-1), To: event.FormatID(epoch, e.Seq), Reason: journal.ReasonDamaged}
		f = gapFrame(g, e.Seq)
	}
	return f
}

// gapFrame returns the frame for a gap that ends with entry seq, whose ID is g.To.
func gapFrame(g event.Gap, seq uint64) *frame {
	e := journal.GapOf(g, seq)
	f, _ := encode(&e) // encoding three strings cannot fail
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

// literal is a JSON string, including its quotes, as it appears in the document; nil if absent.
type literal []byte

// text decodes the string.
func (l literal) text() string {
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

// head contains the first members of an encoded event.
type head struct {
	kind        string
	server, uri literal
	timestamp   time.Time
}

// scan parses the head of a document written by core/event: strings in a fixed order, up to the
// timestamp. Decoding whole documents would dominate the cost of a replay. scan returns false for
// documents that core/event cannot have written.
func scan(data []byte) (h head, ok bool) {
	if len(data) < 2 || data[0] != '{' || data[len(data)-1] != '}' {
		return head{}, false
	}
	for at := 1; ; at++ { // skip { or ,
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

// scanString returns the string literal at a position and the position after it. The literal is nil
// if there is none.
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

// appendStopped appends the frame that is sent last on every stream when the tracker stops.
func appendStopped(b []byte, feed bool, now time.Time) []byte {
	if feed {
		return appendVibeChat(b, "", vibeChat{Type: vibeStopped, Timestamp: now.UnixMilli()})
	}
	return eventstream.Append(b, "", "tracker_stopped", []byte(`{"type":"tracker_stopped","timestamp":"`+now.UTC().Format(event.TimeFormat)+`"}`))
}

// appendCheckpoint appends a checkpoint: an ID from which a client can resume, without an event
// from the log. It contains data, because browsers differ on whether an ID without data counts.
func appendCheckpoint(b []byte, epoch string, seq uint64, now time.Time) []byte {
	id := event.FormatID(epoch, seq)
	return eventstream.Append(b, id, "checkpoint", []byte(`{"id":"`+id+`","type":"checkpoint","timestamp":"`+
		now.UTC().Format(event.TimeFormat)+`","seq":`+strconv.FormatUint(seq, 10)+"}"))
}
