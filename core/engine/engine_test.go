package engine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
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

// A source ends first, then everything that it and the tracker caused is stored, and only then do
// the readers end.
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
		backoff.Poll(ctx, time.Millisecond, func() bool { return p.Ready() == nil })
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

// The first config is applied before anything runs that may apply a newer one.
func TestFirstConfigIsAppliedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var started, early atomic.Bool
		opts := engine.Options{Applied: func(*config.Config) {
			synctest.Wait() // for everything that could have run
			early.Store(started.Load())
		}}
		e, err := engine.New(ctx, engine.Desired{Config: disabled("a")}, local().memory, opts)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Run(ctx, engine.Source(func(context.Context) error {
			started.Store(true)
			stop()
			return nil
		})); err != nil {
			t.Fatal(err)
		}
		if early.Load() {
			t.Error("a part ran before the config was applied")
		}
	})
}

// Readers receive the events of a source that ends slowly.
func TestReadersOutliveSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := local().memory
		e := newEngine(t, disabled("a"), j)
		ctx, stop := context.WithCancel(t.Context())
		found := false
		err := e.Run(ctx, engine.Source(func(ctx context.Context) error {
			stop()
			time.Sleep(10 * time.Second)
			e.Tracker().Publish(event.Event{Payload: event.ConfigReloaded{Added: []string{"last"}}})
			return nil
		}), engine.Reader(func(ctx context.Context) error {
			<-ctx.Done()
			for entry, err := range j.Read(context.WithoutCancel(ctx), 0) {
				if err != nil {
					return err
				}
				ev, err := entry.Event()
				found = found || err == nil && ev.Type() == event.TypeConfigReloaded
			}
			return nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		if !found {
			t.Error("the reader ended before the source")
		}
	})
}
