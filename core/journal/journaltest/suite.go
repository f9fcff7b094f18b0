package journaltest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Options specifies the log that a subtest of [Run] requires. The zero value requires a log that
// keeps all events of the subtest, which are at most 30,000 small events or one event of 20 MiB.
type Options struct {
	// Few requires a log that keeps only its newest events: more than 10 and fewer than 5,000, of
	// about 300 bytes each.
	Few bool
	// KeepContent limits the total size of the texts in Contents, in bytes. If it is 0, no texts
	// are kept.
	KeepContent int64
}

// Opened is a log that was opened for one subtest. The function that opened it must also close it
// when the test ends, together with all logs that Reopen returned.
type Opened struct {
	Log journal.Log
	// Reopen opens the same log again with the same options. The previous Log must be closed first.
	// Reopen is nil if the log does not survive Close.
	Reopen func() journal.Log
	// Break makes every attempt to store an event fail until mend is called; reading may also fail.
	// Break is nil if storing cannot fail.
	Break func() (mend func())

	another Open
}

// Open opens a new, empty log for a subtest. Parallel subtests call it concurrently, and a subtest
// may call it several times.
type Open func(t *testing.T, opts Options) Opened

// Run tests that an implementation fulfils the contract of [journal.Log]. The TestMain of the
// caller should check that no goroutines are left running.
func Run(t *testing.T, open Open) {
	for _, c := range []struct {
		name string
		opts Options
		test func(t *testing.T, o *Opened)
	}{
		{"IdsRiseByOne", Options{}, idsRiseByOne},
		{"NewLogIsEmpty", Options{}, newLogIsEmpty},
		{"IdOfTheEventDoesNotMatter", Options{}, foreignID},
		{"OrderOfSeveralGoroutines", Options{}, orderOfGoroutines},
		{"SeenIsStored", Options{}, seenIsStored},
		{"Read", Options{}, read},
		{"ReadEndsWithItsContext", Options{}, readEndsWithContext},
		{"Follow", Options{}, follow},
		{"FollowJoinsHistoryAndLive", Options{}, followJoins},
		{"FollowEndsWithTheCause", Options{}, followEndsWithCause},
		{"FollowEndsWithTheLog", Options{}, followEndsWithLog},
		{"ManyFollowers", Options{}, manyFollowers},
		{"FollowToEnd", Options{}, followToEnd},
		{"FollowToEndOfAClosedLog", Options{}, followToEndOfClosed},
		{"Select", Options{}, selects},
		{"SelectAfter", Options{}, selectsAfter},
		{"Since", Options{}, since},
		{"Resume", Options{}, resume},
		{"Retention", Options{Few: true}, retention},
		{"StatesOfEvents", Options{}, statesOfEvents},
		{"StatesThatWereRemembered", Options{}, statesRemembered},
		{"LaterStateWins", Options{}, laterStateWins},
		{"StatesOfOneServer", Options{}, statesOfOneServer},
		{"StatesOutliveEvents", Options{Few: true}, statesOutliveEvents},
		{"StatesOfManyGoroutines", Options{}, statesOfGoroutines},
		{"Lists", Options{}, lists},
		{"LongList", Options{}, longList},
		{"Contents", Options{KeepContent: 1 << 20}, contents},
		{"ContentsAreBounded", Options{KeepContent: 1 << 20}, contentsAreBounded},
		{"LargestContent", Options{KeepContent: 4 * journal.MaxContent}, largestContent},
		{"NoContents", Options{}, noContents},
		{"Definitions", Options{KeepContent: 1 << 20}, definitions},
		{"EntriesAreTheEvents", Options{}, entriesAreEvents},
		{"HostileNames", Options{}, hostileNames},
		{"MembersThatAreNotStored", Options{}, membersNotStored},
		{"LargeEvents", Options{}, largeEvents},
		{"EventTooLarge", Options{}, eventTooLarge},
		{"Close", Options{KeepContent: 1 << 20}, closing},
		{"CloseStores", Options{}, closeStores},
		{"FlushAndStats", Options{}, flushAndStats},
		{"FailingStore", Options{}, failingStore},
		{"Model", Options{KeepContent: 64 << 20}, model},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := open(t, c.opts)
			o.another = open
			c.test(t, &o)
		})
	}
}

// reopen closes the log and opens it again. It returns false if the log cannot be reopened.
func (o *Opened) reopen(t tb) bool {
	t.Helper()
	if o.Reopen == nil {
		return false
	}
	if err := o.Log.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	o.Log = o.Reopen()
	return true
}

// check calls f. If the log can be reopened, it then reopens the log and calls f again.
func (o *Opened) check(t *testing.T, f func(t *testing.T, when string)) {
	t.Helper()
	f(t, "before a reopen")
	if o.reopen(t) {
		f(t, "after a reopen")
	}
}

// tb contains the methods that helpers need from *testing.T or *rapid.T.
type tb interface {
	rapid.TB
	Context() context.Context
	Cleanup(f func())
}

// patience limits how long a subtest waits for anything.
const patience = 2 * time.Minute

// within returns a context that ends after the time patience, so that no subtest waits forever.
func within(t tb) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errors.New("the log does not answer"))
	t.Cleanup(cancel)
	return ctx
}

// must fails the test if err is not nil.
func must(t tb, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// equal fails the test unless got equals want.
func equal(t tb, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// update returns an event that reports that the content of a resource has changed to version n.
func update(server, uri string, n int) *event.Event {
	size := int64(n)
	return &event.Event{
		ServerID: server, ResourceURI: uri, Timestamp: time.Now().UTC(), Cause: event.CauseNotify,
		Payload: event.ResourceUpdated{Name: fmt.Sprint("n", n), MimeType: "text/plain", Size: &size, Digest: Digest(n)},
	}
}

// about returns an event about a resource with the given payload.
func about(server, uri string, p event.Payload) *event.Event {
	return &event.Event{ServerID: server, ResourceURI: uri, Timestamp: time.Now().UTC(), Payload: p}
}

// add appends events to the log.
func add(t tb, log journal.Log, events ...*event.Event) {
	t.Helper()
	for _, e := range events {
		if err := log.Append(e); err != nil {
			t.Fatalf("Append: %v", err)
		}
	}
}

// addEach appends one event for each resource with a number in the range [from, to). Because every
// resource is different, a slow log cannot merge the events. It may be called from any goroutine.
func addEach(t tb, log journal.Log, server string, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		if err := log.Append(update(server, URI(n), n)); err != nil {
			t.Errorf("Append: %v", err)
		}
	}
}

// addN calls addEach and waits until the events are stored.
func addN(t tb, log journal.Log, from, to int) {
	t.Helper()
	addEach(t, log, "docs", from, to)
	flush(t, log)
}

func flush(t tb, log journal.Log) {
	t.Helper()
	if err := log.Flush(within(t)); err != nil {
		t.Fatalf("Flush: %v", err)
	}
}

func bounds(t tb, log journal.Log) journal.Bounds {
	t.Helper()
	b, err := log.Bounds(within(t))
	if err != nil {
		t.Fatalf("Bounds: %v", err)
	}
	return b
}

// followTo returns the entries that Follow yields, up to the entry with number to.
func followTo(ctx context.Context, log journal.Log, from, to uint64) (out []journal.Entry, err error) {
	for e, err := range log.Follow(ctx, from) {
		if err != nil {
			return out, err
		}
		out = append(out, e)
		if e.Seq >= to && !e.Again {
			return out, nil
		}
	}
	return out, errors.New("the iterator of Follow ended without an error")
}

// followInOrder calls followTo, and returns an error unless it yielded exactly the entries with the
// numbers from to to.
func followInOrder(ctx context.Context, log journal.Log, from, to uint64) ([]journal.Entry, error) {
	entries, err := followTo(ctx, log, from, to)
	if from = max(from, 1); err == nil {
		err = inOrder(entries, log.Epoch(), from, int(to+1-from))
	}
	return entries, err
}

// drain iterates over a whole sequence. It returns the number of entries and the error at the end.
// It fails the test if anything follows the error.
func drain(t tb, entries iter.Seq2[journal.Entry, error]) (n int, last error) {
	t.Helper()
	for _, err := range entries {
		if last != nil {
			t.Error("something follows the error")
		}
		if last = err; err == nil {
			n++
		}
	}
	return n, last
}

// wellFormed returns an error unless an entry has the form on which readers rely.
func wellFormed(e journal.Entry) error {
	data := e.Data()
	epoch, seq, err := event.ParseID(e.ID)
	switch {
	case err != nil || seq != e.Seq || epoch == "":
		return fmt.Errorf("id %q of entry %d: %v", e.ID, e.Seq, err)
	case !bytes.HasPrefix(data, []byte(`{"id":"`+e.ID+`",`)):
		return fmt.Errorf("%s: the data do not begin with the id: %.100q", e.ID, data)
	case !json.Valid(data) || bytes.ContainsAny(data, "\r\n"):
		return fmt.Errorf("%s: the data are not one line of JSON: %.100q", e.ID, data)
	case !bytes.Equal(printable.JSON(bytes.Clone(data)), data):
		return fmt.Errorf("%s: the data have raw control characters: %.100q", e.ID, data)
	case e.Stored.IsZero() && e.Gap == nil:
		return fmt.Errorf("%s: no time", e.ID)
	}
	ev, err := e.Event()
	if err != nil {
		return err
	}
	if ev.ID != e.ID || ev.Seq != e.Seq {
		return fmt.Errorf("%s: the event has id %q and number %d", e.ID, ev.ID, ev.Seq)
	}
	return nil
}

// inOrder returns an error unless entries contains exactly n entries with consecutive numbers,
// starting with first.
func inOrder(entries []journal.Entry, epoch string, first uint64, n int) error {
	for i, e := range entries {
		if want := event.FormatID(epoch, first+uint64(i)); e.ID != want || e.Gap != nil || e.Again {
			return fmt.Errorf("entry %d is %.200s, want %s", i, e.Data(), want)
		}
	}
	if len(entries) != n {
		return fmt.Errorf("%d entries, want %d", len(entries), n)
	}
	return nil
}

// wire returns the wire form that an entry with the event must have.
func wire(t tb, id string, ev *event.Event) string {
	t.Helper()
	e := *ev
	e.ID = id
	data, err := e.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// same fails the test unless the entries contain exactly the given events, numbered consecutively
// from first.
func same(t tb, what string, entries []journal.Entry, epoch string, first uint64, events []*event.Event) {
	t.Helper()
	if err := inOrder(entries, epoch, first, len(events)); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	for i, e := range entries {
		if want := wire(t, e.ID, events[i]); string(e.Data()) != want {
			t.Fatalf("%s: entry %d is\n%.300s\nwant\n%.300s", what, i, e.Data(), want)
		}
	}
}

// numbers returns the numbers of the entries as text, for failure messages.
func numbers(entries []journal.Entry) string {
	var out []string
	for _, e := range entries {
		out = append(out, fmt.Sprint(e.Seq))
	}
	if out == nil {
		return "none"
	}
	return strings.Join(out, " ")
}

// Logger returns a logger that writes to the test output.
func Logger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// Source generates events about a server named docs. The zero value starts with version 1.
type Source struct{ N int }

// Next returns an event that reports that the content of a resource has changed to the next
// version.
func (s *Source) Next(uri string) *event.Event {
	s.N++
	e := update("docs", uri, s.N)
	e.Seq = uint64(s.N)
	e.ID = event.FormatID("0000000000000abc", e.Seq) // the log must replace this id
	return e
}

// Digest returns the digest for version n of some content.
func Digest[N int | uint64](n N) catalog.Digest { return sha256.Sum256(fmt.Append(nil, n)) }

// URI returns the URI of the resource with number n.
func URI(n int) string { return fmt.Sprintf("file:///docs/%d.md", n) }

// AppendN appends n events about 100 different resources and waits until they are stored. It
// returns the last entry.
func AppendN(t testing.TB, log journal.Log, s *Source, n int) journal.Entry {
	t.Helper()
	for i := range n - 1 {
		add(t, log, s.Next(URI(i%100)))
	}
	return Append(t, log, s.Next(URI((n-1)%100)))
}

// Append appends an event, waits until it is stored, and returns the last entry of the log, which belongs to
// the event if nobody else appends.
func Append(t tb, log journal.Log, e *event.Event) journal.Entry {
	t.Helper()
	add(t, log, e)
	flush(t, log)
	entries := ReadAll(t, log, bounds(t, log).Last)
	if len(entries) == 0 {
		t.Fatal("the log is empty")
	}
	return entries[len(entries)-1]
}

// ReadAll returns all entries that Read yields, and fails the test if an entry is malformed.
func ReadAll(t tb, log journal.Log, from uint64) (out []journal.Entry) {
	t.Helper()
	for e, err := range log.Read(within(t), from) {
		if err == nil {
			err = wellFormed(e)
		}
		if err != nil {
			t.Fatalf("Read(%d), entry %d: %v", from, len(out), err)
		}
		out = append(out, e)
	}
	return out
}

// InOrder fails the test unless entries contains exactly n entries with consecutive numbers,
// starting with first.
func InOrder(t testing.TB, entries []journal.Entry, epoch string, first uint64, n int) {
	t.Helper()
	if err := inOrder(entries, epoch, first, n); err != nil {
		t.Fatal(err)
	}
}

// Eventually waits until cond returns true. It fails the test if that takes longer than limit.
func Eventually(t tb, limit time.Duration, what string, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}
