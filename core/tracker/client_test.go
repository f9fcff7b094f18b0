package tracker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// untracked is an entry that selects nothing.
func untracked(id string) config.Server {
	return sessiontest.Entry(id, func(s *config.Server) { s.TrackResources, s.TrackTools, s.TrackPrompts = false, false, false })
}

// inBackground calls f in a goroutine and returns the channel that receives its error.
func (w *world) inBackground(f func(context.Context) error) <-chan error {
	done := make(chan error, 1) // sent to once
	w.running.Go(func() { done <- f(w.Context()) })
	synctest.Wait()
	return done
}

// now returns the error in the channel, errNothing if there is none yet.
func now(done <-chan error) error {
	select {
	case err := <-done:
		return err
	default:
		return errNothing
	}
}

var errNothing = errors.New("still waiting")

// wantSubscriptions compares the subscriptions of clients with the last published set.
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

// A subscription that the server rejects is an error and leaves no trace.
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
			w.Errorf("rejected with %v", err)
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
			w.Errorf("followed resources: %+v", st.Resources)
		}
	})
}

// A request while the server is not connected, or during which the connection is lost, fails with
// an error that says so.
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

// A client can subscribe to a resource of the config without a request, and cannot end its
// tracking. A client's own subscription outlives a change of the config.
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

// Many clients that subscribe simultaneously cause few requests. A change of the config in between
// loses none of them.
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
		if n := docs.Count("resources/subscribe"); n > 5 { // the aborted one may be sent again
			w.Errorf("%d requests for 4 resources", n)
		}
		if n := docs.Count("subscriptions/listen"); n > 6 {
			w.Errorf("%d listens", n)
		}
	})
}

// A request that is made before Run has taken the first config waits for it.
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

// An update of a sub-resource also refreshes the cached content of its parent.
func TestUpdateOfASubResourceRefreshesTheParent(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///dir")
		client := w.tracker.Client("docs")
		if _, err := client.ReadResource(w.Context(), "file:///dir"); err != nil {
			w.Fatal(err)
		}
		docs.SetQuietly("file:///dir", "two")
		docs.SetQuietly("file:///dir/a.md", "new")
		docs.NotifyUpdated("file:///dir/a.md")
		w.pass(3 * time.Second)
		r, ok := client.Cache().Resource("file:///dir")
		if text, _ := r.Text(); !ok || text != "two" || r.Stale {
			w.Errorf("cached %q, stale %t", text, r.Stale)
		}
	})
}

// A resource that the server reports as missing is dropped from the cache, whoever finds out. A
// demand for input is returned as an error and not cached.
func TestCachedUntilGone(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md", "file:///b.md")
		client := w.tracker.Client("docs")
		for _, uri := range []string{"file:///a.md", "file:///b.md"} {
			if _, err := client.ReadResource(w.Context(), uri); err != nil {
				w.Fatal(err)
			}
		}
		docs.Fail(sessiontest.Fault{Method: "resources/read", URI: "file:///a.md", Code: -32602, Message: "gone"})
		docs.NotifyUpdated("file:///a.md")
		w.pass(3 * time.Second)
		if keys := client.Cache().Keys(catalog.Resources); !slices.Equal(keys, []string{"file:///b.md"}) {
			w.Errorf("cached %q", keys)
		}
		if n := len(w.published(event.TypeResourceRemoved)); n != 1 {
			w.Errorf("%d removals published", n)
		}
		docs.Fail(sessiontest.Fault{Method: "resources/read", URI: "file:///b.md", Code: -32002, Message: "gone"})
		if _, err := client.ReadResource(w.Context(), "file:///b.md"); !errors.Is(err, session.ErrNotFound) {
			w.Errorf("%v", err)
		}
		if keys := client.Cache().Keys(catalog.Resources); len(keys) != 0 {
			w.Errorf("cached %q", keys)
		}
		docs.Heal()
		docs.Fail(sessiontest.Fault{Method: "resources/read", Result: map[string]any{"resultType": "input_required"}})
		_, err := client.ReadResource(w.Context(), "file:///a.md")
		if _, ok := errors.AsType[*session.InputRequiredError](err); !ok || len(client.Cache().Keys(catalog.Resources)) != 0 {
			w.Errorf("%v; cached %q", err, client.Cache().Keys(catalog.Resources))
		}
	})
}

// A resource that keeps changing while it is read is read three times and returned; in the end, its
// last content is cached.
func TestReadOfAResourceThatKeepsChanging(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md")
		docs.Fail(sessiontest.Fault{Method: "resources/read", Delay: 300 * time.Millisecond})
		client := w.tracker.Client("docs")
		read := w.inBackground(func(ctx context.Context) error {
			_, err := client.ReadResource(ctx, "file:///a.md")
			return err
		})
		for i := range 15 {
			docs.Set("file:///a.md", strings.Repeat("x", i+1))
			w.pass(100 * time.Millisecond)
		}
		if err := now(read); err != nil {
			w.Fatalf("the read: %v", err)
		}
		w.pass(10 * time.Second)
		if _, err := client.ReadResource(w.Context(), "file:///a.md"); err != nil {
			w.Fatal(err)
		}
		r, ok := client.Cache().Resource("file:///a.md")
		if text, _ := r.Text(); !ok || len(text) != 15 || r.Stale {
			w.Errorf("cached %d bytes, stale %t", len(text), r.Stale)
		}
	})
}

// The error text of a tool is published without the server's secrets.
func TestToolFailureIsRedacted(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		const secret = "hunter2-hunter2"
		text := strings.Repeat("x", 300-5) + " the key " + secret + "\x1b[31m is wrong"
		docs.Fail(sessiontest.Fault{Method: "tools/call", Result: map[string]any{"isError": true, "content": []any{map[string]any{"type": "text", "text": text[300-15:]}}}, Times: 1})
		docs.Fail(sessiontest.Fault{Method: "tools/call", Result: map[string]any{"isError": true, "content": []any{map[string]any{"type": "text", "text": text}}}})
		srv := untracked("docs")
		srv.Env = map[string]config.Secret{"KEY": config.NewSecret(secret)}
		w.start(srv)
		w.pass(time.Second)
		for range 2 {
			r, err := w.tracker.Client("docs").CallTool(w.Context(), "check", nil)
			if err != nil || r.Success || !strings.Contains(string(r.Raw()), secret) {
				w.Fatalf("%+v, %v", r, err)
			}
			synctest.Wait()
			published := w.published(event.TypeToolResult)
			for _, shown := range []string{r.Error, published[len(published)-1].Payload.(event.ToolResult).Error} {
				if shown == "" || strings.Contains(shown, secret[:4]) || strings.Contains(shown, "\x1b") {
					w.Errorf("shown %q", shown)
				}
			}
		}
	})
}

// Reads by clients are published, but the last event about a resource remains the one about its
// change. Events about large contents lack the content. A late answer does not bring a removed
// server back.
func TestClientEventsDoNotChangeTheState(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md")
		docs.Set("file:///a.md", "two")
		w.pass(3 * time.Second)
		client := w.tracker.Client("docs")
		if _, err := client.ReadResource(w.Context(), "file:///a.md"); err != nil {
			w.Fatal(err)
		}
		st, _ := w.tracker.Snapshot().Server("docs")
		if last := st.Resources[0].Last; last == nil || last.Type() != event.TypeResourceUpdated {
			w.Errorf("the last event is %+v", last)
		}
		synctest.Wait()
		w.forget()
		docs.SetQuietly("file:///large.md", strings.Repeat("x", 256<<10+1))
		if _, err := client.ReadResource(w.Context(), "file:///large.md"); err != nil {
			w.Fatal(err)
		}
		synctest.Wait()
		published := w.published(event.TypeResourceContent)
		if len(published) != 1 || published[0].Payload.(event.ResourceContent).Content != nil || published[0].Payload.(event.ResourceContent).Size != 256<<10+1 {
			w.Errorf("published %+v", published)
		}
		if _, ok := client.Cache().Resource("file:///large.md"); !ok {
			w.Error("it is not cached")
		}
		docs.Fail(sessiontest.Fault{Method: "tools/call", Silent: true})
		called := w.inBackground(func(ctx context.Context) error {
			_, err := client.CallTool(ctx, "slow", nil)
			return err
		})
		w.apply()
		w.pass(time.Minute)
		if err := now(called); err == nil || errors.Is(err, errNothing) {
			w.Errorf("the call ended with %v", err)
		}
		if snap := w.tracker.Snapshot(); len(snap.Servers) != 0 {
			w.Errorf("known servers: %+v", snap.Servers)
		}
	})
}

// Whatever happens in whatever order, once all is quiet, the cached content of a tracked resource
// equals the server's.
func TestCacheConvergesToTheTruth(t *testing.T) {
	uris := []string{"file:///a.md", "file:///b.md", "file:///c.md"}
	checked := 0
	for seed := range uint64(15) {
		inWorld(t, func(w *world, docs *sessiontest.Fake) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			settledOn(w, docs, uris...)
			client := w.tracker.Client("docs")
			for range 200 { // one for each read, so that answers overtake each other
				docs.Fail(sessiontest.Fault{Method: "resources/read", Old: true, Times: 1, Delay: time.Duration(1+rnd.IntN(3)*rnd.IntN(700)) * time.Millisecond})
			}
			var reading sync.WaitGroup
			for step := range 60 {
				uri := uris[rnd.IntN(len(uris))]
				switch n := rnd.IntN(20); {
				case n < 7:
					docs.Set(uri, fmt.Sprint(step))
				case n < 15:
					reading.Go(func() { _, _ = client.ReadResource(w.Context(), uri) }) // may fail
				case n == 15:
					client.Cache().ClearAll()
				case n == 16:
					docs.NotifyListChanged(catalog.Resources)
				case n == 17 && docs.Modern:
					docs.CancelListens()
				case n == 18 && rnd.IntN(3) == 0:
					docs.Disconnect()
				}
				w.pass(time.Duration(rnd.IntN(500)) * time.Millisecond)
			}
			w.pass(time.Minute)
			reading.Wait()
			truth := map[string]string{}
			for _, c := range docs.Truth() {
				truth[c.URI] = c.Text
			}
			for _, uri := range client.Cache().Keys(catalog.Resources) {
				r, _ := client.Cache().Resource(uri)
				if text, _ := r.Text(); text != truth[uri] || r.Stale {
					w.Errorf("seed %d: cached for %s is %q (stale %t), the server has %q", seed, uri, text, r.Stale, truth[uri])
				}
				checked++
			}
		})
	}
	if checked < 30 {
		t.Errorf("only %d contents were still cached at the end", checked)
	}
}

// A caller cannot modify the contents of an event.
func TestCallersCannotWriteEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		docs := w.Serve("docs", session.EraLegacy)
		docs.SetList("templates", map[string]any{"uriTemplate": "file:///{name}.md", "name": "t"})
		settledOn(w, docs, "file:///a.md")
		c := w.tracker.Client("docs")
		r, err := c.ReadTemplate(t.Context(), "file:///{name}.md", map[string]string{"name": "a"})
		if err != nil {
			w.Fatal(err)
		}
		r.Params["name"] = "theirs"
		p, err := c.GetPrompt(t.Context(), "p", map[string]string{"k": "v"})
		if err != nil {
			w.Fatal(err)
		}
		p.Arguments["k"] = "theirs"
		w.pass(time.Second)
		contents, prompts := w.published(event.TypeResourceContent), w.published(event.TypePromptContent)
		if len(contents) != 1 || len(prompts) != 1 {
			w.Fatalf("events:\n%s", w.log())
		}
		if got := contents[0].Payload.(event.ResourceContent).Content.Params["name"]; got != "a" {
			w.Errorf("the event about the content has %q", got)
		}
		if got := prompts[0].Payload.(event.PromptContent).Prompt.Arguments["k"]; got != "v" {
			w.Errorf("the event about the prompt has %q", got)
		}
	})
}
