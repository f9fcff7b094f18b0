package sqlitelog

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

// Expired events are removed, in more than one transaction, and read as a gap.
func TestRetentionByAge(t *testing.T) {
	t.Parallel()
	const n = 3*minTrim + 5
	l := open(t, Options{Dir: t.TempDir(), Retain: 300 * time.Millisecond, Durability: journal.Interval})
	s := new(journaltest.Source)
	journaltest.AppendN(t, l, s, n)
	journaltest.Eventually(t, time.Minute, "the events are gone", func() bool {
		b, err := l.Bounds(t.Context())
		return err == nil && b.First == n+1 && b.Last == n && b.Bytes == 0
	})
	if got := journaltest.ReadAll(t, l, 0); len(got) != 1 || got[0].Gap == nil || got[0].Gap.Reason != journal.ReasonRetention || got[0].Seq != n {
		t.Errorf("%d entries", len(got))
	}
	if r, err := l.Resume(t.Context(), event.FormatID(l.Epoch(), 4)); err != nil || r.Gap == nil || r.From != n+1 {
		t.Errorf("resumed with %+v, %v", r, err)
	}
	if e := journaltest.AppendN(t, l, s, 1); e.Seq != n+1 {
		t.Errorf("continues with %s", e.ID)
	}
}

// With a bound on bytes, new events use the pages of removed ones.
func TestFileStopsGrowing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const limit = 1 << 20
	l := open(t, Options{Dir: dir, RetainBytes: limit, Durability: journal.Interval})
	s := new(journaltest.Source)
	var sizes []int64
	for range 4 {
		journaltest.AppendN(t, l, s, 6000) // 2 MB
		closeLog(t, l)
		info, err := os.Stat(events(dir))
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, info.Size())
		l = open(t, Options{Dir: dir, RetainBytes: limit, Durability: journal.Interval})
		b, err := l.Bounds(t.Context())
		if err != nil || b.Bytes > limit || b.Bytes < limit/2 {
			t.Errorf("bounds %+v, %v", b, err)
		}
		journaltest.InOrder(t, journaltest.ReadAll(t, l, b.First), l.Epoch(), b.First, int(b.Last-b.First+1))
	}
	if last := sizes[len(sizes)-1]; last > 4*limit || last > slices.Max(sizes[:2])*5/4 {
		t.Errorf("the file grows: %v", sizes)
	}
}

// Times rise within a log, also if the clock was set back.
func TestClockIsSetBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, Options{Dir: dir})
	s := new(journaltest.Source)
	journaltest.AppendN(t, l, s, 10)
	closeLog(t, l)
	ahead := time.Now().Add(1000 * time.Hour).Truncate(time.Microsecond)
	sql(t, dir, fmt.Sprintf("UPDATE events SET stored = %d + seq", ahead.UnixMicro()))
	l = open(t, Options{Dir: dir})
	journaltest.AppendN(t, l, s, 10)
	for _, tt := range []struct {
		at   time.Time
		want uint64
	}{{time.Unix(0, 0), 1}, {time.Now(), 1}, {ahead.Add(5 * time.Microsecond), 5}, {ahead.Add(10 * time.Microsecond), 10}, {ahead.Add(time.Hour), 21}} {
		if seq, err := l.Since(t.Context(), tt.at); err != nil || seq != tt.want {
			t.Errorf("since %v: %d, %v, want %d", tt.at, seq, err, tt.want)
		}
	}
}

// The oldest texts are removed first, even after a restart with another bound. Texts that cannot
// wait are dropped and counted.
func TestTextsAreBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := func(i int) string { return strings.Repeat(string(rune('a'+i)), 64<<10) }
	l := open(t, Options{Dir: dir, KeepContent: 1 << 20})
	for i := range 20 {
		l.Contents().Put(journaltest.Digest(uint64(i+1)), text(i))
	}
	check := func(first int) {
		t.Helper()
		if err := l.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			got, ok, err := l.Contents().Get(t.Context(), journaltest.Digest(uint64(i+1)))
			if err != nil || ok != (i >= first) || ok && got != text(i) {
				t.Errorf("text %d: %v, %v", i, ok, err)
			}
		}
	}
	check(4)
	closeLog(t, l)
	l = open(t, Options{Dir: dir, KeepContent: 128 << 10})
	journaltest.Eventually(t, time.Minute, "there are fewer texts", func() bool {
		_, ok, err := l.Contents().Get(t.Context(), journaltest.Digest(18))
		return err == nil && !ok
	})
	check(18)
	unlock := lock(t, dir)
	for i := range 400 {
		l.Contents().Put(journaltest.Digest(uint64(i+100)), text(i%20))
	}
	if n := l.Contents().Dropped(); n < 100 {
		t.Errorf("%d texts were dropped", n)
	}
	unlock()
	closeLog(t, l)
	l = open(t, Options{Dir: dir})
	journaltest.Eventually(t, time.Minute, "there are no texts", func() bool {
		found, err := l.Contents().Stored(t.Context(), nil)
		_, ok, _ := l.Contents().Get(t.Context(), journaltest.Digest(19))
		return err == nil && len(found) == 0 && !ok
	})
}
