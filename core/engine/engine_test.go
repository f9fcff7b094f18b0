package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

func newEngine(t *testing.T, cfg *config.Config, log journal.Log) *engine.Engine {
	t.Helper()
	p, err := engine.New(t.Context(), engine.Desired{Config: cfg}, log, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func disabled(ids ...string) *config.Config {
	cfg := &config.Config{}
	for _, id := range ids {
		cfg.Servers = append(cfg.Servers, config.Server{ID: id, Transport: config.TransportStdio, Tracking: config.Tracking{TrackResources: true}})
	}
	return cfg
}

// A source ends first, then what it and the tracker led to is stored, and only then
// do the readers end.
func TestReadersEndAfterEverythingIsStored(t *testing.T) {
	t.Parallel()
	j := local().memory
	p := newEngine(t, disabled("a", "b"), j)
	ctx, stop := context.WithCancel(t.Context())
	source := func(ctx context.Context) error {
		<-ctx.Done()
		p.Tracker().Publish(event.Event{Payload: event.ConfigReloaded{Added: []string{"last"}}})
		return context.Cause(ctx)
	}
	var stopping int
	reader := func(ctx context.Context) error {
		for p.Ready() != nil {
			<-time.After(time.Millisecond)
		}
		stop()
		<-ctx.Done()
		for entry, err := range j.Read(t.Context(), 0) {
			if err != nil {
				return err
			}
			e, err := entry.Event()
			if err != nil {
				return err
			}
			if st, ok := e.Payload.(event.ServerState); ok && st.State == event.Stopping {
				stopping++
			}
		}
		return nil
	}
	if err := p.Run(ctx, engine.Source(source), engine.Reader(reader)); err != nil {
		t.Fatal(err)
	}
	if stopping != 2 {
		t.Errorf("the reader ended when %d of 2 last events were stored", stopping)
	}
}

func TestRunEndsWithTheErrorOfATask(t *testing.T) {
	t.Parallel()
	p := newEngine(t, disabled("a"), local().memory)
	failed := errors.New("the reader failed")
	waits := func(ctx context.Context) error { <-ctx.Done(); return errors.New("was ended") }
	err := p.Run(t.Context(), engine.Source(waits), engine.Reader(waits), engine.Reader(func(context.Context) error { return failed }))
	if !errors.Is(err, failed) {
		t.Errorf("Run: %v", err)
	}
}
