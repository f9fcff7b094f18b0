package natslog

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

func TestRealResume(t *testing.T) {
	t.Parallel()
	j := open(t, onServer(t))
	journaltest.AppendN(t, j, new(journaltest.Source), 20)
	id := func(n uint64) string { return event.FormatID(j.Epoch(), n) }
	foreign := strings.Repeat("0", 16)
	if foreign == j.Epoch() {
		t.Fatal("no foreign epoch")
	}
	for _, c := range []struct {
		id     string
		from   uint64
		reason string
	}{
		{id(1), 2, ""}, {id(15), 16, ""}, {id(20), 21, ""}, {id(0), 1, ""},
		{id(21), 1, journal.ReasonAhead}, {id(1 << 63), 1, journal.ReasonAhead},
		{foreign + "-5", 1, journal.ReasonEpoch},
		{"", 1, journal.ReasonInvalid}, {"5", 1, journal.ReasonInvalid}, {j.Epoch() + "-", 1, journal.ReasonInvalid}, {j.Epoch() + "-05", 1, journal.ReasonInvalid},
		{"\x1b[2J\r\nid: 9", 1, journal.ReasonInvalid}, {strings.Repeat("9", 1<<16), 1, journal.ReasonInvalid},
	} {
		r, err := j.Resume(t.Context(), c.id)
		if err != nil {
			t.Fatal(err)
		}
		reason := ""
		if r.Gap != nil {
			reason = r.Gap.Reason
			if len(r.Gap.From) > 300 || strings.ContainsAny(r.Gap.From, "\r\n\x1b") || r.Gap.To != id(r.From-1) {
				t.Errorf("gap %+v", r.Gap)
			}
		}
		if r.From != c.from || reason != c.reason || r.Next != 21 {
			t.Errorf("%.40q: %+v, reason %q, want from %d, %q", c.id, r, reason, c.from, c.reason)
		}
	}
}

func TestRealEmptyLog(t *testing.T) {
	t.Parallel()
	j := open(t, onServer(t))
	b, err := j.Bounds(t.Context())
	if err != nil || b.First != 1 || b.Last != 0 {
		t.Errorf("bounds %+v, %v", b, err)
	}
	if got := journaltest.ReadAll(t, j, 0); len(got) != 0 {
		t.Errorf("read %d entries", len(got))
	}
	if r, err := j.Resume(t.Context(), event.FormatID(j.Epoch(), 0)); err != nil || r.Gap != nil || r.From != 1 {
		t.Errorf("resumed with %+v, %v", r, err)
	}
	if seq, err := j.Since(t.Context(), time.Unix(0, 0)); err != nil || seq != 1 {
		t.Errorf("since the beginning: %d, %v", seq, err)
	}
}

// The log keeps so little that its beginning is removed.
func TestRealRetentionIsReadAsAGap(t *testing.T) {
	t.Parallel()
	opts := onServer(t)
	opts.RetainBytes = 64 << 10
	j := open(t, opts)
	const n = 1000
	journaltest.AppendN(t, j, new(journaltest.Source), n)
	b, err := j.Bounds(t.Context())
	if err != nil || b.First < 100 || b.Last != n {
		t.Fatalf("bounds %+v, %v", b, err)
	}
	check := func(entries []journal.Entry, from uint64) {
		t.Helper()
		g := entries[0].Gap
		if g == nil || g.Reason != journal.ReasonRetention || g.From != event.FormatID(j.Epoch(), from-1) || g.To != event.FormatID(j.Epoch(), b.First-1) {
			t.Fatalf("begins with %s", entries[0].Data())
		}
		journaltest.InOrder(t, entries[1:], j.Epoch(), b.First, int(n-b.First+1))
		if ev, err := entries[0].Event(); err != nil || ev.Type() != event.TypeGap {
			t.Errorf("the gap as an event: %+v, %v", ev, err)
		}
	}
	check(journaltest.ReadAll(t, j, 5), 5)
	check(slices.Collect(func(yield func(journal.Entry) bool) {
		for e, err := range j.Follow(t.Context(), 7) {
			if err != nil || !yield(e) || e.Seq == n {
				return
			}
		}
	}), 7)
	r, err := j.Resume(t.Context(), event.FormatID(j.Epoch(), 5))
	if err != nil || r.Gap == nil || r.Gap.Reason != journal.ReasonRetention || r.From != b.First {
		t.Errorf("resumed with %+v, %v", r, err)
	}
	// More room, the same log.
	closeLog(t, j)
	epoch := j.Epoch()
	opts.RetainBytes = 1 << 20
	j = open(t, opts)
	if now, err := j.Bounds(t.Context()); err != nil || now.First != b.First || j.Epoch() != epoch {
		t.Errorf("bounds %+v, %v after a change of retention", now, err)
	}
}

// Opening with Existing creates nothing and shortens nothing.
func TestRealExistingLogIsNotChanged(t *testing.T) {
	t.Parallel()
	url := journaltest.Store(t)
	for range 2 { // the first makes none
		if _, err := Open(t.Context(), Options{URL: url, Existing: true}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("without a log: %v", err)
		}
	}
	j := open(t, Options{URL: url, Replicas: 1, Retain: 1000 * time.Hour})
	journaltest.AppendN(t, j, new(journaltest.Source), 3)
	closeLog(t, j)
	j = open(t, Options{URL: url, Existing: true, RetainBytes: 1})
	info, err := j.store.info(t.Context(), j.store.opts.Stream)
	if err != nil || info.Config.MaxAge != 1000*time.Hour || info.Config.MaxBytes != 1<<30 {
		t.Errorf("retention %v, %v", info.Config, err)
	}
	journaltest.InOrder(t, journaltest.ReadAll(t, j, 1), j.Epoch(), 1, 3)
}

// Everything expires: what is gone is a gap, and numbers continue.
func TestRealRetentionByAge(t *testing.T) {
	t.Parallel()
	j := open(t, Options{URL: journaltest.Store(t), Replicas: 1, Retain: 300 * time.Millisecond})
	s := new(journaltest.Source)
	journaltest.AppendN(t, j, s, 10)
	journaltest.Eventually(t, time.Minute, "the events are gone", func() bool {
		b, err := j.Bounds(t.Context())
		return err == nil && b.First == 11 && b.Last == 10
	})
	if got := journaltest.ReadAll(t, j, 0); len(got) != 0 {
		t.Logf("read %s", got[0].Data())
	}
	r, err := j.Resume(t.Context(), event.FormatID(j.Epoch(), 4))
	if err != nil || r.Gap == nil || r.From != 11 || r.Gap.To != event.FormatID(j.Epoch(), 10) {
		t.Errorf("resumed with %+v, %v", r, err)
	}
	if e := journaltest.AppendN(t, j, s, 1); e.Seq != 11 {
		t.Errorf("continues with %s", e.ID)
	}
}

func TestRealSince(t *testing.T) {
	t.Parallel()
	j := open(t, onServer(t))
	s := new(journaltest.Source)
	journaltest.AppendN(t, j, s, 5)
	between := time.Now()
	// The events' own times do not matter: clocks of servers and of earlier runs may be wrong.
	skewed := s.Next(journaltest.URI(1))
	skewed.Timestamp = between.Add(-10 * 365 * 24 * time.Hour)
	if _, err := j.Store(t.Context(), skewed); err != nil {
		t.Fatal(err)
	}
	skewed = s.Next(journaltest.URI(1))
	skewed.Timestamp = between.Add(10 * 365 * 24 * time.Hour)
	if _, err := j.Store(t.Context(), skewed); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		at   time.Time
		want uint64
	}{{time.Unix(0, 0), 1}, {between, 6}, {time.Now().Add(time.Hour), 8}} {
		if seq, err := j.Since(t.Context(), c.at); err != nil || seq != c.want {
			t.Errorf("since %v: %d, %v, want %d", c.at, seq, err, c.want)
		}
	}
	journaltest.InOrder(t, journaltest.ReadAll(t, j, 0), j.Epoch(), 1, 7)
}
