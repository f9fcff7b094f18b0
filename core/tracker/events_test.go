package tracker

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// withEvents makes the server offer events and push nothing else.
func withEvents(docs *sessiontest.Fake, feed *sessiontest.Feed) {
	docs.Capabilities = map[string]any{"resources": map[string]any{}, "tools": map[string]any{},
		"extensions": map[string]any{mcp.ExtensionEvents: map[string]any{"listChanged": true}}}
	docs.Events = feed.Handle
}

// ownData is the data of an event of mcptrack about a resource.
func ownData(uri string) map[string]any {
	return map[string]any{"server": "up", "uri": uri, "cause": "notify"}
}

// following runs the test, in each era, with a server that offers events about its resources.
func following(t *testing.T, delivery config.EventDelivery, test func(w *world, docs *sessiontest.Fake, feed *sessiontest.Feed)) {
	t.Helper()
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		feed := sessiontest.NewFeed("list.changed", "resource.updated", "server.state")
		withEvents(docs, feed)
		docs.SetQuietly("file:///a.md", "one")
		docs.SetQuietly("file:///b.md", "one")
		entry := sessiontest.Entry("docs")
		entry.Events.Delivery = delivery
		w.start(entry)
		w.pass(5 * time.Second)
		w.wantState("docs", event.Ready)
		w.forget()
		test(w, docs, feed)
	})
}

// inEachDelivery is following, by push and by poll.
func inEachDelivery(t *testing.T, test func(w *world, docs *sessiontest.Fake, feed *sessiontest.Feed)) {
	t.Helper()
	for _, d := range []config.EventDelivery{config.DeliveryPush, config.DeliveryPoll} {
		t.Run(string(d), func(t *testing.T) { following(t, d, test) })
	}
}

// A change that an event names is found, with cause event. A false event costs a read and publishes
// nothing.
func TestEventLeadsToARead(t *testing.T) {
	inEachDelivery(t, func(w *world, docs *sessiontest.Fake, feed *sessiontest.Feed) {
		docs.SetQuietly("file:///a.md", "two")
		feed.Emit("resource.updated", ownData("file:///a.md"))
		feed.Emit("resource.updated", ownData("file:///b.md")) // false
		w.pass(4 * time.Second)
		w.wantUpdates("file:///a.md event")
		if n := feed.Calls("events/stream") + feed.Calls("events/poll"); n == 0 {
			w.Error("events were not followed")
		}
	})
}

// A change with an event and a notification is published once.
func TestEventAndNotificationOfOneChange(t *testing.T) {
	for _, first := range []string{"event", "notification"} {
		t.Run(first, func(t *testing.T) {
			inWorld(t, func(w *world, docs *sessiontest.Fake) {
				feed := sessiontest.NewFeed("resource.updated")
				docs.Capabilities["extensions"] = map[string]any{mcp.ExtensionEvents: map[string]any{}}
				docs.Events = feed.Handle
				settledOn(w, docs, "file:///a.md")
				docs.SetQuietly("file:///a.md", "two")
				if first == "event" {
					feed.Emit("resource.updated", ownData("file:///a.md"))
					w.pass(100 * time.Millisecond)
					docs.NotifyUpdated("file:///a.md")
				} else {
					docs.NotifyUpdated("file:///a.md")
					w.pass(100 * time.Millisecond)
					feed.Emit("resource.updated", ownData("file:///a.md"))
				}
				w.pass(10 * time.Second)
				w.wantUpdates("file:///a.md " + map[string]string{"event": "event", "notification": "notify"}[first])
			})
		})
	}
}

// With "read": "none", an event is an update of unknown content.
func TestEventsWithoutDigests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		docs := w.Serve("docs", session.EraLegacy)
		feed := sessiontest.NewFeed("resource.updated")
		withEvents(docs, feed)
		docs.SetQuietly("file:///a.md", "one")
		entry := sessiontest.Entry("docs")
		entry.Read = config.ReadNone
		w.start(entry)
		w.pass(5 * time.Second)
		feed.Emit("resource.updated", ownData("file:///a.md"))
		w.pass(5 * time.Second)
		w.wantUpdates("file:///a.md event")
	})
}

// An event about a list and one about an unknown resource both cause a list.
func TestEventOfAListAndAnUnknownResource(t *testing.T) {
	following(t, "", func(w *world, docs *sessiontest.Fake, feed *sessiontest.Feed) {
		docs.SetQuietly("file:///c.md", "new")
		feed.Emit("resource.updated", ownData("file:///c.md"))
		w.pass(2 * time.Second)
		if got := w.published(event.TypeResourceAdded); len(got) != 1 || got[0].ResourceURI != "file:///c.md" || got[0].Cause != event.CauseEvent {
			w.Fatalf("after an unknown resource:\n%s", w.log())
		}
		docs.SetQuietly("file:///d.md", "new")
		feed.Emit("list.changed", map[string]any{"server": "up", "list": "resources", "added": []string{"file:///d.md"}})
		w.pass(2 * time.Second)
		if got := w.published(event.TypeResourceAdded); len(got) != 2 || got[1].ResourceURI != "file:///d.md" || got[1].Cause != event.CauseEvent {
			w.Fatalf("after a changed list:\n%s", w.log())
		}
	})
}

// A resource that an event names soon after another one caused a list is also found.
func TestEventsOfUnknownResourcesInARow(t *testing.T) {
	following(t, "", func(w *world, docs *sessiontest.Fake, feed *sessiontest.Feed) {
		for _, uri := range []string{"file:///c.md", "file:///d.md"} {
			docs.SetQuietly(uri, "new")
			feed.Emit("resource.updated", ownData(uri))
			w.pass(2 * time.Second)
		}
		w.pass(2 * minCompare)
		if got := w.published(event.TypeResourceAdded); len(got) != 2 {
			w.Errorf("two were added:\n%s", w.log())
		}
	})
}

// A server whose events report changes is polled ten times more rarely, until its events fail.
func TestEventsCountAsPush(t *testing.T) {
	following(t, "", func(w *world, docs *sessiontest.Fake, feed *sessiontest.Feed) {
		if st, _ := w.tracker.Snapshot().Server("docs"); st.Mode != event.Push {
			w.Fatalf("mode %q", st.Mode)
		}
		w.pass(time.Minute) // the first poll was planned earlier
		docs.SetQuietly("file:///a.md", "two")
		w.pass(2 * time.Minute)
		w.wantUpdates()
		w.pass(5 * time.Minute)
		if got := w.updates(); len(got) != 1 || got[0] != "file:///a.md poll" && got[0] != "file:///a.md resync" {
			w.Fatalf("updates %q", got)
		}
		w.forget()
		feed.Fail("events/stream", &sessiontest.EventError{Code: -32024, Message: "Forbidden"})
		docs.Disconnect()
		w.pass(10 * time.Second)
		if st, _ := w.tracker.Snapshot().Server("docs"); st.Mode != event.Poll {
			w.Fatalf("mode %q without events", st.Mode)
		}
		if got := w.published(event.TypeServerState); !strings.Contains(w.log(), "the server denies access to events of type resource.updated") {
			w.Errorf("states: %d\n%s", len(got), w.log())
		}
		docs.SetQuietly("file:///a.md", "three")
		w.pass(time.Minute)
		w.wantUpdates("file:///a.md poll")
	})
}

// Everything is compared if events were truncated, or the cursor was rejected, with either error
// number.
func TestMissingEventsAreCompared(t *testing.T) {
	inEachDelivery(t, func(w *world, docs *sessiontest.Fake, feed *sessiontest.Feed) {
		feed.Emit("resource.updated", ownData("file:///a.md"))
		w.pass(2 * time.Second)
		w.SetDown("docs", sessiontest.ErrRefused)
		w.pass(time.Second)
		feed.Emit("resource.updated", ownData("file:///b.md"))
		feed.Expire()
		w.SetDown("docs", nil)
		w.pass(40 * time.Second)
		w.wantState("docs", event.Ready)
		w.forget()
		docs.SetQuietly("file:///b.md", "two") // no event names it
		feed.Emit("resource.updated", ownData("file:///a.md"))
		w.pass(3 * time.Second)
		w.wantUpdates()
	})
	for _, refusal := range []sessiontest.EventError{{Code: -32023, Message: "NotFound", Data: map[string]any{"kind": "cursor"}},
		{Code: -32011, Message: "NotFound", Data: map[string]any{"kind": "cursor"}}, {Code: -32602, Message: "InvalidParams"}, {Code: -32000, Message: "cursor expired"}} {
		t.Run(fmt.Sprint(refusal.Code), func(t *testing.T) {
			following(t, config.DeliveryPoll, func(w *world, docs *sessiontest.Fake, feed *sessiontest.Feed) {
				docs.SetQuietly("file:///b.md", "two") // no event names it
				var once sync.Once
				feed.Override(func(c *sessiontest.EventCall) (any, *sessiontest.EventError) {
					expired := false
					if c.Method == "events/poll" && c.Cursor != nil {
						once.Do(func() { expired = true })
					}
					if expired {
						return nil, &refusal
					}
					return feed.Answer(c)
				})
				w.pass(10 * time.Second)
				w.wantUpdates("file:///b.md resync")
				docs.SetQuietly("file:///a.md", "two")
				feed.Emit("resource.updated", ownData("file:///a.md"))
				w.pass(5 * time.Second)
				w.wantUpdates("file:///b.md resync", "file:///a.md event")
			})
		})
	}
}

// cursor returns the position after the last resource.updated of docs.
func (w *world) cursor() string {
	list, _ := w.tracker.store.stored("docs", journal.Cursors)
	return journal.CursorsOf(list)["resource.updated"]
}

// Events that happened while the server was away are delivered when it returns.
func TestCursorsOutliveSessions(t *testing.T) {
	inEachDelivery(t, func(w *world, docs *sessiontest.Fake, feed *sessiontest.Feed) {
		feed.Emit("resource.updated", ownData("file:///a.md"))
		w.pass(3 * time.Second)
		if at := w.cursor(); at != "1" {
			w.Fatalf("cursor %v", at)
		}
		docs.Disconnect()
		feed.Emit("resource.updated", ownData("file:///b.md"))
		w.pass(20 * time.Second)
		if at := w.cursor(); at != "2" {
			w.Errorf("cursor %v", at)
		}
		var resumed bool
		for _, m := range docs.Wire() {
			resumed = resumed || strings.HasPrefix(m.Method, "events/") && (strings.Contains(string(m.Params), `"cursor":"1"`) ||
				strings.Contains(string(m.Params), `"cursor":"2"`)) // if the old stream had also delivered it
		}
		if !resumed {
			w.Error("no request had the cursor")
		}
	})
}

// Events of other types are published as they are with "all"; for a type that it names, the config
// says which resource its events are about.
func TestEventsOfOtherTypes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		docs := w.Serve("docs", session.EraLegacy)
		feed := sessiontest.NewFeed("page.changed", "build.done", "note.changed")
		withEvents(docs, feed)
		docs.SetQuietly("wiki://7", "one")
		docs.SetQuietly("file:///a.md", "one")
		entry := sessiontest.Entry("docs")
		entry.Events = config.Events{All: true, Types: []config.EventType{{Name: "page.changed", URI: "wiki://{id}"}, {Name: "note.changed", URI: "/where/0/url"}, {Name: "gone"}}}
		w.start(entry)
		w.pass(5 * time.Second)
		docs.SetQuietly("wiki://7", "two")
		docs.SetQuietly("file:///a.md", "two")
		feed.Emit("page.changed", map[string]any{"id": 7, "title": "x"})
		feed.Emit("note.changed", map[string]any{"where": []any{map[string]any{"url": "file:///a.md"}}})
		feed.Emit("build.done", map[string]any{"n": 1, "uri": "file:///a.md"})
		w.pass(5 * time.Second)
		if got := w.updates(); len(got) != 2 || !strings.HasSuffix(got[0], " event") || !strings.HasSuffix(got[1], " event") {
			t.Errorf("updates %q", got)
		}
		got := w.published(event.TypeServerEvent)
		if len(got) != 1 {
			t.Fatalf("%d events\n%s", len(got), w.log())
		}
		if p := got[0].Payload.(event.ServerEvent); p.Name != "build.done" || p.EventID != "e3" || p.Size != len(`{"n":1,"uri":"file:///a.md"}`) || got[0].ServerID != "docs" {
			t.Errorf("%+v", p)
		}
	})
}

// With "events" off, no request is made; a change of the config takes effect immediately.
func TestEventsFollowTheConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		docs := w.Serve("docs", session.EraLegacy)
		feed := sessiontest.NewFeed("resource.updated", "build.done")
		withEvents(docs, feed)
		docs.SetQuietly("file:///a.md", "one")
		entry := sessiontest.Entry("docs")
		entry.Events.Off = true
		w.start(entry)
		w.pass(5 * time.Second)
		if n := feed.Calls("events/list"); n != 0 {
			t.Errorf("%d lists although events are off", n)
		}
		entry.Events = config.Events{}
		w.apply(entry)
		w.pass(5 * time.Second)
		if feed.Streams() != 1 {
			t.Errorf("%d streams", feed.Streams())
		}
		entry.Events = config.Events{All: true}
		w.apply(entry)
		w.pass(5 * time.Second)
		if feed.Streams() != 2 {
			t.Errorf("%d streams of all types", feed.Streams())
		}
		feed.SetTypes(sessiontest.EventType("resource.updated", "push"), sessiontest.EventType("new", "push"), sessiontest.EventType("newer", "poll"))
		docs.NotifyEventsChanged()
		w.pass(10 * time.Second)
		if feed.Streams() != 2 || feed.Calls("events/poll") == 0 {
			t.Errorf("%d streams, %d polls after the types changed", feed.Streams(), feed.Calls("events/poll"))
		}
	})
}

// After "unknown method", events are not followed until the next session.
func TestUnknownMethodEndsEvents(t *testing.T) {
	following(t, "", func(w *world, docs *sessiontest.Fake, feed *sessiontest.Feed) {
		feed.Override(func(*sessiontest.EventCall) (any, *sessiontest.EventError) {
			return nil, &sessiontest.EventError{Code: -32601, Message: "Method not found"}
		})
		before := feed.Calls("")
		docs.Disconnect()
		w.pass(10 * time.Minute)
		if n := feed.Calls("") - before; n != 1 {
			w.Errorf("%d requests", n)
		}
	})
}

// A stream that never begins is replaced, and so is one that is silent.
func TestSilentStreamsAreReplaced(t *testing.T) {
	following(t, config.DeliveryPush, func(w *world, docs *sessiontest.Fake, feed *sessiontest.Feed) {
		feed.Emit("resource.updated", ownData("file:///a.md"))
		w.pass(time.Second)
		feed.Override(func(c *sessiontest.EventCall) (any, *sessiontest.EventError) {
			if c.Method != "events/stream" {
				return feed.Answer(c)
			}
			c.Send("active", map[string]any{"cursor": "0"})
			<-c.Done
			return map[string]any{}, nil
		})
		docs.Disconnect()
		w.pass(5 * time.Second)
		before := feed.Calls("events/stream")
		w.pass(5 * time.Minute)
		if n := feed.Calls("events/stream") - before; n < 4 || n > 12 {
			w.Errorf("%d streams in 5 min without heartbeats", n)
		}
		feed.Override(func(c *sessiontest.EventCall) (any, *sessiontest.EventError) {
			if c.Method == "events/stream" {
				<-c.Done
			}
			return feed.Answer(c)
		})
		docs.Disconnect()
		w.pass(2 * time.Minute)
		w.wantState("docs", event.Ready)
		if st, _ := w.tracker.Snapshot().Server("docs"); st.Mode != event.Poll {
			w.Errorf("mode %q", st.Mode)
		}
	})
}

// Floods, giant events, endless pages and cursors that do not advance cost their server some reads,
// and neither memory nor other servers' time.
func TestHostileEvents(t *testing.T) {
	giant := strings.Repeat("x", 100_000)
	for name, handle := range map[string]func(feed *sessiontest.Feed, c *sessiontest.EventCall) (any, *sessiontest.EventError){
		"flood": func(feed *sessiontest.Feed, c *sessiontest.EventCall) (any, *sessiontest.EventError) {
			for i := range 1000 {
				c.Send("event", map[string]any{"eventId": fmt.Sprint(i), "name": c.Name, "data": ownData(fmt.Sprint("file:///", i)), "cursor": fmt.Sprint(i)})
			}
			<-c.Done
			return map[string]any{}, nil
		},
		"giants": func(feed *sessiontest.Feed, c *sessiontest.EventCall) (any, *sessiontest.EventError) {
			for i := range 4 {
				c.Send("event", map[string]any{"eventId": giant, "name": c.Name, "data": map[string]any{"uri": giant, "n": i}, "cursor": giant})
			}
			<-c.Done
			return map[string]any{}, nil
		},
		"gaps": func(feed *sessiontest.Feed, c *sessiontest.EventCall) (any, *sessiontest.EventError) {
			for {
				select {
				case <-c.Done:
					return map[string]any{}, nil
				case <-time.After(50 * time.Millisecond):
					c.Send("active", map[string]any{"cursor": "1", "truncated": true})
				}
			}
		},
		"endless pages": func(feed *sessiontest.Feed, c *sessiontest.EventCall) (any, *sessiontest.EventError) {
			if c.Method == "events/stream" {
				return nil, &sessiontest.EventError{Code: -32013, Message: "ResourceExhausted"}
			}
			at := "x"
			if c.Cursor != nil {
				at = *c.Cursor
			}
			return map[string]any{"events": []any{}, "cursor": fmt.Sprint(len(at)) + at[:min(len(at), 5)], "hasMore": true}, nil
		},
		"no cursor": func(feed *sessiontest.Feed, c *sessiontest.EventCall) (any, *sessiontest.EventError) {
			if c.Method == "events/stream" {
				return nil, &sessiontest.EventError{Code: -32025, Message: "ResourceExhausted"}
			}
			return map[string]any{"events": []any{7, nil, map[string]any{"eventId": "1"}}, "hasMore": true}, nil
		},
		"ends immediately": func(feed *sessiontest.Feed, c *sessiontest.EventCall) (any, *sessiontest.EventError) {
			c.Send("active", map[string]any{"cursor": "1"})
			return map[string]any{}, nil
		},
		"unknown immediately": func(feed *sessiontest.Feed, c *sessiontest.EventCall) (any, *sessiontest.EventError) {
			c.Send("active", map[string]any{"cursor": "1"})
			c.Send("terminated", map[string]any{"error": map[string]any{"code": -32011, "message": "NotFound"}})
			return map[string]any{}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Options{})
				docs := w.Serve("docs", session.EraLegacy)
				feed := sessiontest.NewFeed("resource.updated")
				withEvents(docs, feed)
				feed.Override(func(c *sessiontest.EventCall) (any, *sessiontest.EventError) {
					if c.Method == "events/list" {
						return feed.Answer(c)
					}
					return handle(feed, c)
				})
				docs.SetQuietly("file:///a.md", "one")
				w.start(sessiontest.Entry("docs"))
				w.pass(2 * time.Minute)
				w.wantState("docs", event.Ready)
				if got := w.updates(); len(got) != 0 {
					t.Errorf("updates %q", got)
				}
				if reads := docs.Count("resources/read"); reads > 40 {
					t.Errorf("%d reads in 2 min", reads)
				}
				requests := feed.Calls("")
				if most := map[bool]int{true: 13_000, false: 40}[name == "endless pages"]; requests > most {
					t.Errorf("%d requests in 2 min", requests)
				}
			})
		})
	}
}

// Types beyond the bound of streams are polled, and so are types that the server no longer streams.
func TestStreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		docs := w.Serve("docs", session.EraLegacy)
		var names []string
		for i := range 40 {
			names = append(names, fmt.Sprint("type-", i))
		}
		feed := sessiontest.NewFeed(names...)
		withEvents(docs, feed)
		entry := sessiontest.Entry("docs")
		entry.Events.All = true
		w.start(entry)
		w.pass(10 * time.Second)
		if feed.Streams() != 32 || feed.Calls("events/poll") < 8 {
			t.Errorf("%d streams, %d polls", feed.Streams(), feed.Calls("events/poll"))
		}
		for _, name := range names {
			feed.Emit(name, map[string]any{})
		}
		w.pass(10 * time.Second)
		if got := len(w.published(event.TypeServerEvent)); got != 40 {
			t.Errorf("%d of 40 events", got)
		}
	})
}

// Events end with their session: no goroutine is left, even of hanging streams.
func TestEventsEndWithTheirSession(t *testing.T) {
	following(t, "", func(w *world, docs *sessiontest.Fake, feed *sessiontest.Feed) {
		w.end(errors.New("over"))
		w.pass(10 * time.Second)
		if feed.Streams() != 0 {
			w.Errorf("%d streams are open", feed.Streams())
		}
	})
}

// However long the wait for an unknown type of events is, it ends when the server announces that
// its types changed.
func TestChangedEventTypesEndTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		docs := w.Serve("docs", session.EraLegacy)
		feed := sessiontest.NewFeed("resource.updated")
		withEvents(docs, feed)
		var known atomic.Bool
		feed.Override(func(c *sessiontest.EventCall) (any, *sessiontest.EventError) {
			if c.Method == "events/list" || known.Load() {
				return feed.Answer(c)
			}
			return nil, &sessiontest.EventError{Code: -32011, Message: "NotFound"}
		})
		docs.SetQuietly("file:///a.md", "one")
		w.start(sessiontest.Entry("docs"))
		w.pass(20 * time.Minute)
		for calls := feed.Calls("events/list"); feed.Calls("events/list") == calls; { // a long wait begins now
			w.pass(time.Second)
		}
		w.pass(time.Second)
		known.Store(true)
		docs.NotifyEventsChanged()
		w.pass(10 * time.Second)
		if n := feed.Streams(); n != 1 {
			t.Errorf("%d streams", n)
		}
	})
}
