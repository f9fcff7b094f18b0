package natslog

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

func TestRealStoredInOrderWithIdsWithoutHoles(t *testing.T) {
	t.Parallel()
	j := open(t, onServer(t))
	const n = 2700 // in several steps
	last := journaltest.AppendN(t, j, new(journaltest.Source), n)
	if last.Seq != n || last.ID != event.FormatID(j.Epoch(), n) {
		t.Errorf("the last got %s", last.ID)
	}
	got := journaltest.ReadAll(t, j, 0)
	journaltest.InOrder(t, got, j.Epoch(), 1, n)
	for i, e := range got {
		var ev event.Event
		if err := json.Unmarshal(e.Data(), &ev); err != nil {
			t.Fatalf("%s: %v", e.Data(), err)
		}
		if ev.ID != e.ID || ev.Payload.(event.ResourceUpdated).Digest != journaltest.Digest(uint64(i+1)) {
			t.Fatalf("entry %d is %s", i, e.Data())
		}
	}
	journaltest.InOrder(t, journaltest.ReadAll(t, j, n-4), j.Epoch(), n-4, 5)
	if more := journaltest.ReadAll(t, j, n+1); len(more) != 0 {
		t.Errorf("%d entries after the last", len(more))
	}
}

// After More, the next entry comes without waiting.
func TestRealMoreIsTrue(t *testing.T) {
	t.Parallel()
	j := open(t, onServer(t))
	const n = 1500 // more than one request reads
	journaltest.AppendN(t, j, new(journaltest.Source), n)
	announced := 0
	for e, err := range j.Read(t.Context(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Seq == n && e.More {
			t.Error("more after the last")
		}
		if e.More {
			announced++
		}
	}
	if announced == 0 {
		t.Error("no entry announces the next one")
	}
	few := journaltest.ReadAll(t, j, n-9)
	for i, e := range few {
		if e.More != (i < len(few)-1) {
			t.Errorf("entry %d of %d: %v", i, len(few), e.More)
		}
	}
}

func TestRealReopenKeepsIdsAndContinues(t *testing.T) {
	t.Parallel()
	opts := onServer(t)
	j := open(t, opts)
	epoch := j.Epoch()
	journaltest.AppendN(t, j, new(journaltest.Source), 150)
	closeLog(t, j)
	j = open(t, opts)
	if j.Epoch() != epoch {
		t.Errorf("the epoch was %s and is %s", epoch, j.Epoch())
	}
	if e := journaltest.AppendN(t, j, new(journaltest.Source), 1); e.Seq != 151 {
		t.Errorf("the log continues with %d", e.Seq)
	}
	journaltest.InOrder(t, journaltest.ReadAll(t, j, 1), epoch, 1, 151)
}

func TestRealCloseStoresWhatIsQueued(t *testing.T) {
	t.Parallel()
	opts := onServer(t)
	j := open(t, opts)
	s := new(journaltest.Source)
	for i := range 500 {
		if err := j.Append(s.Next(journaltest.URI(i))); err != nil {
			t.Fatal(err)
		}
	}
	closeLog(t, j)
	if err := j.Append(s.Next(journaltest.URI(1))); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("appended after Close: %v", err)
	}
	j = open(t, opts)
	journaltest.InOrder(t, journaltest.ReadAll(t, j, 0), j.Epoch(), 1, 500)
}

func TestRealFollowGoesFromHistoryIntoLive(t *testing.T) {
	t.Parallel()
	j := open(t, onServer(t))
	const n = 4000
	s := new(journaltest.Source)
	journaltest.AppendN(t, j, s, n/4)
	go func() { // ends with its loop
		for i := range n * 3 / 4 {
			_ = j.Append(s.Next(journaltest.URI(i)))
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	next := uint64(7)
	for e, err := range j.Follow(ctx, next) {
		if err != nil {
			t.Fatalf("at %d: %v", next, err)
		}
		if e.Seq != next || e.Gap != nil {
			t.Fatalf("got %s, want %d", e.Data(), next)
		}
		if next++; next > n {
			break
		}
	}
}

func TestRealRecentEntryHasMembersThatAreNotStored(t *testing.T) {
	t.Parallel()
	opts := onServer(t)
	j := open(t, opts)
	e := new(journaltest.Source).Next("file:///a")
	text := "content"
	u := e.Payload.(event.ResourceUpdated)
	u.Text = &text
	e.Payload, e.Received = u, time.Now()
	if _, err := j.Store(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	entry := journaltest.ReadAll(t, j, 1)[0]
	got, err := entry.Event()
	if err != nil {
		t.Fatal(err)
	}
	if !entry.Received().Equal(e.Received) || got.Received.IsZero() || got.Payload.(event.ResourceUpdated).Text != &text || got.ID != event.FormatID(j.Epoch(), 1) {
		t.Errorf("read %+v", got)
	}
	closeLog(t, j)
	if got, err = journaltest.ReadAll(t, open(t, opts), 1)[0].Event(); err != nil || !got.Received.IsZero() || got.ResourceURI != "file:///a" {
		t.Errorf("read %+v, %v", got, err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{
		{}, {URL: "nats://127.0.0.1:1", Stream: "a.b"}, {URL: "nats://127.0.0.1:1", Stream: strings.Repeat("a", 65)}, {URL: "nats://127.0.0.1:1", Retain: -1},
		{URL: "nats://user:s3cr3t@127.0.0.1:1/%zz"}, {URL: "nats://user:s3cr3t@127.0.0.1:1"},
	} {
		_, err := Open(t.Context(), o)
		if err == nil || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestRealCloseEndsReaders(t *testing.T) {
	t.Parallel()
	j := open(t, onServer(t))
	journaltest.AppendN(t, j, new(journaltest.Source), 10)
	ended := make(chan error, 1)
	go func() {
		for e, err := range j.Follow(context.Background(), 1) {
			if err != nil {
				ended <- err
			} else if e.Seq == 10 {
				go func() { _ = j.Close() }()
			}
		}
	}()
	if err := <-ended; !errors.Is(err, journal.ErrClosed) {
		t.Errorf("ended with %v", err)
	}
	closeLog(t, j)
	for _, err := range j.Read(t.Context(), 1) {
		if err == nil {
			t.Error("read after Close")
		}
	}
}

// An event that is larger than the server accepts is appended.
func TestRealTooLargeEventDoesNotStopTheLog(t *testing.T) {
	t.Parallel()
	j := open(t, onServer(t))
	s := new(journaltest.Source)
	huge := s.Next(journaltest.URI(1))
	huge.ServerID = strings.Repeat("a", 2<<20)
	_, err := j.Store(t.Context(), huge)
	if !errors.Is(err, journal.ErrTooLarge) || j.Stats().TooLarge != 1 {
		t.Errorf("stored with %v, %+v", err, j.Stats())
	}
	large := s.Next("")
	large.Payload = event.ListChanged{List: catalog.Tools, Added: slices.Repeat([]string{strings.Repeat("a", 300<<10)}, 5)}
	e, err := j.Store(t.Context(), large)
	if err != nil {
		t.Fatal(err)
	}
	got := journaltest.ReadAll(t, j, 0)
	if len(got) != 2 || got[1].ID != e.ID {
		t.Fatalf("%d entries", len(got))
	}
	added := 0
	for _, part := range got { // each is read as it was stored
		ev, err := part.Event()
		if err != nil {
			t.Fatal(err)
		}
		added += len(ev.Payload.(event.ListChanged).Added)
	}
	if added != 5 {
		t.Errorf("the parts add %d tools", added)
	}
	// What cannot be remembered is dropped, and the rest is stored.
	if err := errors.Join(j.Remember(journal.ResourceID{ServerID: "docs", URI: strings.Repeat("a", 2<<20)}, journal.State{Digest: journaltest.Digest(1)}),
		j.Remember(journal.ResourceID{ServerID: "docs", URI: "file:///b"}, journal.State{Digest: journaltest.Digest(2)})); err != nil {
		t.Fatal(err)
	}
	if states, err := j.States(t.Context(), ""); err != nil || len(states.Resources) != 1 {
		t.Errorf("%d states, %v", len(states.Resources), err)
	}
}
