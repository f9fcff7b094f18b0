package tracker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/login"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
	"github.com/mcptrack/mcptrack/core/status"
)

// The end of a session is one failure: one event, with the reason and the wait, one count, one
// warning.
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

// The tracker waits as long as the server asked, plus up to 20 %, but no longer than 30 s.
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

// A connection that is never answered is abandoned after the connect timeout, with an event, and
// retried. Waits are jittered, so servers are not retried in lockstep.
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

// A hundred servers that fail simultaneously are not retried simultaneously.
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

// There is one warning for a server of which nothing can be followed, unless the user did not ask for it,
// one for a server that cannot push, and none for a server that can.
func TestWarnings(t *testing.T) {
	for name, tt := range map[string]struct {
		caps    map[string]any
		unasked bool
		want    string
	}{
		"nothing":             {map[string]any{"completions": map[string]any{}}, false, "does not offer resources"},
		"nothing, unasked":    {map[string]any{"completions": map[string]any{}}, true, ""},
		"only tools":          {map[string]any{"tools": map[string]any{"listChanged": true}}, false, ""},
		"only tools, unasked": {map[string]any{"tools": map[string]any{"listChanged": true}}, true, ""},
		"no subscribe":        {map[string]any{"resources": map[string]any{"listChanged": true}}, false, "polling for them every"},
		"all":                 {map[string]any{"resources": map[string]any{"listChanged": true, "subscribe": true}}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world, docs *sessiontest.Fake) {
				docs.Capabilities = tt.caps
				docs.SetQuietly("file:///a.md", "one")
				w.start(sessiontest.Entry("docs", func(s *config.Server) { s.Unasked = tt.unasked }))
				w.pass(5 * time.Minute)
				docs.Disconnect()
				w.pass(5 * time.Minute)
				got := w.logs.warnings()
				got = slices.DeleteFunc(got, func(line string) bool { return strings.HasPrefix(line, status.StateMessage+" ") })
				if tt.want == "" && len(got) != 0 || tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want) || !strings.Contains(got[0], "server=docs")) {
					w.Errorf("warnings %q, want one with %q", got, tt.want)
				}
			})
		})
	}
}

// A server that a request waits for is reconnected soon after it has returned, however often it
// failed before. This does not delay the planned attempts.
func TestServerIsRetriedSoon(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md")
		w.SetDown("docs", errors.New("refused"))
		w.pass(20 * time.Second) // the waits have become long
		before := len(w.Dialled("docs"))
		planned := func() time.Time {
			st, _ := w.tracker.Snapshot().Server("docs")
			return st.NextRetry
		}
		at := planned()
		for range 20 {
			w.tracker.RetrySoon("docs")
			w.pass(50 * time.Millisecond)
		}
		if n := len(w.Dialled("docs")) - before; n < 3 || n > 5 {
			w.Errorf("%d attempts in a second", n)
		}
		if now := planned(); now.Sub(at).Abs() > time.Millisecond {
			w.Errorf("the next attempt is at %v instead of %v", now, at)
		}
		w.SetDown("docs", nil)
		for range 6 {
			w.tracker.RetrySoon("docs")
			w.pass(50 * time.Millisecond)
		}
		w.wantState("docs", event.Ready)
	})
}

// However long requests wait, they cause a bounded number of attempts, and none if the server asked
// for the wait.
func TestEarlyAttemptsAreBounded(t *testing.T) {
	for name, tt := range map[string]struct {
		down error
		most int
	}{
		"down":         {errors.New("refused"), 10*maxHurried + 10*3},
		"asks to wait": {&session.RetryAfter{Wait: 20 * time.Second, Err: errors.New("busy")}, 10 * 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Options{})
				w.Serve("docs", session.EraLegacy)
				w.SetDown("docs", tt.down)
				w.start(sessiontest.Entry("docs"))
				for range 10 * 60 * 10 {
					w.tracker.RetrySoon("docs")
					w.pass(100 * time.Millisecond)
				}
				if n := len(w.Dialled("docs")); n > tt.most || n < 15 {
					w.Errorf("%d attempts in 10 minutes, want at most %d", n, tt.most)
				}
			})
		})
	}
}

// NeedsAuth is published once, however often the server is retried, and again only for another
// reason.
func TestNeedsAuthIsPublishedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logins := login.NewStore(login.Options{Dir: filepath.Join(t.TempDir(), "logins")})
		w := newWorld(t, Options{Session: session.Options{Logins: logins}})
		w.Serve("docs", session.EraLegacy)
		w.SetDown("docs", session.ErrAuth)
		w.start(sessiontest.Entry("docs"))
		w.pass(5 * time.Minute)
		if n := len(w.Dialled("docs")); n < 8 {
			w.Errorf("dialled %d times in five minutes", n)
		}
		needs := func() (n int) {
			for _, e := range w.published(event.TypeServerState) {
				if e.Payload.(event.ServerState).State == event.NeedsAuth {
					n++
				}
			}
			return n
		}
		if n := needs(); n != 1 {
			w.Errorf("published %d times:\n%s", n, w.log())
		}
		w.SetDown("docs", nil)
		w.pass(time.Minute)
		w.wantState("docs", event.Ready)
	})
}

// A restart makes one new connection, even if it is requested again before that is made. What is
// known of the server is compared with what the new session finds.
func TestRestartMakesOneConnection(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		const dialling = 5 * time.Second
		w.opts.Dial = func(ctx context.Context, srv config.Server, opts session.Options) (*session.Session, error) {
			time.Sleep(dialling)
			return w.Dial(ctx, srv, opts)
		}
		docs.SetQuietly("file:///a.md", "one")
		docs.SetQuietly("file:///b.md", "one")
		w.start(sessiontest.Entry("docs"))
		w.pass(dialling + time.Second)
		w.wantState("docs", event.Ready)
		docs.Mute(true)
		docs.SetQuietly("file:///a.md", "two")
		w.forget()
		w.tracker.Restart("docs")
		w.pass(time.Second)
		w.wantState("docs", event.Connecting)
		w.tracker.Restart("docs")
		w.pass(dialling + time.Second)
		w.wantState("docs", event.Ready)
		w.wantUpdates("file:///a.md resync")
		w.pass(4 * dialling)
		if n := len(w.Dialled("docs")); n != 2 {
			w.Errorf("%d connections were made, want the first one and one for the restart", n)
		}
	})
}
