package natslog

import (
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

// More room, the same log.
func TestRealRetentionIsChanged(t *testing.T) {
	t.Parallel()
	opts := onServer(t)
	opts.RetainBytes = 64 << 10
	j := open(t, opts)
	journaltest.AppendN(t, j, new(journaltest.Source), 1000)
	before, err := j.Bounds(t.Context())
	if err != nil || before.First < 100 {
		t.Fatalf("bounds %+v, %v", before, err)
	}
	closeLog(t, j)
	opts.RetainBytes = 1 << 20
	if now, err := open(t, opts).Bounds(t.Context()); err != nil || now.First != before.First || now.Epoch != before.Epoch {
		t.Errorf("bounds %+v, %v", now, err)
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
