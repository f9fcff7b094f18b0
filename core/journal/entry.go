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

// Entry is one event of the log, or a gap in it.
type Entry struct {
	// ID is the event's id; in a gap, the id of the last missing event.
	ID string
	// Seq is the number in ID.
	Seq uint64
	// Stored is when the store received the event, by the store's clock.
	Stored time.Time
	// Gap is set if events are missing.
	Gap *event.Gap
	// Again is set if the entry is within the preceding gap: it is the last event of its resource
	// or server, and tells a reader that fell behind the current state.
	Again bool
	// More is set if another entry follows immediately, so a writer may delay flushing.
	More bool

	data  []byte
	event *event.Event // as appended by this process, if recently
}

// NewEntry makes an Entry from an event's stored form: its wire form without the id. It is for
// implementations of [Log].
func NewEntry(epoch string, seq uint64, stored time.Time, data []byte) Entry {
	id := event.FormatID(epoch, seq)
	line := make([]byte, 0, len(data)+len(id)+8)
	line = append(append(append(line, `{"id":"`...), id...), `",`...)
	return Entry{ID: id, Seq: seq, Stored: stored, data: append(line, data[1:]...)}
}

// GapEntry makes the Entry for the missing events from first to last.
func GapEntry(epoch string, first, last uint64, reason string) Entry {
	return GapOf(event.Gap{From: event.FormatID(epoch, first-1), To: event.FormatID(epoch, last), Reason: reason}, last)
}

// GapOf makes the Entry for a gap that ends with the number last.
func GapOf(g event.Gap, last uint64) Entry {
	return Entry{ID: g.To, Seq: last, Gap: &g, event: &event.Event{ID: g.To, Seq: last, Timestamp: time.Now(), Payload: g}}
}

// WithEvent returns the entry with the event as this process appended it, including members that
// are not stored, such as Received and Text. ev may be nil.
func (e Entry) WithEvent(ev *event.Event) Entry {
	e.event = ev
	return e
}

// Keepable reports whether stored data has the form that NewEntry needs.
func Keepable(data []byte) bool { return len(data) > 2 && data[0] == '{' && data[1] == '"' }

// Data returns the event in its wire form: one line without a line feed, id first. It is shared and
// must not be changed.
func (e *Entry) Data() []byte {
	if e.data == nil && e.event != nil {
		e.data, _ = Encode(e.event, e.ID) // events in a log were encoded before, or are gaps
	}
	return e.data
}

// Encode returns the wire form of an event with that id; "" for the stored form.
func Encode(e *event.Event, id string) ([]byte, error) {
	bare := *e
	bare.ID = id
	if u, ok := bare.Payload.(event.ResourceUpdated); ok {
		u.Content, u.Diff = nil, nil // shown on request, never part of the log
		bare.Payload = u
	}
	data, err := bare.AppendJSON(nil)
	if err != nil {
		return nil, fmt.Errorf("event log: %w", err)
	}
	return data, nil
}

// Event returns the entry as an event. A recent event of this process also has the members that are
// not stored, such as Received and Text.
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

// Events returns the entries of a sequence as events.
func Events(entries iter.Seq2[Entry, error]) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for entry, err := range entries {
			e := event.Event{}
			if err == nil {
				e, err = entry.Event()
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Local reports whether this process appended the event and still has it in memory, so that Event
// also returns the members that are not stored.
func (e *Entry) Local() bool { return e.event != nil && e.Gap == nil }

// Received is when the notification behind the event arrived. It is zero if there was none, or if
// the event is not in the memory of this process.
func (e *Entry) Received() time.Time {
	if e.event == nil {
		return time.Time{}
	}
	return e.event.Received
}

// Reasons of gaps.
const (
	ReasonRetention = "retention" // removed by retention
	ReasonDamaged   = "damaged"   // the store could not read it back, or it is not an event
	ReasonEpoch     = "epoch"     // the id belongs to another log
	ReasonAhead     = "ahead"     // the id is higher than any stored one
	ReasonInvalid   = "invalid"   // not an id
	ReasonSlow      = "slow"      // the reader fell behind
)

// Resumption says where a consumer that has the events up to some id continues.
type Resumption struct {
	// From is the number to pass to Read or Follow.
	From uint64
	// Gap is set if events that the consumer missed are no longer stored, or if its id belongs to
	// another log. The consumer must receive the gap first. From is then the first existing entry;
	// a consumer that only wants new events uses Next instead.
	Gap *event.Gap
	// Next is the number of the next new event.
	Next uint64
}

// ResumeAt is [Log.Resume] for a log with these bounds.
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
	_, _ = rand.Read(b[:]) // never fails; see crypto/rand
	return hex.EncodeToString(b[:])
}

// IsEpoch reports whether the text has the form of an epoch from NewEpoch.
func IsEpoch(s string) bool {
	_, _, err := event.ParseID(event.FormatID(s, 0))
	return err == nil && len(s) == 16
}

// WithoutItems returns the event without the items of a changed list, which are large and
// remembered separately; see [KnownLists].
func WithoutItems(e *event.Event) *event.Event {
	p, ok := e.Payload.(event.ListChanged)
	if !ok || p.Items == nil && p.Follows == nil {
		return e
	}
	out := *e
	p.Items, p.Follows = nil, nil
	out.Payload = p
	return &out
}

// MemoryOf returns the size of the texts and keys that an event carries.
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
