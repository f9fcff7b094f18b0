package journal

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Entry is an event in the log, or a gap where events are missing.
type Entry struct {
	// ID is the id of the event. For a gap, it is the id of the last missing event.
	ID string
	// Seq is the sequence number in ID.
	Seq uint64
	// Stored is the time at which the store received the event, according to the store's clock.
	Stored time.Time
	// Gap describes the missing events. It is nil if the entry is an event.
	Gap *event.Gap
	// Again is set on entries that follow a gap and repeat events from within the gap: the last
	// event about each resource or server. They tell a reader that fell behind the current state.
	Again bool
	// More is set if another entry follows immediately, so a writer may delay flushing its output.
	More bool

	data  []byte
	event *event.Event // set only if this process appended the event recently
}

// NewEntry builds an Entry from the stored form of an event, which is its wire form without the id.
// Only implementations of [Log] call it.
func NewEntry(epoch string, seq uint64, stored time.Time, data []byte) Entry {
	id := event.FormatID(epoch, seq)
	line := make([]byte, 0, len(data)+len(id)+8)
	line = append(append(append(line, `{"id":"`...), id...), `",`...)
	return Entry{ID: id, Seq: seq, Stored: stored, data: append(line, data[1:]...)}
}

// Received builds an Entry from the event e with the wire form data, which another process sent.
func Received(id string, data []byte, e *event.Event) Entry {
	return Entry{ID: id, Seq: e.Seq, data: data, event: e}
}

// GapEntry builds the Entry that reports the events from first to last as missing.
func GapEntry(epoch string, first, last uint64, reason string) Entry {
	return GapOf(event.Gap{From: event.FormatID(epoch, first-1), To: event.FormatID(epoch, last), Reason: reason}, last)
}

// GapOf builds the Entry for the gap g, whose last missing event has the number last.
func GapOf(g event.Gap, last uint64) Entry {
	return Entry{ID: g.To, Seq: last, Gap: &g, event: &event.Event{ID: g.To, Seq: last, Timestamp: time.Now(), Payload: g}}
}

// WithEvent returns a copy of the entry that also carries ev, the event as this process appended
// it, including fields that are not stored, such as Received and Text. ev may be nil.
func (e Entry) WithEvent(ev *event.Event) Entry {
	e.event = ev
	return e
}

// Keepable reports whether data is in the stored form that NewEntry accepts.
func Keepable(data []byte) bool { return len(data) > 2 && data[0] == '{' && data[1] == '"' }

// Data returns the wire form of the event: a single line, without the line feed, that starts with
// the id. The slice is shared; callers must not modify it.
func (e *Entry) Data() []byte {
	if e.data == nil && e.event != nil {
		e.data = e.AppendData(make([]byte, 0, usualSize))
	}
	return e.data
}

// AppendData appends Data to b.
func (e *Entry) AppendData(b []byte) []byte {
	if e.data != nil || e.event == nil {
		return append(b, e.data...)
	}
	b, _ = appendEvent(b, e.event, e.ID) // cannot fail: the event was encoded before, or is a gap
	return b
}

// usualSize is the size in bytes that few encoded events exceed.
const usualSize = 512

// Encode returns the wire form of the event with the given id. An empty id produces the stored
// form.
func Encode(e *event.Event, id string) ([]byte, error) {
	return appendEvent(make([]byte, 0, usualSize), e, id)
}

// appendEvent appends the result of Encode to b.
func appendEvent(b []byte, e *event.Event, id string) ([]byte, error) {
	u, ok := e.Payload.(event.ResourceUpdated)
	if more := ok && (u.Content != nil || u.Diff != nil); more || e.ID != id {
		bare := *e
		bare.ID = id
		if more {
			u.Content, u.Diff = nil, nil // added only on request, never stored in the log
			bare.Payload = u
		}
		e = &bare
	}
	b, err := e.AppendJSON(b)
	if err != nil {
		return nil, fmt.Errorf("event log: %w", err)
	}
	return b, nil
}

// Event returns the event of the entry. If this process appended the event recently, the result
// also includes the fields that are not stored, such as Received and Text.
func (e *Entry) Event() (event.Event, error) {
	if e.event != nil {
		ev := *e.event
		ev.ID, ev.Seq = e.ID, e.Seq
		return ev, nil
	}
	var ev event.Event
	if err := json.Unmarshal(e.data, &ev); err != nil {
		return event.Event{}, fmt.Errorf("event log: entry %s: %w", e.ID, err)
	}
	return ev, nil
}

// Decoded yields the events in entries. It skips entries that are not events, because other programs
// can store arbitrary data on a cluster.
func Decoded(entries iter.Seq2[Entry, error]) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for entry, err := range entries {
			if err != nil {
				yield(event.Event{}, err)
				return
			}
			if e, err := entry.Event(); err == nil && !yield(e, nil) {
				return
			}
		}
	}
}

// Local reports whether this process appended the event and still has it in memory. If so, Event
// also returns the fields that are not stored.
func (e *Entry) Local() bool { return e.event != nil && e.Gap == nil }

// Received returns the time at which the notification that caused the event arrived. It is zero if
// there was no notification, or if this process no longer has the event in memory.
func (e *Entry) Received() time.Time {
	if e.event == nil {
		return time.Time{}
	}
	return e.event.Received
}

// Reasons why a gap occurs.
const (
	ReasonRetention = "retention" // retention removed the events
	ReasonDamaged   = "damaged"   // the store could not read the data back, or it is not an event
	ReasonEpoch     = "epoch"     // the consumer's id belongs to another log
	ReasonAhead     = "ahead"     // the consumer's id is higher than any stored id
	ReasonInvalid   = "invalid"   // the consumer's id is malformed
	ReasonSlow      = "slow"      // the reader fell too far behind
)

// Resumption specifies where a consumer continues after the last event that it has received.
type Resumption struct {
	// From is the number at which the consumer continues, to be passed to Read or Follow.
	From uint64
	// Gap is set if events that the consumer missed are no longer stored, or if its id belongs to
	// another log. The consumer must receive the gap first. From is then the number of the first
	// existing entry; a consumer that only wants new events uses Next instead.
	Gap *event.Gap
	// Next is the number that the next new event will get.
	Next uint64
}

// ResumeAt computes the result of [Log.Resume] for a log with the bounds b.
func ResumeAt(b Bounds, id string) Resumption {
	r := Resumption{From: b.First, Next: b.Last + 1}
	gap := func(reason string) Resumption {
		r.Gap = &event.Gap{From: printable.Line(id, 64), To: event.FormatID(b.Epoch, b.First-1), Reason: reason}
		return r
	}
	epoch, seq, err := event.ParseID(id)
	switch {
	case err != nil:
		return gap(ReasonInvalid)
	case epoch != b.Epoch:
		return gap(ReasonEpoch)
	case seq > b.Last:
		return gap(ReasonAhead)
	case seq+1 < b.First:
		return gap(ReasonRetention)
	}
	r.From = seq + 1
	return r
}

// NewEpoch returns a random epoch for a new log.
func NewEpoch() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // crypto/rand documents that Read never fails
	return hex.EncodeToString(b[:])
}

// IsEpoch reports whether s has the form of an epoch from NewEpoch.
func IsEpoch(s string) bool {
	_, _, err := event.ParseID(event.FormatID(s, 0))
	return err == nil && len(s) == 16
}

// WithoutDefinitions returns the event without the items of a changed list and without the
// instructions of a server, which are large and are stored separately; see [KnownLists] and
// [Contents].
func WithoutDefinitions(e *event.Event) *event.Event {
	switch p := e.Payload.(type) {
	case event.ListChanged:
		p.Items, p.Before, p.Follows = nil, nil, nil
		return with(e, p)
	case event.ServerState:
		p.Instructions = ""
		return with(e, p)
	}
	return e
}

// with returns a copy of e with another payload.
func with(e *event.Event, p event.Payload) *event.Event {
	out := *e
	out.Payload = p
	return &out
}

// MemoryOf returns the approximate size, in bytes, of the texts and keys that an event carries.
func MemoryOf(e *event.Event) (n int) {
	switch p := e.Payload.(type) {
	case event.ResourceUpdated:
		for _, t := range []*string{p.Text, p.PreviousText, p.Content, p.Diff} {
			if t != nil {
				n += len(*t)
			}
		}
	case event.ListChanged:
		for _, keys := range [][]string{p.Added, p.Removed, p.Changed} {
			for _, key := range keys {
				n += 16 + len(key)
			}
		}
		for _, v := range p.Versions {
			n += len(v.Digest) + len(v.PreviousDigest)
		}
	case event.PromptContent:
		if p.Prompt != nil {
			n += int(p.Size)
		}
	case event.ToolResult:
		if p.Result != nil {
			n += len(p.Result.Raw())
		}
	}
	return n
}
