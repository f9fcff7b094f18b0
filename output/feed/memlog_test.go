package feed

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

// memLog is an in-memory log with the contracts of the journal. Tests control its retention, damage
// and replacement.
type memLog struct {
	journal.Log // nil: the hub does not use its other methods
	// follows and resumes replace Follow and Resume, if set.
	follows func(ctx context.Context, from uint64) iter.Seq2[journal.Entry, error]
	resumes func(ctx context.Context, id string) (journal.Resumption, error)

	mu      sync.Mutex
	epoch   string
	entries []journal.Entry
	first   uint64
	closed  bool
	more    chan struct{} // closed and replaced when something changes
}

const testEpoch = "3f9a1c20b7e4d581"

func newMemLog() *memLog { return &memLog{epoch: testEpoch, first: 1, more: make(chan struct{})} }

func (l *memLog) Flush(context.Context) error { return nil }

func (l *memLog) changed() {
	close(l.more)
	l.more = make(chan struct{})
}

// append stores events and assigns their IDs.
func (l *memLog) append(events ...event.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range events {
		e.Seq = l.first + uint64(len(l.entries))
		if e.Timestamp.IsZero() {
			e.Timestamp = time.Now()
		}
		e.ID = ""
		data, err := e.AppendJSON(nil)
		if err != nil {
			panic(err)
		}
		l.entries = append(l.entries, journal.NewEntry(l.epoch, e.Seq, e.Timestamp, data))
	}
	l.changed()
}

// forget removes the first n entries, as retention does.
func (l *memLog) forget(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = slices.Clone(l.entries[n:])
	l.first += uint64(n)
}

// replace replaces the log with another one.
func (l *memLog) replace(epoch string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch, l.entries, l.first = epoch, nil, 1
	l.changed()
}

func (l *memLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.changed()
}

func (l *memLog) Bounds(context.Context) (journal.Bounds, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return journal.Bounds{Epoch: l.epoch, First: l.first, Last: l.first + uint64(len(l.entries)) - 1}, nil
}

// from returns the entries from seq on, after a gap if some have expired.
func (l *memLog) from(seq uint64) []journal.Entry {
	var out []journal.Entry
	if seq < l.first {
		out = append(out, journal.GapEntry(l.epoch, seq, l.first-1, journal.ReasonRetention))
		seq = l.first
	}
	return append(out, l.entries[min(seq-l.first, uint64(len(l.entries))):]...)
}

func (l *memLog) Read(ctx context.Context, from uint64) iter.Seq2[journal.Entry, error] {
	return func(yield func(journal.Entry, error) bool) {
		l.mu.Lock()
		found := l.from(max(from, 1))
		l.mu.Unlock()
		for _, e := range found {
			if ctx.Err() != nil {
				yield(journal.Entry{}, context.Cause(ctx))
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (l *memLog) Follow(ctx context.Context, from uint64) iter.Seq2[journal.Entry, error] {
	if l.follows != nil {
		return l.follows(ctx, from)
	}
	return l.follow(ctx, from)
}

func (l *memLog) follow(ctx context.Context, from uint64) iter.Seq2[journal.Entry, error] {
	return func(yield func(journal.Entry, error) bool) {
		next := max(from, 1)
		l.mu.Lock()
		epoch := l.epoch
		l.mu.Unlock()
		for {
			l.mu.Lock()
			more, closed, replaced := l.more, l.closed, l.epoch != epoch
			var found []journal.Entry
			if !replaced {
				found = l.from(next)
			}
			l.mu.Unlock()
			if replaced {
				yield(journal.Entry{}, journal.ErrEpoch)
				return
			}
			for _, e := range found {
				next = e.Seq + 1
				if !yield(e, nil) {
					return
				}
			}
			if closed {
				yield(journal.Entry{}, journal.ErrClosed)
				return
			}
			select {
			case <-more:
			case <-ctx.Done():
				yield(journal.Entry{}, context.Cause(ctx))
				return
			}
		}
	}
}

func (l *memLog) Resume(ctx context.Context, id string) (journal.Resumption, error) {
	if l.resumes != nil {
		return l.resumes(ctx, id)
	}
	b, err := l.Bounds(ctx)
	return journal.ResumeAt(b, id), err
}

func (l *memLog) Since(_ context.Context, t time.Time) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		if !e.Stored.Before(t) {
			return e.Seq, nil
		}
	}
	return l.first + uint64(len(l.entries)), nil
}

// updated returns an update of a resource.
func updated(server, uri string) event.Event {
	return event.Event{ServerID: server, ResourceURI: uri, Cause: event.CauseNotify, Payload: event.ResourceUpdated{Name: "n"}}
}

func updates(n int) []event.Event {
	out := make([]event.Event, n)
	for i := range out {
		out[i] = updated(fmt.Sprintf("s%d", i%10), fmt.Sprintf("file:///docs/%d.md", i))
	}
	return out
}

// message is what a client dispatches.
type message struct{ id, event, data string }

// parser parses a stream as the HTML standard specifies (9.2.6), independently of core/eventstream.
type parser struct {
	line              []byte
	cr                bool // the last byte was CR
	data              []string
	event, id, lastID string
	comments, retries int
	retry             string
	messages          []message
}

func (p *parser) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		if p.cr && b[0] == '\n' {
			b = b[1:]
		}
		p.cr = false
		end := bytes.IndexAny(b, "\r\n")
		if end < 0 {
			p.line = append(p.line, b...)
			break
		}
		p.cr = b[end] == '\r'
		p.field(string(append(p.line, b[:end]...)))
		p.line, b = p.line[:0], b[end+1:]
	}
	return n, nil
}

func (p *parser) field(line string) {
	if line == "" {
		p.lastID = p.id
		if len(p.data) > 0 {
			p.messages = append(p.messages, message{p.lastID, p.event, strings.Join(p.data, "\n")})
		}
		p.data, p.event = nil, ""
		return
	}
	name, value, _ := strings.Cut(line, ":")
	value = strings.TrimPrefix(value, " ")
	switch name {
	case "":
		p.comments++
	case "data":
		p.data = append(p.data, value)
	case "event":
		p.event = value
	case "id":
		if !strings.Contains(value, "\x00") {
			p.id = value
		}
	case "retry":
		p.retry = value
		p.retries++
	}
}

// member decodes a member of a message's data.
func member(t testing.TB, m message, name string) any {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal([]byte(m.data), &doc); err != nil {
		t.Fatalf("%q: %v", m.data, err)
	}
	return doc[name]
}
