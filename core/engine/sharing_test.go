package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
	"github.com/mcptrack/mcptrack/core/tracker"
)

func names(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("s%d", i))
	}
	return ids
}

// Servers are divided evenly, even if a process joins late or returns, and every change is
// published once, whichever process follows the server.
func TestRealServersAreRedistributed(t *testing.T) {
	t.Parallel()
	const n = 8
	w := newWorld(t, names(n)...)
	opts := place{url: journaltest.Store(t), replicas: 1}
	first := w.start(opts)
	first.knows()
	second := w.start(opts)
	began := time.Now()
	even := func() bool { return first.follows() == n/2 && second.follows() == n/2 }
	eventually(t, "the servers are shared evenly", 2*time.Minute, even)
	t.Logf("shared evenly after %v", time.Since(began).Round(time.Millisecond))
	second.stop()
	began = time.Now()
	eventually(t, "a process that ends gives its servers back", 2*time.Minute, func() bool { return first.follows() == n })
	t.Logf("taken over after %v", time.Since(began).Round(time.Millisecond))
	for _, id := range names(n) {
		w.servers[id].SetQuietly("file:///a.md", "two") // found by the process that takes it over
	}
	second = w.start(opts)
	eventually(t, "the servers are shared evenly again", 2*time.Minute, even)
	eventually(t, "the first one is ready", 2*time.Minute, func() bool { return first.Ready() == nil })
	log := first.log()
	for _, id := range names(n) {
		want := id + " resource.updated file:///a.md resync"
		if got := slices.DeleteFunc(slices.Clone(log), func(line string) bool { return line != want }); len(got) > 1 {
			t.Errorf("%q was published %d times", want, len(got))
		}
	}
	for _, line := range log {
		if !strings.HasSuffix(line, "resource.updated file:///a.md resync") {
			t.Errorf("published without a change: %s", line)
		}
	}
}

// NATS restarts and has lost what was in memory: servers are followed again within 15 s, and until
// then the process is not ready.
func TestRealServersAreFollowedAfterARestartOfNATS(t *testing.T) {
	t.Parallel()
	w := newWorld(t, names(3)...)
	server := journaltest.Start(t, t.TempDir())
	p := w.start(place{url: server.URL, replicas: 1})
	p.knows()
	server.Stop()
	eventually(t, "the process waits for leases", 2*time.Minute, func() bool {
		err := p.Ready()
		return p.follows() == 0 && err != nil && strings.Contains(err.Error(), "waiting for leases")
	})
	server.Start()
	began := time.Now()
	eventually(t, "the servers are followed again", 2*time.Minute, func() bool { return p.follows() == 3 && p.Ready() == nil })
	t.Logf("followed again after %v", time.Since(began).Round(time.Millisecond))
	w.servers["s1"].Set("file:///a.md", "two")
	eventually(t, "a change is published", 2*time.Minute, func() bool {
		return slices.Contains(p.log(), "s1 resource.updated file:///a.md notify")
	})
}

// Every process on a cluster, even one that follows no server, knows all servers, which process
// follows each, and which are not followed.
func TestRealEveryProcessKnowsAllServers(t *testing.T) {
	t.Parallel()
	const n = 4
	w := newWorld(t, names(n)...)
	opts := place{url: journaltest.Store(t), replicas: 1}
	replica := w.replica(opts)
	opts.process = "one"
	one := w.start(opts)
	opts.process = "two"
	two := w.start(opts)
	known := func(p *run) (ready int, by map[string]int) {
		by = map[string]int{}
		for _, srv := range p.Servers() {
			if srv.State == event.Ready && srv.Resources == 2 {
				ready++
			}
			by[srv.FollowedBy]++
		}
		return ready, by
	}
	for _, p := range []*run{one, two, replica} {
		eventually(t, "all servers are known", 2*time.Minute, func() bool {
			ready, by := known(p)
			return ready == n && by["one"] == n/2 && by["two"] == n/2
		})
		state, ok := p.Cluster()
		if !ok || state.Processes != 2 || len(state.Unfollowed) != 0 || state.Waiting != "" {
			t.Errorf("the cluster is %+v", state)
		}
	}
	one.stop()
	two.Apply(&config.Config{Servers: []config.Server{sessiontest.Entry("s0")}})
	eventually(t, "the replica sees that servers are followed by nobody or removed", 2*time.Minute, func() bool {
		state, _ := replica.Cluster()
		_, by := known(replica)
		return by["two"] == 1 && by["one"] == 0 && state.Processes == 1 && len(state.Unfollowed) == by[""]
	})
	two.stop()
	eventually(t, "the replica sees that nobody follows the server", 2*time.Minute, func() bool {
		state, _ := replica.Cluster()
		return slices.Contains(state.Unfollowed, "s0") && state.Processes == 0
	})
}

// A process that must not follow a server does not keep others from following it.
func TestRealUnapprovedServersAreLeftToOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, names(2)...)
	opts := place{url: journaltest.Store(t), replicas: 1}
	one := w.start(opts)
	one.knows()
	waits := func(s *config.Server) { s.Unapproved = "approve it" }
	one.Apply(&config.Config{Servers: []config.Server{sessiontest.Entry("s0", waits), sessiontest.Entry("s1")}})
	eventually(t, "the server is given up", 2*time.Minute, func() bool { return one.follows() == 1 })
	two := w.start(opts)
	eventually(t, "another process follows it", 2*time.Minute, func() bool {
		st, ok := two.Tracker().Snapshot().Server("s0")
		return ok && st.State == event.Ready
	})
	one.Apply(&config.Config{Servers: []config.Server{sessiontest.Entry("s0"), sessiontest.Entry("s1")}})
	two.stop()
	eventually(t, "it follows the server once that is approved", 2*time.Minute, func() bool { return one.follows() == 2 })
}

// If every process follows all servers, as gateways do, one process stores the events of each
// server, and another continues where it ended.
func TestRealEveryProcessFollowsAll(t *testing.T) {
	t.Parallel()
	at := place{url: journaltest.Store(t), replicas: 1}
	ids := names(3)
	w := newWorld(t, ids...)
	both := engine.Options{Role: engine.Serves}
	one, two := w.engine(at, both, w.config()), w.engine(at, both, w.config())
	for _, r := range []*run{one, two} {
		eventually(t, "each process follows all", time.Minute, func() bool { return r.follows() == len(ids) })
		r.knows()
	}
	eventually(t, "every server has a holder", time.Minute, func() bool {
		state, _ := two.Cluster()
		return state.Processes == 2 && len(state.Unfollowed) == 0
	})
	// The log is new: what a holder finds first is no change.
	eventually(t, "what is there is stored", time.Minute, func() bool {
		states, err := two.events.States(t.Context(), "")
		return err == nil && len(states.Resources) == 2*len(ids)
	})
	want := 0
	for _, id := range ids {
		w.servers[id].Set("file:///a.md", "two")
		want++
	}
	eventually(t, "every change is stored", time.Minute, func() bool { return len(two.log()) >= want })
	one.stop()
	for _, id := range ids { // even if nobody holds the lease yet, two follows them
		w.servers[id].Set("file:///b.md", "two")
		want++
	}
	eventually(t, "every change after the end of a process is stored", time.Minute, func() bool { return len(two.log()) >= want })
	seen := map[string]int{}
	for _, line := range two.log() {
		fields := strings.Fields(line)
		seen[fields[0]+" "+fields[2]]++
	}
	for at, n := range seen {
		if n > 2 { // one more is allowed within two seconds of a takeover
			t.Errorf("%s: %d events", at, n)
		}
	}
	if len(seen) != want {
		t.Errorf("stored: %q", two.log())
	}
}

// One process takes many servers within seconds, and yields half of them to another process within
// a minute.
func TestRealManyServersAreShared(t *testing.T) {
	t.Parallel()
	n := 300
	if testing.Short() {
		n = 30
	}
	w := newWorld(t)
	cfg := disabled(names(n)...)
	opts := place{url: journaltest.Store(t), replicas: 1}
	has := func(p *run) (n int) {
		for _, st := range p.Tracker().Snapshot().Servers {
			if st.State == event.Disabled {
				n++
			}
		}
		return n
	}
	began := time.Now()
	one := w.engine(opts, engine.Options{Role: engine.Shares}, cfg)
	eventually(t, "one process has all servers", 2*time.Minute, func() bool { return has(one) == n })
	t.Logf("all taken after %v", time.Since(began).Round(time.Millisecond))
	began = time.Now()
	two := w.engine(opts, engine.Options{Role: engine.Shares}, cfg)
	eventually(t, "each process has half of the servers", 2*time.Minute, func() bool { return has(one) == n/2 && has(two) == n/2 })
	t.Logf("shared evenly after %v", time.Since(began).Round(time.Millisecond))
}

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
	return w.engine(at, engine.Options{Role: engine.Serves, Tracker: tracker.Options{Dial: dial, MaxBackoff: time.Second}}, w.config())
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

// away waits until the process cannot reach the server.
func (r *run) away() {
	r.Helper()
	eventually(r.T, "the process is away", time.Minute, func() bool {
		st, _ := r.Tracker().Snapshot().Server("docs")
		return st.State == event.Backoff
	})
}

// logged returns the digests of the resources of docs and the state of the server according to the
// log.
func (r *run) logged() (map[string]catalog.Digest, event.State) {
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

// A process that follows all servers takes over a server that it has not reached for some time. It
// stores nothing that is older than the log, and, once it reaches the server, everything that
// differs from the log.
func TestRealOutdatedKnowledgeIsNotPublished(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "docs")
	docs, url := w.servers["docs"], journaltest.Store(t)
	var open, gated gate
	first := w.followAll(place{url: url, replicas: 1}, &open)
	first.knows()
	first.holds()
	second := w.followAll(place{url: url, replicas: 1}, &gated)
	second.knows()
	one, _ := first.logged()

	gated.closed.Store(true)
	docs.Disconnect()
	second.away()
	docs.SetQuietly("file:///a.md", "two")
	docs.Remove("file:///b.md")
	eventually(t, "what happened is stored", time.Minute, func() bool {
		is, _ := first.logged()
		return !is["file:///a.md"].IsZero() && is["file:///a.md"] != one["file:///a.md"] && is["file:///b.md"].IsZero()
	})
	two, _ := first.logged()
	first.stop()

	eventually(t, "the second process has taken over", time.Minute, func() bool { _, state := second.logged(); return state == event.Backoff })
	if is, _ := second.logged(); is["file:///a.md"] != two["file:///a.md"] {
		t.Error("outdated knowledge of the process replaced what is stored")
	}
	if is, _ := second.logged(); !is["file:///b.md"].IsZero() {
		t.Error("a removed resource came back")
	}
	docs.SetQuietly("file:///a.md", "one") // what the second process knows
	gated.closed.Store(false)
	eventually(t, "the log says what is there", time.Minute, func() bool {
		is, state := second.logged()
		return is["file:///a.md"] == one["file:///a.md"] && is["file:///b.md"].IsZero() && state == event.Ready
	})
}

// Changes while the process that stores the events could not reach the server are stored, once, by
// the process that takes over, as it has seen them.
func TestRealMissedChangesArePublishedAtTakeover(t *testing.T) {
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
	one, _ := first.logged()

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
	if is, _ := second.logged(); len(is) != 2 || is["file:///a.md"] != one["file:///a.md"] {
		t.Fatal("the second process stored events of a server that the first one holds")
	}
	first.stop()
	eventually(t, "the log says what is there", time.Minute, func() bool {
		is, state := second.logged()
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
