package engine_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
	"github.com/mcptrack/mcptrack/core/journal/natslog"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// gate is the network of one process.
type gate struct{ closed atomic.Bool }

func (w *world) followAll(at place, g *gate) *run {
	w.Helper()
	dial := func(ctx context.Context, srv config.Server, opts session.Options) (*session.Session, error) {
		if g.closed.Load() {
			return nil, errors.New("no route to the server")
		}
		return w.dial(ctx, srv, opts)
	}
	return w.engine(at, engine.Options{Shared: true, FollowAll: true, Tracker: tracker.Options{Dial: dial, MaxBackoff: time.Second}}, w.config())
}

// holds waits until the process stores the events of the server.
func (r *run) holds() {
	r.Helper()
	eventually(r.T, "the process holds the lease", time.Minute, func() bool {
		leases, err := r.events.(*natslog.Log).Leases()
		return err == nil && slices.ContainsFunc(leases, func(l natslog.LeaseInfo) bool { return l.Own && l.Name == "server/docs" })
	})
	eventually(r.T, "what is there is stored", time.Minute, func() bool {
		states, err := r.events.States(r.Context(), "docs")
		_, listed := states.Lists[journal.ListName{ServerID: "docs", Kind: catalog.Resources}]
		return err == nil && listed && len(states.Resources) == 2
	})
}

// away waits until the process does not reach the server.
func (r *run) away() {
	r.Helper()
	eventually(r.T, "the process is away", time.Minute, func() bool {
		st, _ := r.Tracker().Snapshot().Server("docs")
		return st.State == event.Backoff
	})
}

// said returns the digests of the resources of docs as the log says, and the state of the server
// as its last event says.
func (r *run) said() (map[string]catalog.Digest, event.State) {
	r.Helper()
	states, err := r.events.States(r.Context(), "docs")
	if err != nil {
		r.Fatal(err)
	}
	digests := map[string]catalog.Digest{}
	for at, st := range states.Resources {
		digests[at.URI] = st.Digest
	}
	var last event.State
	for entry, err := range r.events.Read(r.Context(), 0) {
		if err != nil {
			r.Fatal(err)
		}
		e, err := entry.Event()
		if err != nil {
			r.Fatal(err)
		}
		if p, ok := e.Payload.(event.ServerState); ok {
			last = p.State
		}
	}
	return digests, last
}

// A process that follows all servers takes over one that it has not reached for some time: it
// stores nothing that is older than what is stored, and, once it reaches the server, all that
// differs from that.
func TestOutdatedKnowledgeIsNotPublished(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "docs")
	docs, url := w.servers["docs"], journaltest.Store(t)
	var open, gated gate
	first := w.followAll(place{url: url, replicas: 1}, &open)
	first.knows()
	first.holds()
	second := w.followAll(place{url: url, replicas: 1}, &gated)
	second.knows()
	one, _ := first.said()

	gated.closed.Store(true)
	docs.Disconnect()
	second.away()
	docs.SetQuietly("file:///a.md", "two")
	docs.Remove("file:///b.md")
	eventually(t, "what happened is stored", time.Minute, func() bool {
		is, _ := first.said()
		return !is["file:///a.md"].IsZero() && is["file:///a.md"] != one["file:///a.md"] && is["file:///b.md"].IsZero()
	})
	two, _ := first.said()
	first.stop()

	eventually(t, "the second process has taken over", time.Minute, func() bool { _, state := second.said(); return state == event.Backoff })
	if is, _ := second.said(); is["file:///a.md"] != two["file:///a.md"] {
		t.Error("what the process knew from before replaced what is stored")
	}
	if is, _ := second.said(); !is["file:///b.md"].IsZero() {
		t.Error("a removed resource came back")
	}
	docs.SetQuietly("file:///a.md", "one") // as the second process knows it
	gated.closed.Store(false)
	eventually(t, "the log says what is there", time.Minute, func() bool {
		is, state := second.said()
		return is["file:///a.md"] == one["file:///a.md"] && is["file:///b.md"].IsZero() && state == event.Ready
	})
}

// What happened while the process that stores the events did not reach the server is stored by the
// one that takes it over, as that one has seen it, and once.
func TestMissedChangesArePublishedAtTakeover(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "docs")
	docs, url := w.servers["docs"], journaltest.Store(t)
	var open, gated gate
	first := w.followAll(place{url: url, replicas: 1, process: "first"}, &gated)
	first.knows()
	first.holds()
	second := w.followAll(place{url: url, replicas: 1, process: "second"}, &open)
	second.knows()
	for _, r := range []*run{first, second} {
		eventually(t, "both processes know that the first one stores the events", time.Minute, func() bool {
			all := r.Servers()
			return len(all) == 1 && all[0].FollowedBy == "first"
		})
	}
	one, _ := first.said()

	gated.closed.Store(true)
	docs.Disconnect()
	first.away()
	docs.Set("file:///a.md", "two")
	docs.Remove("file:///b.md")
	docs.Set("file:///c.md", "one")
	eventually(t, "the second process knows what happened", time.Minute, func() bool {
		st, _ := second.Tracker().Snapshot().Server("docs")
		known := map[string]catalog.Digest{}
		for _, r := range st.Resources {
			known[r.URI] = r.Digest
		}
		return len(known) == 2 && known["file:///a.md"] != one["file:///a.md"] && !known["file:///c.md"].IsZero()
	})
	if is, _ := second.said(); len(is) != 2 || is["file:///a.md"] != one["file:///a.md"] {
		t.Fatal("the second process stored events of a server that the first one holds")
	}
	first.stop()
	eventually(t, "the log says what is there", time.Minute, func() bool {
		is, state := second.said()
		return len(is) == 2 && is["file:///a.md"] != one["file:///a.md"] && !is["file:///c.md"].IsZero() && state == event.Ready
	})
	second.stop()
	counts := map[string]int{}
	log := w.replica(place{url: url, replicas: 1}).log()
	for _, line := range log {
		counts[line]++
	}
	for _, want := range []string{
		"docs resource.updated file:///a.md resync", "docs resource.removed file:///b.md resync", "docs resource.added file:///c.md resync",
		"docs resources +[file:///c.md] -[file:///b.md] ~[] resync",
	} {
		if counts[want] != 1 {
			t.Errorf("%q was stored %d times; all: %q", want, counts[want], log)
		}
	}
}
