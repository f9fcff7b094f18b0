package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
	"github.com/mcptrack/mcptrack/core/journal/natslog"
)

// TestClusterUnderFaults runs three NATS nodes and three processes that share servers, while nodes
// are killed, processes are stopped, all are restarted, and contents change. In the end, the last
// event of every resource has the digest of its content, and all nodes have the same log. It runs
// for the duration in MCPTRACK_CHAOS, such as 10m, and is skipped without it. MCPTRACK_CHAOS_SEED
// repeats the faults of an earlier run.
func TestClusterUnderFaults(t *testing.T) {
	faults, err := time.ParseDuration(os.Getenv("MCPTRACK_CHAOS"))
	if err != nil {
		t.Skip("set MCPTRACK_CHAOS to a duration, such as 1m, during which nodes and processes are stopped")
	}
	t.Parallel()
	nodes := journaltest.StartCluster(t)
	ids := names(6)
	w := newWorld(t, ids...)
	w.faults = true
	start := func(i int) *run {
		at := append(slices.Clone(nodes.URLs[i:]), nodes.URLs[:i]...)
		return w.start(place{url: strings.Join(at, ","), process: fmt.Sprint("p", i), drain: time.Second})
	}
	processes := []*run{start(0), start(1), start(2)}
	ctx, cancel := context.WithTimeout(t.Context(), faults)
	defer cancel()
	var changing sync.WaitGroup
	changes := 0
	changing.Go(func() {
		for ctx.Err() == nil {
			uri := []string{"file:///a.md", "file:///b.md"}[rand.N(2)]
			w.servers[ids[rand.N(len(ids))]].Set(uri, fmt.Sprint("version ", changes))
			changes++
			<-time.After(rand.N(200 * time.Millisecond)) // real time, as for all faults: NATS is real
		}
	})
	seed := rand.Uint64()
	if given, err := strconv.ParseUint(os.Getenv("MCPTRACK_CHAOS_SEED"), 10, 64); err == nil {
		seed = given
	}
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	for ctx.Err() == nil {
		i := random.IntN(3)
		fault := random.IntN(3)
		t.Logf("%s fault %d of %d", time.Now().Format(time.StampMilli), fault, i)
		switch fault {
		case 0:
			nodes.Kill(i)
			<-time.After(time.Duration(random.IntN(4000)) * time.Millisecond)
			nodes.Start(t, i)
		case 1: // longer than leases last
			nodes.Kill(i, (i+1)%3)
			<-time.After(9 * time.Second)
			nodes.Start(t, i, (i+1)%3)
		case 2:
			processes[i].stop()
			<-time.After(time.Duration(random.IntN(3000)) * time.Millisecond)
			processes[i] = start(i)
		}
		<-time.After(time.Duration(random.IntN(2000)) * time.Millisecond)
	}
	changing.Wait()
	// Read all resources independently.
	fresh := w.start(local())
	fresh.knows()
	want := map[string]catalog.Digest{}
	for _, st := range fresh.Tracker().Snapshot().Servers {
		for _, r := range st.Resources {
			want[st.ID+" "+r.URI] = r.Digest
		}
	}
	stale := func() (wrong []string) {
		got := lastDigests(t, processes[0].events)
		for at, digest := range want {
			if got[at] != digest {
				wrong = append(wrong, at)
			}
		}
		return wrong
	}
	end := time.Now().Add(time.Minute)
	for len(stale()) > 0 && time.Now().Before(end) {
		<-time.After(250 * time.Millisecond)
	}
	if wrong := stale(); len(wrong) > 0 {
		t.Errorf("the last events of %q do not have the digests of their contents", wrong)
		for i, p := range processes {
			leases, err := p.events.(*natslog.Log).Leases()
			t.Logf("process %d follows %d servers, ready: %v; leases: %+v, %v", i, p.follows(), p.Ready(), leases, err)
		}
		t.Log(nodes.Report(t.Context()))
	}
	var logs [][]string
	for _, p := range processes {
		if err := p.events.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range processes {
		var log []string
		for entry, err := range p.events.Read(t.Context(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			log = append(log, string(entry.Data()))
		}
		logs = append(logs, log)
		t.Logf("%d entries, %+v", len(log), p.events.Stats())
	}
	if t.Failed() {
		t.Logf("the last entries:\n%s", strings.Join(logs[0][max(0, len(logs[0])-60):], "\n"))
	}
	shortest := min(len(logs[0]), len(logs[1]), len(logs[2]))
	for _, log := range logs[1:] {
		if !slices.Equal(log[:shortest], logs[0][:shortest]) {
			t.Error("the nodes have different logs")
		}
	}
	t.Logf("%d changes", changes)
}

// lastDigests returns the digests of the last events of all resources.
func lastDigests(t *testing.T, j journal.Log) map[string]catalog.Digest {
	t.Helper()
	last := map[string]catalog.Digest{}
	for entry, err := range j.Read(t.Context(), 0) {
		if err != nil {
			return last // a node is starting
		}
		e, err := entry.Event()
		if err != nil {
			t.Fatal(err)
		}
		if u, ok := e.Payload.(event.ResourceUpdated); ok {
			last[e.ServerID+" "+e.ResourceURI] = u.Digest
		}
	}
	return last
}
