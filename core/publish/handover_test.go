package publish

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// What a server had when it is handed over is not stored before the events that led to it are
// recorded: a crash in between would lose them.
func TestNothingIsRememberedBeforeItsEvents(t *testing.T) {
	t.Parallel()
	j, err := journal.Open(t.Context(), journal.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Close() }()
	tr := tracker.New(tracker.Options{})
	r, m := newRecorder(tr, j, &texts{}, slog.New(slog.DiscardHandler)), newMemory(j)
	tr.Apply(&config.Config{Servers: []config.Server{{ID: "docs", Transport: config.TransportStdio, Tracking: config.Tracking{TrackResources: true}}}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = tr.Run(ctx)
	}()
	defer func() {
		cancel()
		<-ended
	}()
	for end := time.Now().Add(time.Minute); tr.Snapshot().Seq == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the tracker has published nothing")
		}
	}
	waiting, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stop()
	m.rememberSettled(waiting, "docs", tr, r) // nothing is recorded: the recorder does not run
	if _, stored := m.stored["docs"]; stored {
		t.Error("the server is remembered before its events are recorded")
	}
	r.seq.Store(tr.Snapshot().Seq)
	m.rememberSettled(t.Context(), "docs", tr, r)
	if _, stored := m.stored["docs"]; !stored {
		t.Error("the server is not remembered")
	}
}
