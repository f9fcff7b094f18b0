package journal

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
)

func TestStoredInOrderWithIdsWithoutHoles(t *testing.T) {
	t.Parallel()
	for _, d := range []Durability{Always, Interval, OS} {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			j := open(t, Options{Dir: t.TempDir(), Durability: d})
			const n = 700 // singles and batches
			last := appendN(t, j, newSource(), n)
			if last.Seq != n || last.ID != event.FormatID(j.Epoch(), n) {
				t.Errorf("the last got %s", last.ID)
			}
			got := read(t, j, 0)
			inOrder(t, got, j.Epoch(), 1, n)
			for i, e := range got {
				var ev event.Event
				if err := json.Unmarshal(e.Data, &ev); err != nil {
					t.Fatalf("%s: %v", e.Data, err)
				}
				if ev.ID != e.ID || ev.Payload.(event.ResourceUpdated).Digest != digest(uint64(i+1)) {
					t.Fatalf("entry %d is %s", i, e.Data)
				}
			}
			inOrder(t, read(t, j, n-4), j.Epoch(), n-4, 5)
			if more := read(t, j, n+1); len(more) != 0 {
				t.Errorf("%d entries after the last", len(more))
			}
		})
	}
}

func TestReopenKeepsIdsAndContinues(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := open(t, Options{Dir: dir})
	epoch := j.Epoch()
	appendN(t, j, newSource(), 150)
	closeJournal(t, j)
	j = open(t, Options{Dir: dir})
	if j.Epoch() != epoch {
		t.Errorf("the epoch was %s and is %s", epoch, j.Epoch())
	}
	if e := appendN(t, j, newSource(), 1); e.Seq != 151 {
		t.Errorf("the log goes on with %d", e.Seq)
	}
	inOrder(t, read(t, j, 1), epoch, 1, 151)
}

func TestCloseStoresWhatIsQueued(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := open(t, Options{Dir: dir})
	s := newSource()
	for i := range 500 {
		if err := j.Append(s.next(uri(i))); err != nil {
			t.Fatal(err)
		}
	}
	closeJournal(t, j)
	if err := j.Append(s.next(uri(1))); !errors.Is(err, ErrClosed) {
		t.Errorf("appended after Close: %v", err)
	}
	j = open(t, Options{Dir: dir})
	inOrder(t, read(t, j, 0), j.Epoch(), 1, 500)
}

func TestFollowGoesFromHistoryIntoLive(t *testing.T) {
	t.Parallel()
	j := open(t, Options{Dir: t.TempDir()})
	const n = 4000
	s := newSource()
	appendN(t, j, s, n/4)
	go func() { // ends with its loop
		for i := range n * 3 / 4 {
			_ = j.Append(s.next(uri(i)))
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
			t.Fatalf("got %s, want %d", e.Data, next)
		}
		if next++; next > n {
			break
		}
	}
}

func TestReadersSeeOnlyWhatIsDurable(t *testing.T) {
	t.Parallel()
	j := open(t, Options{Dir: t.TempDir()})
	s := newSource()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 3000 {
			_ = j.Append(s.next(uri(i)))
		}
	}()
	for e, err := range j.Follow(t.Context(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		if d := j.head.durable.get(); e.Seq > d {
			t.Fatalf("%d was shown when %d was durable", e.Seq, d)
		}
		if e.Seq == 3000 {
			break
		}
	}
	<-done
}

func TestRecentEntryHasMembersThatAreNotStored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := open(t, Options{Dir: dir})
	e := newSource().next("file:///a")
	text := "content"
	u := e.Payload.(event.ResourceUpdated)
	u.Text = &text
	e.Payload, e.Received = u, time.Now()
	if _, err := j.Store(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	entry := read(t, j, 1)[0]
	got, err := entry.Event()
	if err != nil {
		t.Fatal(err)
	}
	if !entry.Received().Equal(e.Received) || got.Received.IsZero() || got.Payload.(event.ResourceUpdated).Text != &text || got.ID != event.FormatID(j.Epoch(), 1) {
		t.Errorf("read %+v", got)
	}
	closeJournal(t, j)
	if got, err = read(t, open(t, Options{Dir: dir}), 1)[0].Event(); err != nil || !got.Received.IsZero() || got.ResourceURI != "file:///a" {
		t.Errorf("read %+v, %v", got, err)
	}
}

func TestSecondJournalOnADirectoryIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := open(t, Options{Dir: dir})
	_, err := Open(t.Context(), Options{Dir: dir})
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "stop that process") {
		t.Errorf("the second one: %v", err)
	}
	closeJournal(t, j)
	closeJournal(t, open(t, Options{Dir: dir}))
}

func TestDirectoryIsPrivateAndNotALink(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b")
	j := open(t, Options{Dir: dir})
	closeJournal(t, j)
	for _, d := range []string{dir, filepath.Join(dir, "store")} {
		if info, err := os.Stat(d); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", d, info.Mode(), err)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Dir: link}); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("through a link: %v", err)
	}
	lock := filepath.Join(dir, "lock")
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "mark"), lock); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Dir: dir}); err == nil {
		t.Error("opened with a lock that is a link")
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{
		{}, {Dir: "x", Durability: "never"}, {Dir: "x", Stream: "a.b"}, {Dir: "x", Stream: strings.Repeat("a", 65)}, {Dir: "x", Retain: -1},
		{URL: "nats://user:s3cr3t@127.0.0.1:1/%zz"}, {URL: "nats://user:s3cr3t@127.0.0.1:1"},
	} {
		_, err := Open(t.Context(), o)
		if err == nil || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestCloseEndsReaders(t *testing.T) {
	t.Parallel()
	j := open(t, Options{Dir: t.TempDir()})
	appendN(t, j, newSource(), 10)
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
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Errorf("ended with %v", err)
	}
	closeJournal(t, j)
	for _, err := range j.Read(t.Context(), 1) {
		if err == nil {
			t.Error("read after Close")
		}
	}
}
