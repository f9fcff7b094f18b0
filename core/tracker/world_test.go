package tracker

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a tracker, the fake servers that it follows, and what it published: all
// within one synctest bubble, so that time passes only where a test says so.
type world struct {
	*testing.T
	opts    Options
	logs    logbook
	tracker *Tracker
	sessiontest.Net
	end context.CancelCauseFunc

	mu     sync.Mutex
	events []*event.Event

	running sync.WaitGroup
}

// inWorld runs the test once in either era with one server, "docs".
func inWorld(t *testing.T, test func(w *world, docs *sessiontest.Fake)) {
	t.Helper()
	for _, era := range []session.Era{session.EraLegacy, session.EraModern} {
		t.Run(string(era), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Options{})
				docs := w.Serve("docs", era)
				test(w, docs)
			})
		})
	}
}

func newWorld(t *testing.T, opts Options) *world {
	w := &world{T: t, opts: opts, logs: newLogbook()}
	t.Cleanup(w.stop)
	return w
}

// start runs the tracker with the entries.
func (w *world) start(entries ...config.Server) {
	if w.opts.Logger = slog.New(w.logs); w.opts.Dial == nil {
		w.opts.Dial = w.Dial
	}
	w.tracker = New(w.opts)
	ctx, cancel := context.WithCancelCause(context.Background())
	w.end = cancel
	w.tracker.Apply(&config.Config{Servers: entries})
	_, sub := w.tracker.Subscribe(context.Background())
	w.running.Go(func() {
		for e := range sub.Events() {
			w.mu.Lock()
			w.events = append(w.events, e)
			w.mu.Unlock()
		}
	})
	w.running.Go(func() { _ = w.tracker.Run(ctx) })
	synctest.Wait()
}

// stop ends the tracker and waits for all that it started.
func (w *world) stop() {
	if w.end != nil {
		w.end(nil)
	}
	w.running.Wait()
	w.Wait()
}

// pass lets time pass, and everything settle that it set in motion.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// published returns the events of the types, since the last forget; all without types.
func (w *world) published(types ...event.Type) []*event.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*event.Event
	for _, e := range w.events {
		if len(types) == 0 || slices.Contains(types, e.Type()) {
			out = append(out, e)
		}
	}
	return out
}

func (w *world) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = nil
}

// updates are the resource.updated events as "uri cause", in order.
func (w *world) updates() []string {
	var out []string
	for _, e := range w.published(event.TypeResourceUpdated) {
		out = append(out, e.ResourceURI+" "+string(e.Cause))
	}
	return out
}

// apply gives the tracker another config.
func (w *world) apply(entries ...config.Server) { w.tracker.Apply(&config.Config{Servers: entries}) }

// state is the published state of the server.
func (w *world) state(id string) event.State {
	st, _ := w.tracker.Snapshot().Server(id)
	return st.State
}

func (w *world) wantState(id string, want event.State) {
	w.Helper()
	if got := w.state(id); got != want {
		w.Fatalf("server %s is %s, want %s; events:\n%s", id, got, want, w.log())
	}
}

func (w *world) wantUpdates(want ...string) {
	w.Helper()
	if got := w.updates(); !slices.Equal(got, want) {
		w.Fatalf("updates %q, want %q; events:\n%s", got, want, w.log())
	}
}

// log shows all events.
func (w *world) log() string {
	var b []byte
	for _, e := range w.published() {
		b, _ = e.AppendJSON(b)
		b = append(b, '\n')
	}
	return string(b)
}
