package tracker

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// The removal of a resource is published once, whether a read or the list finds out first.
func TestRemovalIsPublishedOnce(t *testing.T) {
	for name, remove := range map[string]func(w *world, docs *sessiontest.Fake){
		"the read finds out": func(w *world, docs *sessiontest.Fake) {
			docs.Mute(true)
			docs.Remove("file:///a.md")
			docs.Mute(false)
			docs.NotifyUpdated("file:///a.md")
			w.pass(time.Second)
			docs.NotifyListChanged(catalog.Resources)
		},
		"the list finds out": func(w *world, docs *sessiontest.Fake) {
			docs.Remove("file:///a.md")
			docs.NotifyUpdated("file:///a.md")
		},
		"while away": func(w *world, docs *sessiontest.Fake) {
			w.SetDown("docs", sessiontest.ErrRefused)
			docs.Remove("file:///a.md")
			w.SetDown("docs", nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world, docs *sessiontest.Fake) {
				settledOn(w, docs, "file:///a.md", "file:///b.md")
				remove(w, docs)
				w.pass(10 * time.Second)
				removed := w.published(event.TypeResourceRemoved)
				if len(removed) != 1 || removed[0].ResourceURI != "file:///a.md" {
					w.Errorf("want a.md removed once:\n%s", w.log())
				}
				w.wantUpdates()
				st, _ := w.tracker.Snapshot().Server("docs")
				if len(st.Resources) != 1 || len(st.Lists[catalog.Resources]) != 1 {
					w.Errorf("%d resources are followed, %d listed", len(st.Resources), len(st.Lists[catalog.Resources]))
				}
			})
		})
	}
}

// A resource that is found a moment later was not removed: a program that saves a file atomically may
// remove it first.
func TestMomentarilyMissing(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md")
		docs.Fail(sessiontest.Fault{Method: "resources/read", Times: 1, Code: -32002, Message: "Resource not found"})
		docs.Set("file:///a.md", "two")
		w.pass(10 * time.Second)
		w.wantUpdates("file:///a.md notify")
		if n := len(w.published(event.TypeResourceRemoved)); n != 0 {
			w.Errorf("%d removed events:\n%s", n, w.log())
		}
	})
}

// Lists that the server suddenly claims not to support keep their items: it may have forgotten the session.
func TestKnownListsAreNotUnsupported(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md")
		docs.Fail(sessiontest.Fault{Method: "resources/list", Code: -32601, Message: "Method not found"})
		docs.NotifyListChanged(catalog.Resources)
		w.pass(10 * time.Second)
		if n := len(w.published(event.TypeResourceRemoved)); n != 0 {
			w.Errorf("%d removed events:\n%s", n, w.log())
		}
	})
}

// A listed resource that nobody can read is known as gone without an event; the list announces its
// return.
func TestListedButUnreadable(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		docs.Fail(sessiontest.Fault{Method: "resources/read", URI: "file:///a.md", Code: -32002, Message: "Resource not found"})
		settledOn(w, docs, "file:///a.md", "file:///b.md")
		w.pass(time.Minute)
		if n := len(w.published()); n != 0 {
			w.Errorf("events:\n%s", w.log())
		}
		st, _ := w.tracker.Snapshot().Server("docs")
		if !st.Resources[0].Gone || st.Resources[1].Gone {
			w.Errorf("resources %+v", st.Resources)
		}
		if n := docs.Count("resources/read"); n > 3 {
			w.Errorf("%d reads", n)
		}
		docs.Heal()
		docs.NotifyListChanged(catalog.Resources)
		w.pass(time.Second)
		w.wantUpdates("file:///a.md resync")
	})
}

// A result without content is never mistaken for content.
func TestResultsWithoutContent(t *testing.T) {
	for name, result := range map[string]any{
		"input is required":     map[string]any{"resultType": "input_required", "contents": []any{}},
		"an unknown resultType": map[string]any{"resultType": "maybe", "contents": []any{map[string]any{"uri": "file:///a.md", "text": "two"}}},
		"no contents":           map[string]any{},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world, docs *sessiontest.Fake) {
				settledOn(w, docs, "file:///a.md")
				before := docs.Count("resources/read")
				docs.Fail(sessiontest.Fault{Method: "resources/read", Result: result})
				docs.Set("file:///a.md", "two")
				w.pass(20 * time.Second)
				w.wantUpdates("file:///a.md notify")
				if u := w.published(event.TypeResourceUpdated)[0].Payload.(event.ResourceUpdated); !u.Digest.IsZero() {
					w.Errorf("published a digest: %+v", u)
				}
				if n := docs.Count("resources/read") - before; n > 6 {
					w.Errorf("%d reads in 20 s of failures", n)
				}
				w.wantState("docs", event.Ready)
				docs.Heal()
				w.pass(40 * time.Second)
				w.wantUpdates("file:///a.md notify", "file:///a.md trailing")
			})
		})
	}
}

// A list without end, or whose pages form a cycle, does not replace the old list.
func TestEndlessLists(t *testing.T) {
	for name, spoil := range map[string]func(*sessiontest.Fake){
		"repeated cursor": func(s *sessiontest.Fake) { s.RepeatedCursor = true },
		"endless pages":   func(s *sessiontest.Fake) { s.EndlessPages = true },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world, docs *sessiontest.Fake) {
				docs.PageSize = 2
				settledOn(w, docs, "file:///a.md", "file:///b.md", "file:///c.md")
				w.SetDown("docs", sessiontest.ErrRefused)
				w.pass(0)
				spoil(docs) // no list is served now
				w.SetDown("docs", nil)
				w.pass(2 * time.Second)
				w.wantState("docs", event.Ready)
				st, _ := w.tracker.Snapshot().Server("docs")
				if len(st.Lists[catalog.Resources]) != 3 || len(docs.Subscribed()) != 3 {
					w.Errorf("lists %v, subscribed %q", st.Lists[catalog.Resources], docs.Subscribed())
				}
				if n := len(w.published(event.TypeResourceRemoved, event.TypeResourceAdded)); n != 0 {
					w.Errorf("events:\n%s", w.log())
				}
				docs.Set("file:///b.md", "two")
				w.pass(time.Second)
				w.wantUpdates("file:///b.md notify")
			})
		})
	}
}

// A hanging list does not affect the other lists: resources are followed, and the failed list is
// published.
func TestOneListHangs(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		docs.Fail(sessiontest.Fault{Method: "prompts/list", Silent: true})
		docs.SetQuietly("file:///a.md", "one")
		w.start(sessiontest.Entry("docs", func(s *config.Server) { s.RequestTimeout = 3 * time.Second }))
		w.pass(10 * time.Second)
		w.wantState("docs", event.Ready)
		if n := len(w.Dialled("docs")); n != 1 {
			w.Errorf("dialled %d times", n)
		}
		failed := w.published(event.TypePromptsListChanged)
		if len(failed) == 0 || failed[0].Payload.(event.ListChanged).Error == "" {
			w.Errorf("the failure of the list was not published:\n%s", w.log())
		}
		docs.Set("file:///a.md", "two")
		w.pass(time.Second)
		w.wantUpdates("file:///a.md notify")
	})
}

// Resources and lists that the server does not agree to push are polled and named in one warning.
func TestPartialAcknowledgementOfLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		docs := w.Serve("docs", session.EraModern)
		docs.FailAck(sessiontest.AckFault{Hide: []string{"file:///b.md"}, NoTools: true})
		docs.SetList(catalog.Tools, map[string]any{"name": "one"})
		docs.SetQuietly("file:///a.md", "one")
		docs.SetQuietly("file:///b.md", "one")
		w.start(sessiontest.Entry("docs"))
		w.pass(3 * time.Second)
		docs.SetList(catalog.Tools, map[string]any{"name": "one"}, map[string]any{"name": "two"})
		docs.NotifyListChanged(catalog.Tools) // without a subscriber
		docs.SetQuietly("file:///b.md", "two")
		w.pass(40 * time.Second)
		w.wantUpdates("file:///b.md poll")
		tools := w.published(event.TypeToolsListChanged)
		if len(tools) != 1 || tools[0].Cause != event.CausePoll || fmt.Sprint(tools[0].Payload.(event.ListChanged).Added) != "[two]" {
			w.Errorf("the unannounced list was not polled:\n%s", w.log())
		}
		warned := w.logs.warnings()
		if len(warned) != 1 || !strings.Contains(warned[0], "file:///b.md") || !strings.Contains(warned[0], "tools") {
			w.Errorf("warnings %q, want one that names what is missing", warned)
		}
	})
}

// A resource that leaves the list and returns with other content has changed, even if its server
// announces only the change of the list. With the same content it has not. That another process told of it
// until now changes nothing.
func TestReturningResourceIsCompared(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md", "file:///b.md", "file:///c.md")
		docs.Remove("file:///a.md")
		docs.Remove("file:///b.md")
		w.pass(5 * time.Second)
		w.tracker.TakeOver("docs", journal.States{}, func() {})
		w.pass(5 * time.Second)
		docs.SetQuietly("file:///a.md", "two")
		docs.SetQuietly("file:///b.md", "one")
		docs.NotifyListChanged("resources")
		w.pass(5 * time.Second)
		w.wantUpdates("file:///a.md resync")
		u := w.published(event.TypeResourceUpdated)[0].Payload.(event.ResourceUpdated)
		if u.Changed == nil || !*u.Changed || u.PreviousDigest.IsZero() {
			w.Errorf("published %+v", u)
		}
	})
}

// A resource that is still followed after it left the list is not compared with its tombstone.
func TestUnlistedResourceStaysTracked(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		docs.SetQuietly("file:///a.md", "one")
		docs.SetQuietly("file:///b.md", "one")
		include := func(uris ...string) config.Server {
			return sessiontest.Entry("docs", func(s *config.Server) { s.Include = uris })
		}
		w.start(include("file:///a.md", "file:///b.md"))
		w.pass(3 * time.Second)
		docs.Fail(sessiontest.Fault{Method: "resources/list", Result: map[string]any{"resources": []any{map[string]any{"uri": "file:///b.md", "name": "b"}}}})
		docs.NotifyListChanged("resources")
		w.pass(3 * time.Second)
		docs.Set("file:///a.md", "two")
		w.pass(3 * time.Second)
		w.apply(include("file:///b.md"))
		w.pass(3 * time.Second)
		w.apply(include("file:///a.md", "file:///b.md"))
		w.pass(3 * time.Second)
		w.wantUpdates("file:///a.md notify")
		if n := len(w.published(event.TypeResourceRemoved)); n != 1 {
			w.Errorf("%d resources have left the list: this test tests nothing", n)
		}
	})
}

// Items that are left out of a list, and resources that are too large to be read, cause one warning
// each, which names the server, however often they are listed and read. The session continues.
func TestLeftOutItemsAreWarnedAboutOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{AllLists: true, Session: session.Options{Limits: session.Limits{MaxLine: 10_000}}})
		srv := w.Serve("docs", session.EraLegacy)
		srv.SetQuietly("test://ok", "one")
		srv.SetQuietly("test://large", strings.Repeat("x", 20_000))
		srv.SetList(catalog.Tools, map[string]any{"name": ""}, map[string]any{"name": "t"})
		w.start(sessiontest.Entry("docs"))
		w.pass(time.Minute)
		srv.SetList(catalog.Tools, map[string]any{"name": ""}, map[string]any{"name": "u"})
		w.pass(time.Minute)
		got := strings.Join(w.logs.warnings(), "\n")
		if strings.Count(got, "the server's lists contain items that mcptrack ignores") != 1 || strings.Count(got, "a resource is too large to be compared") != 1 || !strings.Contains(got, "docs") {
			w.Errorf("%s", got)
		}
		if n := srv.Count("initialize"); n != 1 {
			w.Errorf("%d sessions", n)
		}
		w.stop()
	})
}
