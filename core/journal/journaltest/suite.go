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

// Options say what log a subtest of [Run] needs. The zero value is a log that keeps all events of a
// subtest (at most 30,000 small ones, or one of 20 MiB).
type Options struct {
	// Few limits the log to its newest events: more than 10 and fewer than 5,000 of about 300 bytes
	// each.
	Few bool
	// KeepContent bounds the texts in Contents, in bytes; 0: none are kept.
	KeepContent int64
}

// Opened is the log of one subtest. The opener closes it, and every log from Reopen, at the end of
// the test.
type Opened struct {
	Log journal.Log
	// Reopen opens the same log again, with the same options, after the previous one was closed.
	// nil: the log ends with the process.
	Reopen func() journal.Log
	// Break makes every attempt to store fail until mend is called; reading may also fail. nil:
	// storing cannot fail.
	Break func() (mend func())

	another Open
}

// Open opens a new, empty log for a subtest. Parallel subtests call it, once or several times each.
type Open func(t *testing.T, opts Options) Opened

// Run tests that a kind of log keeps the contract of [journal.Log]. The caller's TestMain checks
// that no goroutine is left.
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
		{"StoreReturnsWhatReadersSee", Options{}, storeReturnsTheEntry},
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
		{"Records", Options{}, records},
		{"RecordsAreFollowed", Options{}, recordsAreFollowed},
		{"RecordsOfConcurrentWriters", Options{}, recordsOfWriters},
		{"RecordsAfterReopen", Options{}, recordsAfterReopen},
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

// reopen closes the log and opens it again. It reports whether the log can be opened again.
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

// check calls f, and calls it again after a reopen if the log can be opened again.
func (o *Opened) check(t *testing.T, f func(t *testing.T, when string)) {
	t.Helper()
	f(t, "before a reopen")
	if o.reopen(t) {
		f(t, "after a reopen")
	}
}

// tb is what helpers need of a test, or of one check of a property.
type tb interface {
	rapid.TB
	Context() context.Context
	Cleanup(f func())
}

// patience bounds every wait.
const patience = 2 * time.Minute

// within returns a context that ends if a subtest waits for too long.
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

// equal fails unless got equals want.
func equal(t tb, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// update returns an event about a resource whose content has become version n.
func update(server, uri string, n int) *event.Event {
	size := int64(n)
	return &event.Event{
		ServerID: server, ResourceURI: uri, Timestamp: time.Now().UTC(), Cause: event.CauseNotify,
		Payload: event.ResourceUpdated{Name: fmt.Sprint("n", n), MimeType: "text/plain", Size: &size, Digest: Digest(n)},
	}
}

// about returns an event with another payload.
func about(server, uri string, p event.Payload) *event.Event {
	return &event.Event{ServerID: server, ResourceURI: uri, Timestamp: time.Now().UTC(), Payload: p}
}

// add appends events.
func add(t tb, log journal.Log, events ...*event.Event) {
	t.Helper()
	for _, e := range events {
		if err := log.Append(e); err != nil {
			t.Fatalf("Append: %v", err)
		}
	}
}

// addEach appends one event about each of the resources from to to-1, so that a slow log cannot
// merge them. It may be called in a goroutine.
func addEach(t tb, log journal.Log, server string, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		if err := log.Append(update(server, URI(n), n)); err != nil {
			t.Errorf("Append: %v", err)
		}
	}
}

// addN is addEach, and waits until the events are stored.
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

// followTo returns what Follow yields up to an entry.
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

// followInOrder is followTo. Its error also says if the entries are not exactly those between the
// two numbers.
func followInOrder(ctx context.Context, log journal.Log, from, to uint64) ([]journal.Entry, error) {
	entries, err := followTo(ctx, log, from, to)
	if from = max(from, 1); err == nil {
		err = inOrder(entries, log.Epoch(), from, int(to+1-from))
	}
	return entries, err
}

// drain returns how many entries a sequence yields, and the error that ends it. It fails if something
// follows the error.
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

// wellFormed returns an error unless an entry has the form that readers rely on.
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

// inOrder returns an error unless the entries are exactly the n from number first on.
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

// wire returns the expected Data of an entry with the event.
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

// same fails unless the entries are the events, from number first on.
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

// numbers returns the numbers of entries in a readable form.
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

// Logger returns a logger that writes to the output of the test.
func Logger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// Source makes events about the server docs. The zero value begins with version 1.
type Source struct{ N int }

// Next returns an event about a resource whose content has become the next version.
func (s *Source) Next(uri string) *event.Event {
	s.N++
	e := update("docs", uri, s.N)
	e.Seq = uint64(s.N)
	e.ID = event.FormatID("0000000000000abc", e.Seq) // the log assigns another one
	return e
}

// Digest returns the digest of version n of a content.
func Digest[N int | uint64](n N) catalog.Digest { return sha256.Sum256(fmt.Append(nil, n)) }

// URI returns the URI of a resource.
func URI(n int) string { return fmt.Sprintf("file:///docs/%d.md", n) }

// AppendN appends n events about 100 resources and waits until they are stored.
func AppendN(t testing.TB, log journal.Log, s *Source, n int) journal.Entry {
	t.Helper()
	for i := range n - 1 {
		add(t, log, s.Next(URI(i%100)))
	}
	e, err := log.Store(t.Context(), s.Next(URI((n-1)%100)))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// ReadAll returns what Read yields, and fails if an entry is malformed.
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

// InOrder fails unless the entries are exactly the n from number first on.
func InOrder(t testing.TB, entries []journal.Entry, epoch string, first uint64, n int) {
	t.Helper()
	if err := inOrder(entries, epoch, first, n); err != nil {
		t.Fatal(err)
	}
}

// Eventually waits until the condition holds, and fails if that takes longer than limit.
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
