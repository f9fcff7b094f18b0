package feed

import (
	"bytes"
	"slices"
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
	h, ok := journal.ScanHead(data)
	if !ok {
		return nil, false
	}
	f := &frame{seq: e.Seq, kind: h.Type, server: h.Server.Text(), uri: h.URI.Text()}
	f.event = eventstream.Append(make([]byte, 0, len(data)+len(e.ID)+len(h.Type)+24), e.ID, string(h.Type), data)
	f.feed = feedFrame(e, f, h.Timestamp)
	return f, true
}

// described returns the encoding for Hub.Events with a description in the event, as a message without a name, so
// that a page receives events of all types with one listener.
func (f *frame) described() []byte {
	id, rest, _ := bytes.Cut(f.event, []byte("\n"))
	_, data, _ := bytes.Cut(rest, []byte("\ndata: "))
	return slices.Concat(id, []byte("\ndata: "), event.Described(bytes.TrimSuffix(data, []byte("\n\n"))), []byte("\n\n"))
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
