package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/event"
)

// The first config is applied before anything runs that may apply a newer one.
func TestFirstConfigIsAppliedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var started, early atomic.Bool
		opts := engine.Options{Applied: func(*config.Config) {
			synctest.Wait() // for all that could have run
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

// Readers get what a source led to that takes its time to end.
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
