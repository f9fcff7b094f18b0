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

// An update of a sub-resource refreshes the cached content of the one above it, too (B10).
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
			w.Errorf("kept %q, stale %t", text, r.Stale)
		}
	})
}

// What the server says does not exist is dropped, by whoever finds out (F11); what
// wants input is reported and not cached (F14).
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
			w.Errorf("kept %q", keys)
		}
		if n := len(w.published(event.TypeResourceRemoved)); n != 1 {
			w.Errorf("%d removals published", n)
		}
		docs.Fail(sessiontest.Fault{Method: "resources/read", URI: "file:///b.md", Code: -32002, Message: "gone"})
		if _, err := client.ReadResource(w.Context(), "file:///b.md"); !errors.Is(err, session.ErrNotFound) {
			w.Errorf("%v", err)
		}
		if keys := client.Cache().Keys(catalog.Resources); len(keys) != 0 {
			w.Errorf("kept %q", keys)
		}
		docs.Heal()
		docs.Fail(sessiontest.Fault{Method: "resources/read", Result: map[string]any{"resultType": "input_required"}})
		_, err := client.ReadResource(w.Context(), "file:///a.md")
		if _, ok := errors.AsType[*session.InputRequiredError](err); !ok || len(client.Cache().Keys(catalog.Resources)) != 0 {
			w.Errorf("%v; kept %q", err, client.Cache().Keys(catalog.Resources))
		}
	})
}

// A resource that keeps changing while it is read is read three times, returned, and
// in the end kept as it is then.
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
			w.Errorf("kept %d bytes, stale %t", len(text), r.Stale)
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

// Reads of clients are published, but the last event about a resource remains the one
// about its change; events of large contents lack the content, and a server that is
// removed does not come back because an answer was late.
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
			w.Errorf("known are %+v", snap.Servers)
		}
	})
}

// Whatever happens in whatever order, once all is quiet the cached content of a tracked
// resource is what the server has (E12).
func TestCacheConvergesToTheTruth(t *testing.T) {
	uris := []string{"file:///a.md", "file:///b.md", "file:///c.md"}
	checked := 0
	for seed := range uint64(15) {
		inWorld(t, func(w *world, docs *sessiontest.Fake) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			settledOn(w, docs, uris...)
			client := w.tracker.Client("docs")
			for range 200 { // one for each read: answers overtake each other
				docs.Fail(sessiontest.Fault{Method: "resources/read", Old: true, Times: 1, Delay: time.Duration(1+rnd.IntN(3)*rnd.IntN(700)) * time.Millisecond})
			}
			var reading sync.WaitGroup
			for step := range 60 {
				uri := uris[rnd.IntN(len(uris))]
				switch n := rnd.IntN(20); {
				case n < 7:
					docs.Set(uri, fmt.Sprint(step))
				case n < 15:
					reading.Go(func() { _, _ = client.ReadResource(w.Context(), uri) }) // may fail: see below
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
					w.Errorf("seed %d: kept of %s is %q (stale %t), the server has %q", seed, uri, text, r.Stale, truth[uri])
				}
				checked++
			}
		})
	}
	if checked < 30 {
		t.Errorf("only %d contents were kept to the end", checked)
	}
}

// What an event carries is not the caller's to change.
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
			w.Errorf("the event of the content says %q", got)
		}
		if got := prompts[0].Payload.(event.PromptContent).Prompt.Arguments["k"]; got != "v" {
			w.Errorf("the event of the prompt says %q", got)
		}
	})
}
