package tracker

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// The end of a session is one failure: one event, which says why and until when,
// one count, one warning (B6).
func TestEndOfASessionIsPublishedOnce(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md")
		docs.Disconnect()
		w.pass(5 * time.Second)
		w.wantState("docs", event.Ready)
		var backoffs []event.ServerState
		for _, e := range w.published(event.TypeServerState) {
			if p := e.Payload.(event.ServerState); p.State == event.Backoff {
				backoffs = append(backoffs, p)
			}
		}
		if len(backoffs) != 1 || backoffs[0].Error == "" || backoffs[0].RetryIn == 0 || backoffs[0].Attempt != 1 || backoffs[0].Previous != event.Ready {
			w.Errorf("want one Backoff with its error and wait, got %+v", backoffs)
		}
		if st, _ := w.tracker.Snapshot().Server("docs"); st.Counts.Failures != 1 || st.Error != "" || !st.NextRetry.IsZero() {
			w.Errorf("status after the return: %d failures, error %q, next retry %v", st.Counts.Failures, st.Error, st.NextRetry)
		}
		if n := len(w.logs.warnings()); n != 1 {
			w.Errorf("warnings %q, want one", w.logs.warnings())
		}
	})
}

// What the server asks for is waited for, and up to 20 % more, but no longer than 30 s.
func TestRetryAfter(t *testing.T) {
	for asked, want := range map[time.Duration]time.Duration{10 * time.Second: 10 * time.Second, time.Hour: 30 * time.Second} {
		t.Run(fmt.Sprint(asked), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Options{})
				w.Serve("docs", session.EraLegacy)
				w.SetDown("docs", &session.RetryAfter{Wait: asked, Err: errors.New("too many requests")})
				w.start(sessiontest.Entry("docs"))
				w.pass(want*6/5 + time.Second)
				dials := w.Dialled("docs")
				if len(dials) != 2 || dials[1].Sub(dials[0]) < want || dials[1].Sub(dials[0]) > min(want*6/5+1, 30*time.Second) {
					w.Errorf("dialled at %v", dials)
				}
			})
		})
	}
}

// A server that never answers is given up after its connect timeout, with an event, and
// tried again; one that is refused with every wait jittered is never tried in step
// with another.
func TestConnectTimeout(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		docs.Fail(sessiontest.Fault{Silent: true})
		w.start(sessiontest.Entry("docs"))
		w.pass(16 * time.Second)
		st, _ := w.tracker.Snapshot().Server("docs")
		if st.State == event.Ready || st.Attempt == 0 || st.Error == "" {
			w.Errorf("after 16 s of silence: %+v", st)
		}
		docs.Heal()
		w.pass(20 * time.Second)
		w.wantState("docs", event.Ready)
	})
}

// A hundred servers that fail at once do not come back at once.
func TestRetriesAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		var entries []config.Server
		for i := range 100 {
			id := fmt.Sprintf("s%02d", i)
			w.Serve(id, session.EraLegacy)
			w.SetDown(id, sessiontest.ErrRefused)
			entries = append(entries, sessiontest.Entry(id))
		}
		w.start(entries...)
		w.pass(20 * time.Second)
		at := map[time.Duration]int{}
		began := w.Dialled("s00")[0]
		for _, e := range entries {
			dials := w.Dialled(e.ID)
			at[dials[len(dials)-1].Sub(began).Truncate(100*time.Millisecond)]++
		}
		for d, n := range at {
			if n > 25 {
				w.Errorf("%d of 100 servers were tried within 100 ms at %v", n, d)
			}
		}
	})
}

// One warning for a server without resources, one for one that cannot push, none
// for one that can (B3).
func TestWarnings(t *testing.T) {
	for name, tt := range map[string]struct {
		caps map[string]any
		want string
	}{
		"no resources": {map[string]any{"completions": map[string]any{}}, "does not offer resources"},
		"no subscribe": {map[string]any{"resources": map[string]any{"listChanged": true}}, "polling for them every"},
		"all":          {map[string]any{"resources": map[string]any{"listChanged": true, "subscribe": true}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world, docs *sessiontest.Fake) {
				docs.Capabilities = tt.caps
				docs.SetQuietly("file:///a.md", "one")
				w.start(sessiontest.Entry("docs"))
				w.pass(10 * time.Minute)
				got := w.logs.warnings()
				if tt.want == "" && len(got) != 0 || tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)) {
					w.Errorf("warnings %q, want one with %q", got, tt.want)
				}
			})
		})
	}
}
