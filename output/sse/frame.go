package sse

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

// frame is one entry of the log as clients get it. It is made once, shared, and
// never changed.
type frame struct {
	seq         uint64
	kind        event.Type
	server, uri string    // decoded, for filters
	received    time.Time // when the notification behind it arrived; zero: not known
	event       []byte    // for Events
	feed        []byte    // for Feed; nil: not shown there
}

// newFrame encodes an entry. What the log holds is not trusted: a frame has one
// id, one event name and one line of data, or else it tells a gap in its place.
func newFrame(e *journal.Entry, epoch string) *frame {
	f, ok := encode(e)
	if !ok {
		g := event.Gap{From: event.FormatID(epoch, max(e.Seq, 1)-1), To: event.FormatID(epoch, e.Seq), Reason: journal.ReasonDamaged}
		f = gapFrame(g, e.Seq)
	}
	return f
}

// gapFrame tells a gap whose end, To, is the entry seq.
func gapFrame(g event.Gap, seq uint64) *frame {
	e := event.Event{ID: g.To, Timestamp: time.Now(), Payload: g}
	data, _ := e.AppendJSON(nil) // three strings always encode
	f, _ := encode(&journal.Entry{ID: g.To, Seq: seq, Data: data, Gap: &g})
	return f
}

func encode(e *journal.Entry) (*frame, bool) {
	if _, _, err := event.ParseID(e.ID); err != nil || bytes.ContainsAny(e.Data, "\r\n") {
		return nil, false
	}
	h, ok := scan(e.Data)
	if !ok {
		return nil, false
	}
	f := &frame{seq: e.Seq, kind: event.Type(h.kind), server: h.server.text(), uri: h.uri.text()}
	b := make([]byte, 0, len(e.Data)+len(e.ID)+len(h.kind)+24)
	b = append(append(b, "id: "...), e.ID...)
	b = append(append(b, "\nevent: "...), h.kind...)
	b = append(append(b, "\ndata: "...), e.Data...)
	f.event = append(b, "\n\n"...)
	f.feed = feedFrame(e, h)
	return f, true
}

// literal is a JSON string as it is in the document, with its quotes; nil: none.
type literal []byte

// text returns what it stands for.
func (l literal) text() string {
	if len(l) < 2 {
		return ""
	}
	if bytes.IndexByte(l, '\\') < 0 {
		return string(l[1 : len(l)-1])
	}
	var s string
	_ = json.Unmarshal(l, &s) // what is no string filters as none
	return s
}

// head is the begin of an event in its wire form.
type head struct {
	kind        string
	server, uri literal
	timestamp   time.Time
}

// scan reads the head of the document that core/event writes: strings, in a fixed
// order, up to the timestamp. Decoding all of it would be most of the work of a
// replay. It fails on what core/event cannot have written.
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

// scanString returns the string literal at a place, and the place after it.
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

// eventName reports whether a name may follow "event: ". A newer mcptrack on the
// same cluster may know more types than this one.
func eventName(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && c != '.' && c != '_' {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// feedFrame is the entry in the shapes of the VibeChat feed, nil if it has none.
func feedFrame(e *journal.Entry, h head) []byte {
	switch event.Type(h.kind) {
	case event.TypeResourceUpdated:
		if h.server == nil || h.uri == nil {
			return nil
		}
		b := append(append([]byte("id: "), e.ID...), "\ndata: "...)
		b = append(append(b, `{"type":"resource_update","serverId":`...), h.server...)
		b = append(append(b, `,"resourceUri":`...), h.uri...)
		b = strconv.AppendInt(append(b, `,"timestamp":`...), h.timestamp.UnixMilli(), 10)
		return append(b, "}\n\n"...)
	case event.TypeServerState, event.TypeResourcesListChanged:
		return feedError(e, h)
	case event.TypeGap:
		return feedGap(e, h)
	}
	return nil
}

// feedError tells that resources cannot be followed or listed, nil if the event is
// no such failure.
func feedError(e *journal.Entry, h head) []byte {
	ev, err := e.Event()
	if err != nil || h.server == nil {
		return nil
	}
	reason, text := "refresh", ""
	switch p := ev.Payload.(type) {
	case event.ListChanged:
		text = p.Error
	case event.ServerState:
		switch p.State {
		case event.Unsupported:
			reason = "unsupported"
			if text = p.Error; text == "" {
				text = p.Reason
			}
			if text == "" {
				text = "server does not support resources"
			}
		case event.Backoff, event.NeedsAuth:
			text = p.Error
		}
	}
	if text == "" {
		return nil
	}
	b := append([]byte(`data: {"type":"resource_error","serverId":`), h.server...)
	if h.uri != nil {
		b = append(append(b, `,"resourceUri":`...), h.uri...)
	}
	b = strconv.AppendInt(append(b, `,"timestamp":`...), h.timestamp.UnixMilli(), 10)
	b = append(append(append(b, `,"reason":"`...), reason...), `","error":`...)
	return append(append(b, quote(text)...), "}\n\n"...)
}

// feedGap is ours: the feed's first clients ignore types that they do not know,
// and the others are not left in the belief that they saw everything.
func feedGap(e *journal.Entry, h head) []byte {
	ev, err := e.Event()
	g, ok := ev.Payload.(event.Gap)
	if err != nil || !ok {
		return nil
	}
	b := append(append([]byte("id: "), e.ID...), "\ndata: "...)
	b = append(append(b, `{"type":"gap","from":`...), quote(g.From)...)
	b = append(append(b, `,"to":`...), quote(g.To)...)
	b = append(append(b, `,"reason":`...), quote(g.Reason)...)
	b = strconv.AppendInt(append(b, `,"timestamp":`...), h.timestamp.UnixMilli(), 10)
	return append(b, "}\n\n"...)
}
