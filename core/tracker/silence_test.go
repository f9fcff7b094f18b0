package tracker_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// A change that a dead stream swallowed is published once, within 75 s, and changes after it
// immediately; only the first counts as missed. A quiet healthy server causes no events.
func TestChangeOnADeadStreamIsPublished(t *testing.T) {
	for name, legacy := range map[string]bool{"legacy": true, "modern": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, box := sessiontest.New(), sessiontest.NewMiddlebox()
				server.Legacy, server.Modern = legacy, !legacy
				server.SetQuietly("file:///a.md", "one")
				defer box.Serve(server)()
				cfg, problems := config.Parse([]byte(`{"servers":[{"id":"docs","url":"http://docs.test/mcp","trackResources":true,"safetyInterval":"0"}]}`), "mcp-servers.json", config.Options{})
				if cfg == nil {
					t.Fatal(problems)
				}
				tr := tracker.New(tracker.Options{Session: session.Options{DialContext: box.DialContext}})
				tr.Apply(cfg)
				ctx, stop := context.WithCancel(t.Context())
				var mu sync.Mutex // guards all below
				all := 0
				var got []*event.Event
				var running sync.WaitGroup
				_, events := tr.Subscribe(context.Background())
				running.Go(func() { _ = tr.Run(ctx) })
				running.Go(func() {
					for e := range events.Events() {
						mu.Lock()
						if all++; e.Payload.Type() == event.TypeResourceUpdated {
							got = append(got, e)
						}
						mu.Unlock()
					}
				})
				defer running.Wait()
				defer stop()
				updates := func(want int, within time.Duration) {
					t.Helper()
					time.Sleep(within)
					mu.Lock()
					defer mu.Unlock()
					if len(got) != want {
						t.Errorf("%d updates, want %d: %+v", len(got), want, got)
					}
				}
				missed := func(want uint64) {
					t.Helper()
					if st, _ := tr.Snapshot().Server("docs"); st.Counts.Missed != want || st.Mode != event.Push {
						t.Errorf("missed %d in mode %s, want %d, push", st.Counts.Missed, st.Mode, want)
					}
				}
				updates(0, 10*time.Second)
				settled := all
				updates(0, 10*time.Minute)
				if all != settled {
					t.Errorf("a quiet server gave %d events", all-settled)
				}
				missed(0)
				box.Forget()
				server.Set("file:///a.md", "two")
				updates(1, 75*time.Second)
				missed(1)
				server.Set("file:///a.md", "three")
				updates(2, 2*time.Second)
				updates(2, 10*time.Minute)
				missed(1)
				box.Forget()
				server.Set("file:///a.md", "four")
				updates(3, 75*time.Second)
				box.Forget()
				server.Set("file:///a.md", "five")
				updates(4, 75*time.Second)
				missed(3) // the network lost them: the server's pushes are still relied on
			})
		})
	}
}
