package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
	"github.com/mcptrack/mcptrack/core/status"
)

// cut is a log whose process is killed: from a certain call of its recorder on, it stores nothing.
type cut struct {
	journal.Log

	mu    sync.Mutex // guards all below
	armed bool
	left  int // calls that are still stored
	calls int // calls since it was armed
}

// after kills the process after n more calls.
func (c *cut) after(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed, c.left = true, n
}

// called returns how many calls there were since after.
func (c *cut) called() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls
}

func (c *cut) do(store func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.armed {
		if c.calls++; c.calls > c.left {
			return nil
		}
	}
	return store()
}

func (c *cut) Append(e *event.Event) error {
	return c.do(func() error { return c.Log.Append(e) })
}

func (c *cut) Remember(r journal.ResourceID, st journal.State) error {
	return c.do(func() error { return c.Log.Remember(r, st) })
}

func (c *cut) RememberList(name journal.ListName, list catalog.List) error {
	return c.do(func() error { return c.Log.RememberList(name, list) })
}

// anyLog has the tests that must pass whatever stores the events. Each is given a function that returns
// another place.
func anyLog() map[string]func(*testing.T, func(*testing.T) place) {
	return map[string]func(*testing.T, func(*testing.T) place){
		"published lists are remembered":       publishedListsAreRemembered,
		"unreadable is remembered":             unreadableIsRemembered,
		"update without digest is followed up": updateWithoutDigestIsFollowedUp,
		"lock drift is published once":         lockDriftIsPublishedOnce,
	}
}

func TestAnyLog(t *testing.T) {
	t.Parallel()
	for name, test := range anyLog() {
		t.Run(name, func(t *testing.T) {
			t.Run("memory", func(t *testing.T) {
				t.Parallel()
				test(t, func(*testing.T) place { return local() })
			})
			t.Run("file", func(t *testing.T) {
				t.Parallel()
				test(t, func(t *testing.T) place { return place{dir: t.TempDir()} })
			})
		})
	}
}

func TestRealAnyLog(t *testing.T) {
	t.Parallel()
	url := journaltest.Store(t)
	for name, test := range anyLog() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, func(*testing.T) place { return place{url: url, replicas: 1, stream: "log" + journal.NewEpoch()} })
		})
	}
}

// knowledge is what a reader of the log knows: resources from the events about each, and all lists
// from the events about lists.
type knowledge struct {
	resources map[string]bool // by server and URI
	lists     map[string]bool // by server, list and key
}

// knowledgeOf returns what a reader of the log knows who had the knowledge before it.
func knowledgeOf(t *testing.T, log journal.Log, before knowledge) knowledge {
	t.Helper()
	out := knowledge{maps.Clone(before.resources), maps.Clone(before.lists)}
	for entry, err := range log.Read(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		e, err := entry.Event()
		if err != nil {
			t.Fatal(err)
		}
		at := e.ServerID + " " + e.ResourceURI
		switch p := e.Payload.(type) {
		case event.ResourceAdded, event.ResourceUpdated:
			out.resources[at] = true
		case event.ResourceRemoved:
			delete(out.resources, at)
		case event.ListChanged:
			for _, key := range p.Added {
				out.lists[fmt.Sprint(e.ServerID, " ", p.List, " ", key)] = true
			}
			for _, key := range p.Removed {
				delete(out.lists, fmt.Sprint(e.ServerID, " ", p.List, " ", key))
			}
		}
	}
	return out
}

// offered returns what the servers offer now.
func (w *world) offered() knowledge {
	out := knowledge{map[string]bool{}, map[string]bool{}}
	for id, srv := range w.servers {
		for _, k := range catalog.Kinds() {
			for _, key := range srv.Keys(k) {
				if out.lists[fmt.Sprint(id, " ", k, " ", key)] = true; k == catalog.Resources {
					out.resources[id+" "+key] = true
				}
			}
		}
	}
	return out
}

func (a knowledge) equal(b knowledge) bool {
	return maps.Equal(a.resources, b.resources) && maps.Equal(a.lists, b.lists)
}

// becomesTrue fails unless the log reports what the servers offer within a minute.
func (w *world) becomesTrue(log journal.Log, before knowledge) {
	w.Helper()
	for end := time.Now().Add(publishedWithin); ; <-time.After(20 * time.Millisecond) {
		is, want := knowledgeOf(w.T, log, before), w.offered()
		if is.equal(want) {
			return
		}
		if time.Now().After(end) {
			w.Fatalf("the log reports %v, the servers offer %v", is, want)
		}
	}
}

// The next run compares a list with what readers of the log know of it, wherever the previous run
// was killed: an item that returned, or left again, meanwhile is published.
func publishedListsAreRemembered(t *testing.T, at func(*testing.T) place) {
	tool := func(name string) any {
		return map[string]any{"name": name, "inputSchema": map[string]any{"type": "object"}}
	}
	for kill := range 8 { // until everything is stored
		if testing.Short() && kill%3 > 0 {
			continue
		}
		for _, back := range []bool{true, false} {
			t.Run(fmt.Sprint(kill, "/", back), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, "docs")
				docs := w.servers["docs"]
				docs.SetList(catalog.Tools, tool("stays"), tool("goes"))
				docs.SetList(catalog.Prompts, map[string]any{"name": "goes"})
				before := w.offered()
				where := at(t)
				where.cut = &cut{}
				first := w.engine(where, engine.Options{}, w.config())
				first.knows()
				where.cut.after(kill)
				docs.Remove("file:///a.md")
				docs.Set("file:///new.md", "one")
				docs.SetList(catalog.Tools, tool("stays"), tool("new"))
				docs.NotifyListChanged(catalog.Tools)
				docs.SetList(catalog.Prompts)
				docs.NotifyListChanged(catalog.Prompts)
				eventually(t, "the process is killed", publishedWithin, func() bool { return where.cut.called() >= kill })
				first.stop()
				if back { // otherwise it stays away
					docs.SetQuietly("file:///a.md", "one")
					docs.Remove("file:///new.md")
					docs.SetList(catalog.Tools, tool("stays"), tool("goes"))
					docs.SetList(catalog.Prompts, map[string]any{"name": "goes"})
				}
				where.cut = nil
				second := w.engine(where, engine.Options{}, w.config())
				second.knows()
				w.becomesTrue(second.events, before)
			})
		}
	}
}

// A resource that a read did not find was published as removed, whatever the list says. When it can
// be read again after a restart, its return is published, and not before.
func unreadableIsRemembered(t *testing.T, in func(*testing.T) place) {
	at := in(t)
	w := newWorld(t, "docs")
	docs, before := w.servers["docs"], w.offered()
	first := w.engine(at, engine.Options{}, w.config())
	first.knows()
	docs.Fail(sessiontest.Fault{Method: "resources/read", URI: "file:///a.md", Code: -32002, Message: "resource not found"})
	docs.NotifyUpdated("file:///a.md")
	var want []string // an update precedes the removal if the read takes long
	eventually(t, "its removal is published", time.Minute, func() bool {
		want = first.log()
		return slices.Contains(want, "docs resource.removed file:///a.md notify")
	})
	first.stop()
	second := w.engine(at, engine.Options{}, w.config())
	eventually(t, "the second process has looked", time.Minute, func() bool {
		st, _ := second.Tracker().Snapshot().Server("docs")
		return slices.ContainsFunc(st.Resources, func(r status.ResourceStatus) bool { return r.URI == "file:///b.md" && !r.Digest.IsZero() }) &&
			slices.ContainsFunc(st.Resources, func(r status.ResourceStatus) bool { return r.URI == "file:///a.md" && r.Gone })
	})
	if err := second.events.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := second.log(); !slices.Equal(got, want) {
		t.Errorf("published %q, want %q", got, want)
	}
	second.stop()
	docs.Heal()
	third := w.engine(at, engine.Options{}, w.config())
	third.knows()
	w.becomesTrue(third.events, before)
}

// publishedWithin is how long the publication of a change may take on a busy machine.
const publishedWithin = time.Minute

// NATS is away for longer than leases last, and two processes share the servers. Whichever process
// then follows a server, items that were added, removed and added again meanwhile are published in
// the end.
func TestRealChangesWhileNATSIsAway(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for leases to end, nightly")
	}
	t.Parallel()
	for name, role := range map[string]engine.Role{"shares": engine.Shares, "serves": engine.Serves} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ids := names(4)
			w := newWorld(t, ids...)
			w.faults = true
			tool := func(name string) any {
				return map[string]any{"name": name, "inputSchema": map[string]any{"type": "object"}}
			}
			for _, id := range ids {
				w.servers[id].SetList(catalog.Tools, tool("stays"), tool("goes"))
			}
			before := w.offered()
			store := journaltest.Start(t, t.TempDir())
			start := func() *run {
				return w.engine(place{url: store.URL, replicas: 1}, engine.Options{Role: role}, w.config())
			}
			one, two := start(), start()
			eventually(t, "every server is followed", time.Minute, func() bool {
				states, err := two.events.States(t.Context(), "")
				return one.Ready() == nil && two.Ready() == nil && err == nil && len(states.Resources) == 2*len(ids)
			})
			change := func(id string) {
				w.servers[id].Remove("file:///a.md")
				w.servers[id].Set("file:///c.md", "one")
				w.servers[id].SetList(catalog.Tools, tool("stays"), tool("new"))
				w.servers[id].NotifyListChanged(catalog.Tools)
			}
			for _, id := range ids[:2] { // the changes are not stored yet when NATS goes away
				change(id)
			}
			eventually(t, "something is published", time.Minute, func() bool { return len(two.log()) > 0 })
			store.Stop()
			for _, id := range ids[2:] {
				change(id)
			}
			<-time.After(15 * time.Second)                // real time, because NATS is real: longer than leases last
			for _, id := range []string{ids[0], ids[2]} { // everything is as before
				w.servers[id].Set("file:///a.md", "one")
				w.servers[id].Remove("file:///c.md")
				w.servers[id].SetList(catalog.Tools, tool("stays"), tool("goes"))
				w.servers[id].NotifyListChanged(catalog.Tools)
			}
			store.Start()
			eventually(t, "every server is followed again", 2*time.Minute, func() bool { return one.Ready() == nil && two.Ready() == nil })
			w.becomesTrue(two.events, before)
		})
	}
}

// The last event about a resource has the digest of its content, even if a process ended after it
// had published an update without reading it, and the content is the old one.
func updateWithoutDigestIsFollowedUp(t *testing.T, in func(*testing.T) place) {
	at := in(t)
	w := newWorld(t, "docs")
	docs := w.servers["docs"]
	first := w.engine(at, engine.Options{}, w.config())
	first.knows()
	st, _ := first.Tracker().Snapshot().Server("docs")
	docs.Fail(sessiontest.Fault{Method: "resources/read", URI: "file:///a.md", Silent: true})
	docs.NotifyUpdated("file:///a.md")
	eventually(t, "the update is published", time.Minute, func() bool { return len(first.log()) == 1 })
	first.stop()
	docs.Heal()
	second := w.engine(at, engine.Options{}, w.config())
	eventually(t, "the last event has the digest", time.Minute, func() bool {
		return lastDigests(t, second.events)["docs file:///a.md"] == st.Resources[0].Digest
	})
	if got := second.log(); len(got) != 2 {
		t.Errorf("published %q", got)
	}
}
