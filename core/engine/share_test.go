package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

func names(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("s%d", i))
	}
	return ids
}

// Servers are divided evenly, also when a process comes late or comes back, and every
// change is published once whichever process follows the server.
func TestServersAreSharedOutAgain(t *testing.T) {
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
		w.servers[id].SetQuietly("file:///a.md", "two") // found by whoever takes it over
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

// NATS restarts and has lost what was in memory: servers are followed again within 15 s,
// and until then the process says that it is not ready.
func TestServersAreFollowedAfterARestartOfNATS(t *testing.T) {
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

// Every process on a cluster knows all servers and who follows them, also one that
// follows none, and which of them nobody follows.
func TestEveryProcessKnowsAllServers(t *testing.T) {
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

// A process that may not follow a server does not keep others from it.
func TestUnapprovedServersAreLeftToOthers(t *testing.T) {
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

// Where every process follows all servers, as gateways do, the events of each are stored by one,
// and another continues where that one ended.
func TestEveryProcessFollowsAll(t *testing.T) {
	t.Parallel()
	at := place{url: journaltest.Store(t), replicas: 1}
	ids := names(3)
	w := newWorld(t, ids...)
	both := engine.Options{Shared: true, FollowAll: true}
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
	for _, id := range ids { // nobody may hold the lease yet, and two follows them nevertheless
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
		if n > 2 { // within two seconds of a takeover one more is allowed
			t.Errorf("%s: %d events", at, n)
		}
	}
	if len(seen) != want {
		t.Errorf("stored: %q", two.log())
	}
}
