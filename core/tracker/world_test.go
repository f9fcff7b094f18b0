package tracker

import (
	"context"
	"log/slog"
	"reflect"
	"slices"
	"strings"
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

// world is a tracker, the fake servers that it follows, and the events that it published, all
// within one synctest bubble: time passes only when a test lets it.
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

// inWorld runs the test in each era, with one server, "docs".
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

// stop ends the tracker and waits for everything that it started.
func (w *world) stop() {
	if w.end != nil {
		w.end(nil)
	}
	w.running.Wait()
	w.Wait()
}

// pass lets bubble time pass, and waits until everything has settled.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// published returns the events of the types since the last forget; without types, all events.
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

// updates returns the resource.updated events as "uri cause", in order.
func (w *world) updates() []string {
	var out []string
	for _, e := range w.published(event.TypeResourceUpdated) {
		out = append(out, e.ResourceURI+" "+string(e.Cause))
	}
	return out
}

// apply gives the tracker another config.
func (w *world) apply(entries ...config.Server) { w.tracker.Apply(&config.Config{Servers: entries}) }

// state returns the published state of the server.
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

// wantActive checks that subscription.active was published once, with this payload.
func (w *world) wantActive(want event.SubscriptionActive) {
	w.Helper()
	if all := w.published(event.TypeSubscriptionActive); len(all) != 1 || !reflect.DeepEqual(all[0].Payload, want) {
		w.Fatalf("%d subscription.active, want one with %+v:\n%s", len(all), want, w.log())
	}
}

// log returns all events as text.
func (w *world) log() string {
	var b []byte
	for _, e := range w.published() {
		b, _ = e.AppendJSON(b)
		b = append(b, '\n')
	}
	return string(b)
}

// logbook is a slog.Handler that keeps every line and can block the goroutine that writes one. This
// stops a worker's goroutine as a suspension of the process does.
type logbook struct {
	*lines
	attrs []slog.Attr
}

type lines struct {
	mu    sync.Mutex
	all   []line
	stall map[string]time.Duration // by message, for the next line with it
	held  int                      // blocked goroutines
}

type line struct {
	level slog.Level
	text  string
}

func newLogbook() logbook { return logbook{lines: &lines{stall: map[string]time.Duration{}}} }

// Enabled implements [slog.Handler].
func (l logbook) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements [slog.Handler].
func (l logbook) Handle(_ context.Context, r slog.Record) error {
	var text strings.Builder
	text.WriteString(r.Message)
	add := func(a slog.Attr) bool { text.WriteString(" " + a.String()); return true }
	for _, a := range l.attrs {
		add(a)
	}
	r.Attrs(add)
	l.mu.Lock()
	l.all = append(l.all, line{r.Level, text.String()})
	d := l.stall[r.Message]
	delete(l.stall, r.Message)
	l.held++
	l.mu.Unlock()
	time.Sleep(d) // in a bubble
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held--
	return nil
}

// holds reports whether a goroutine is blocked.
func (l *lines) holds() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held > 0
}

// WithAttrs implements [slog.Handler].
func (l logbook) WithAttrs(attrs []slog.Attr) slog.Handler {
	l.attrs = slices.Concat(l.attrs, attrs)
	return l
}

// WithGroup implements [slog.Handler].
func (l logbook) WithGroup(string) slog.Handler { return l }

// stallAt blocks the next goroutine that writes the message.
func (l *lines) stallAt(message string, d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stall[message] = d
}

// warnings returns the lines at level warn and above.
func (l *lines) warnings() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, n := range l.all {
		if n.level >= slog.LevelWarn {
			out = append(out, n.text)
		}
	}
	return out
}
