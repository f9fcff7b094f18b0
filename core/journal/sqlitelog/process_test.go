package sqlitelog

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

// The error of the second process names the directory and the process that holds the lock.
func TestOneProcessWrites(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd, out := startChild(t, "append", dir)
	if !out.Scan() {
		t.Fatal("the child appends nothing")
	}
	_, err := Open(t.Context(), Options{Dir: dir})
	if want := fmt.Sprintf("process %d", cmd.Process.Pid); !errors.Is(err, journal.ErrLocked) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir) {
		t.Errorf("opened twice: %v, want %s", err, want)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	closeLog(t, open(t, Options{Dir: dir}))
}

// A process that only reads follows one that writes, and changes nothing.
func TestReaderBesideWriter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd, out := startChild(t, "append", dir)
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	}()
	if !out.Scan() {
		t.Fatal("the child appends nothing")
	}
	go func() {
		for out.Scan() { // so that the child does not wait
		}
	}()
	l := open(t, Options{Dir: dir, Existing: true})
	next := uint64(1)
	for e, err := range l.Follow(t.Context(), 1) {
		if err != nil || e.Seq != next || e.Gap != nil {
			t.Fatalf("%s comes where %d should: %v", e.Data(), next, err)
		}
		if next++; next > 5000 {
			break
		}
	}
	// A page at a time, so that SQLite can move what the child writes to events.db.
	for _, call := range []func() error{
		func() error { return l.Append(new(journaltest.Source).Next(journaltest.URI(1))) },
		func() error { return l.Remember(journal.ResourceID{ServerID: "docs", URI: "u"}, journal.State{}) },
		func() error { return l.RememberList(journal.ListName{ServerID: "docs"}, nil) },
	} {
		if err := call(); !errors.Is(err, errReadOnly) {
			t.Errorf("a write: %v", err)
		}
	}
	if b, err := l.Bounds(t.Context()); err != nil || b.Last < 5000 {
		t.Errorf("bounds %+v, %v", b, err)
	}
	if st, err := l.States(t.Context(), "docs"); err != nil || len(st.Resources) != 100 {
		t.Errorf("%d states, %v", len(st.Resources), err)
	}
	n := 0
	for e, err := range l.Select(t.Context(), journal.Selection{ServerID: "docs", URI: journaltest.URI(7)}) {
		if ev, _ := e.Event(); err != nil || ev.ResourceURI != journaltest.URI(7) {
			t.Fatalf("%s, %v", e.Data(), err)
		}
		n++
	}
	if n < 50 {
		t.Errorf("%d versions", n)
	}
	if err := l.Flush(t.Context()); err != nil {
		t.Error(err)
	}
}

// Opening with Existing creates nothing, shortens nothing, and reads a file that nobody has open or
// that a killed process left.
func TestExistingLogIsNotChanged(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "events")
	if _, err := Open(t.Context(), Options{Dir: dir, Existing: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a log: %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory was made: %v", err)
	}
	l := open(t, Options{Dir: dir, KeepContent: 1 << 20})
	l.Contents().Put(journaltest.Digest(1), "text")
	journaltest.AppendN(t, l, new(journaltest.Source), 30)
	epoch := l.Epoch()
	closeLog(t, l)
	before, err := os.ReadFile(events(dir))
	if err != nil {
		t.Fatal(err)
	}
	l = open(t, Options{Dir: dir, Existing: true, RetainBytes: 1, Retain: 1})
	journaltest.InOrder(t, journaltest.ReadAll(t, l, 1), epoch, 1, 30)
	if text, ok, err := l.Contents().Get(t.Context(), journaltest.Digest(1)); !ok || text != "text" || err != nil {
		t.Errorf("the text is %q, %v", text, err)
	}
	l.Contents().Put(journaltest.Digest(2), "another")
	closeLog(t, l)
	if after, err := os.ReadFile(events(dir)); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file was changed: %v", err)
	}
	closeLog(t, open(t, Options{Dir: dir}))
}

// A process that only reads continues with the new file.
func TestReaderSeesThatTheFileWasReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := open(t, Options{Dir: dir})
	s := new(journaltest.Source)
	journaltest.AppendN(t, w, s, 10)
	r := open(t, Options{Dir: dir, Existing: true})
	f := startFollow(t, r, 10)
	remove(t, events(dir))
	e := journaltest.AppendN(t, w, s, 1)
	if err := <-f.ended; !errors.Is(err, journal.ErrEpoch) {
		t.Errorf("Follow ended with %v", err)
	}
	journaltest.Eventually(t, time.Minute, "the new event is read", func() bool {
		got := journaltest.ReadAll(t, r, 11)
		return len(got) == 1 && got[0].ID == e.ID
	})
	if res, err := r.Resume(t.Context(), event.FormatID(w.Epoch(), 11)); err != nil || res.Gap != nil || res.From != 12 {
		t.Errorf("resumed with %+v, %v", res, err)
	}
}

// A reader of another process gets an error while the file is damaged, and continues when the writer has
// set it aside.
func TestReaderOfADamagedFile(t *testing.T) {
	t.Parallel()
	const n = 50
	dir, _ := filled(t, n)
	l := open(t, Options{Dir: dir})
	other := open(t, Options{Dir: dir, Existing: true})
	journaltest.InOrder(t, journaltest.ReadAll(t, other, 0), l.Epoch(), 1, n)
	sql(t, dir, "DELETE FROM log")
	if _, err := readOnce(t, other); !damaged(err) {
		t.Fatal(err)
	}
	if _, err := readOnce(t, l); !errors.Is(err, journal.ErrEpoch) {
		t.Fatal(err)
	}
	journaltest.AppendN(t, l, new(journaltest.Source), 3)
	journaltest.InOrder(t, journaltest.ReadAll(t, other, n+1), l.Epoch(), n+1, 3)
}
