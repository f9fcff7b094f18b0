package tracker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// untracked is an entry that follows nothing of itself.
func untracked(id string) config.Server {
	return sessiontest.Entry(id, func(s *config.Server) { s.TrackResources, s.TrackTools, s.TrackPrompts = false, false, false })
}

// inBackground calls f and returns where its error will be.
func (w *world) inBackground(f func(context.Context) error) <-chan error {
	done := make(chan error, 1) // sent to once
	w.running.Go(func() { done <- f(w.Context()) })
	synctest.Wait()
	return done
}

// now is the error that is there, errNothing if there is none yet.
func now(done <-chan error) error {
	select {
	case err := <-done:
		return err
	default:
		return errNothing
	}
}

var errNothing = errors.New("still waiting")

// wantSubscriptions compares what clients are subscribed to, and what was published last.
func (w *world) wantSubscriptions(want ...string) {
	w.Helper()
	synctest.Wait()
	if got := w.tracker.Client("docs").Subscriptions(); !slices.Equal(got, want) {
		w.Errorf("subscribed to %q, want %q", got, want)
	}
	published := w.published(event.TypeSubscriptionsChanged)
	if len(published) == 0 {
		if len(want) > 0 {
			w.Error("no subscriptions were published")
		}
		return
	}
	if got := published[len(published)-1].Payload.(event.SubscriptionsChanged).URIs; !slices.Equal(got, want) {
		w.Errorf("published %q, want %q", got, want)
	}
}

// A subscription that the server refuses is an error, and leaves no trace.
func TestRefusedSubscription(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		docs.SetQuietly("file:///a.md", "one")
		docs.SetQuietly("file:///b.md", "one")
		docs.Fail(sessiontest.Fault{Method: "resources/subscribe", URI: "file:///a.md", Code: -32602, Message: "not subscribable"})
		docs.FailAck(sessiontest.AckFault{Hide: []string{"file:///a.md"}})
		w.start(untracked("docs"))
		w.pass(time.Second)
		client := w.tracker.Client("docs")
		refused := w.inBackground(func(ctx context.Context) error { return client.Subscribe(ctx, "file:///a.md") })
		granted := w.inBackground(func(ctx context.Context) error { return client.Subscribe(ctx, "file:///b.md") })
		w.pass(3 * time.Second)
		if err := now(refused); err == nil || !strings.Contains(err.Error(), "refuses") {
			w.Errorf("refused with %v", err)
		}
		if err := now(granted); err != nil {
			w.Errorf("the other one: %v", err)
		}
		w.wantSubscriptions("file:///b.md")
		w.pass(3 * time.Second)
		docs.Set("file:///b.md", "two")
		docs.SetQuietly("file:///a.md", "two")
		w.pass(time.Minute)
		w.wantUpdates("file:///b.md notify")
		if st, _ := w.tracker.Snapshot().Server("docs"); len(st.Resources) != 1 {
			w.Errorf("followed are %+v", st.Resources)
		}
	})
}

// A request while the server is not connected, or whose server is lost, fails with an
// error that says so.
func TestSubscribeWithoutServer(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		docs.SetQuietly("file:///a.md", "one")
		w.start(untracked("docs"))
		w.pass(time.Second)
		if err := w.tracker.Client("nobody").Subscribe(w.Context(), "file:///a.md"); !errors.Is(err, ErrUnknownServer) {
			w.Errorf("unknown: %v", err)
		}
		docs.Fail(sessiontest.Fault{Method: "resources/subscribe", Silent: true})
		docs.FailAck(sessiontest.AckFault{Never: true})
		client := w.tracker.Client("docs")
		asked := w.inBackground(func(ctx context.Context) error { return client.Subscribe(ctx, "file:///a.md") })
		w.pass(time.Second)
		if err := now(asked); !errors.Is(err, errNothing) {
			w.Fatalf("answered %v before the server was", err)
		}
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		if err := client.Unsubscribe(ctx, "file:///a.md"); !errors.Is(err, context.DeadlineExceeded) {
			w.Errorf("unsubscribed: %v", err)
		}
		w.SetDown("docs", sessiontest.ErrRefused)
		w.pass(time.Second)
		if err := now(asked); !errors.Is(err, ErrNotConnected) {
			w.Errorf("lost: %v", err)
		}
		if err := client.Subscribe(w.Context(), "file:///a.md"); !errors.Is(err, ErrNotConnected) {
			w.Errorf("not connected: %v", err)
		}
		if _, err := client.ReadResource(w.Context(), "file:///a.md"); !errors.Is(err, ErrNotConnected) {
			w.Errorf("not connected: %v", err)
		}
		w.wantSubscriptions()
		docs.Heal()
		w.SetDown("docs", nil)
		w.pass(time.Minute)
		again := w.inBackground(func(ctx context.Context) error { return client.Subscribe(ctx, "file:///a.md") })
		w.pass(3 * time.Second)
		if err := now(again); err != nil {
			w.Errorf("after it came back: %v", err)
		}
		w.wantSubscriptions("file:///a.md")
	})
}

// What the config follows costs a client no request, is not unfollowed by it, and a
// client's own subscription outlives a change of the config.
func TestSubscribeBesideConfig(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md")
		requests := func() int { return docs.Count("resources/subscribe") + docs.Count("subscriptions/listen") }
		before := requests()
		client := w.tracker.Client("docs")
		if err := client.Subscribe(w.Context(), "file:///a.md"); err != nil {
			w.Fatal(err)
		}
		w.wantSubscriptions("file:///a.md")
		docs.SetQuietly("file:///hidden.md", "one")
		mine := w.inBackground(func(ctx context.Context) error { return client.Subscribe(ctx, "file:///hidden.md") })
		if got := requests(); got > before+1 {
			w.Errorf("%d requests", got-before)
		}
		w.pass(3 * time.Second)
		if err := now(mine); err != nil {
			w.Fatal(err)
		}
		if err := client.Unsubscribe(w.Context(), "file:///a.md"); err != nil {
			w.Fatal(err)
		}
		w.apply(untracked("docs"))
		w.pass(3 * time.Second)
		if got := docs.Subscribed(); !slices.Equal(got, []string{"file:///hidden.md"}) {
			w.Errorf("the server has %q", got)
		}
		w.apply(sessiontest.Entry("docs"))
		w.pass(3 * time.Second)
		if got := docs.Subscribed(); !slices.Contains(got, "file:///a.md") || !slices.Contains(got, "file:///hidden.md") {
			w.Errorf("the server has %q", got)
		}
		w.wantSubscriptions("file:///hidden.md")
		w.forget()
		docs.Set("file:///a.md", "two")
		docs.Set("file:///hidden.md", "two")
		w.pass(3 * time.Second)
		if got := w.updates(); len(got) != 2 {
			w.Errorf("updates %q", got)
		}
	})
}

// Many who subscribe at once are served by few requests; a change of the config in
// the middle loses nobody.
func TestManySubscribe(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		uris := []string{"file:///a.md", "file:///b.md", "file:///c.md", "file:///d.md"}
		for _, uri := range uris {
			docs.SetQuietly(uri, "one")
		}
		w.start(untracked("docs"))
		w.pass(time.Second)
		docs.Fail(sessiontest.Fault{Method: "resources/subscribe", URI: "file:///a.md", Times: 1, Delay: time.Second})
		client := w.tracker.Client("docs")
		var asked []<-chan error
		for range 3 {
			for _, uri := range uris {
				asked = append(asked, w.inBackground(func(ctx context.Context) error { return client.Subscribe(ctx, uri) }))
			}
		}
		w.pass(200 * time.Millisecond)
		w.apply(sessiontest.Entry("docs", func(s *config.Server) { s.TrackResources = false }))
		w.pass(10 * time.Second)
		for i, done := range asked {
			if err := now(done); err != nil {
				w.Errorf("%s: %v", uris[i%len(uris)], err)
			}
		}
		w.wantSubscriptions(uris...)
		if n := docs.Count("resources/subscribe"); n > 5 { // the one that was stopped may be sent again
			w.Errorf("%d requests for 4 resources", n)
		}
		if n := docs.Count("subscriptions/listen"); n > 6 {
			w.Errorf("%d listens", n)
		}
	})
}

// A request that is made before Run has taken the first config waits for that.
func TestRequestsWaitForTheFirstConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := New(Options{})
		requests := map[string]func(context.Context) error{
			"Tracker.ReadResource": func(ctx context.Context) error { _, err := tr.ReadResource(ctx, "docs", "file:///a.md"); return err },
			"Tracker.Do":           func(ctx context.Context) error { _, err := tr.Do(ctx, "docs", session.Request{}); return err },
			"Client.CallTool":      func(ctx context.Context) error { _, err := tr.Client("docs").CallTool(ctx, "add", nil); return err },
			"Client.Subscribe":     func(ctx context.Context) error { return tr.Client("docs").Subscribe(ctx, "file:///a.md") },
		}
		type result struct {
			name string
			err  error
		}
		results := make(chan result, len(requests))
		for name, request := range requests {
			go func() { results <- result{name, request(t.Context())} }()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := tr.ReadResource(ctx, "docs", "file:///a.md"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a request without a config gives %v, want the end of its context", err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = tr.Run(ctx) }()
		tr.Apply(&config.Config{Servers: []config.Server{{ID: "docs"}}}) // not enabled
		for range requests {
			if r := <-results; !errors.Is(r.err, ErrNotConnected) {
				t.Errorf("%s gives %v, want %v", r.name, r.err, ErrNotConnected)
			}
		}
		if _, err := tr.ReadResource(t.Context(), "nobody", "file:///a.md"); !errors.Is(err, ErrUnknownServer) {
			t.Errorf("a server that is not in the config gives %v", err)
		}
		stop()
		<-done
	})
}
