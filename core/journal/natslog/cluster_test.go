package natslog

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

// openNode opens a log that connects to that node first.
func openNode(t testing.TB, c *journaltest.Cluster, i int) *Log {
	t.Helper()
	urls := append(slices.Clone(c.URLs[i:]), c.URLs[:i]...)
	return open(t, Options{URL: strings.Join(urls, ","), Drain: 30 * time.Second})
}

// Two processes append through different nodes, readers follow on each, and the leader of the log
// dies.
func TestRealClusterLosesItsLeaderUnderLoad(t *testing.T) {
	t.Parallel()
	c := journaltest.StartCluster(t)
	journals := []*Log{openNode(t, c, 0), openNode(t, c, 1), openNode(t, c, 2)}
	epoch := journals[0].Epoch()
	for _, j := range journals {
		if j.Epoch() != epoch {
			t.Fatalf("epochs %s and %s", epoch, j.Epoch())
		}
	}
	const perWriter, writers = 1500, 2
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// ids[i][n] is the n-th id that reader i saw.
	seen := make([][]string, len(journals))
	var readers, appenders sync.WaitGroup
	for i, j := range journals {
		readers.Go(func() {
			for e, err := range j.Follow(ctx, 1) {
				if err != nil {
					t.Errorf("reader %d after %d: %v", i, len(seen[i]), err)
					return
				}
				ev, err := e.Event()
				if err != nil || e.Gap != nil {
					t.Errorf("reader %d: %s, %v", i, e.Data(), err)
					return
				}
				seen[i] = append(seen[i], e.ID+" "+ev.ServerID+" "+ev.Payload.(event.ResourceUpdated).Name)
				if len(seen[i]) == perWriter*writers {
					return
				}
			}
		})
	}
	for w := range writers {
		appenders.Go(func() {
			s := new(journaltest.Source)
			for n := range perWriter {
				e := s.Next(journaltest.URI(n % 50))
				e.ServerID = fmt.Sprintf("w%d", w)
				if n%100 == 50 {
					if err := journals[w].Flush(ctx); err != nil {
						t.Errorf("writer %d: %v", w, err)
						return
					}
				}
				if err := journals[w].Append(e); err != nil {
					t.Error(err)
				}
				if n == perWriter/2 && w == 0 {
					leader, err := c.KillLeader(ctx, "mcptrack")
					if err != nil {
						t.Errorf("kill the leader: %v", err)
					}
					t.Logf("killed %q", leader)
				}
			}
		})
	}
	appenders.Wait()
	readers.Wait()
	for i := range seen {
		if slices.Compare(seen[i], seen[0]) != 0 {
			t.Errorf("reader %d saw another log than reader 0", i)
		}
	}
	if len(seen[0]) != perWriter*writers {
		t.Fatalf("%d events, want %d", len(seen[0]), perWriter*writers)
	}
	next := map[string]int{}
	for n, line := range seen[0] {
		f := strings.Fields(line)
		if f[0] != event.FormatID(epoch, uint64(n+1)) {
			t.Fatalf("the %d. is %s", n+1, f[0])
		}
		next[f[1]]++
		if want := fmt.Sprintf("n%d", next[f[1]]); f[2] != want {
			t.Fatalf("%s: %s came when %s was due: lost, doubled or out of order", f[1], f[2], want)
		}
	}
	for i, j := range journals {
		t.Logf("journal %d: %+v", i, j.Stats())
		if got := journaltest.ReadAll(t, j, 1); len(got) != perWriter*writers {
			t.Errorf("journal %d reads %d entries", i, len(got))
		}
	}
	for _, j := range journals {
		closeLog(t, j)
	}
}

// The process of the holder vanishes.
func TestRealLeaseOfAVanishedProcessIsTakenOver(t *testing.T) {
	t.Parallel()
	c := journaltest.StartCluster(t)
	a, b := openNode(t, c, 0), openNode(t, c, 1)
	held := acquire(t, a, "docs", 0)
	taken := make(chan time.Time, 1)
	go func() {
		if l, err := b.Lease(t.Context(), "docs", LeaseOptions{}); err == nil && l != nil {
			taken <- time.Now()
		}
	}()
	journaltest.Eventually(t, time.Minute, "the other process sees the lease", func() bool {
		held, err := b.Leases()
		return err == nil && len(held) == 1
	})
	killed := time.Now()
	a.store.nc.Close() // as if killed: nothing is given back
	select {
	case <-held.Lost():
	case <-time.After(time.Minute):
		t.Fatal("the holder did not notice")
	}
	gone := time.Now()
	select {
	case at := <-taken:
		if at.Before(gone) {
			t.Error("two holders at a time")
		}
		t.Logf("taken over after %v", at.Sub(killed))
	case <-time.After(time.Minute):
		t.Fatal("not taken over")
	}
}

// Whatever the cluster loses, leases are held again within 15 s of its return. A cluster that loses
// what it acknowledged may give a lease to a second process; the first one notices when it renews.
func TestRealLeasesComeBack(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for many leases to end, nightly")
	}
	t.Parallel()
	c := journaltest.StartCluster(t)
	names := []string{"a", "b", "c", "d"}
	journals := []*Log{openNode(t, c, 0), openNode(t, c, 1)}
	var mu sync.Mutex
	held := map[string]map[*Lease]time.Time{}
	for _, name := range names {
		held[name] = map[*Lease]time.Time{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var holding sync.WaitGroup
	defer holding.Wait()
	defer cancel()
	for _, j := range journals {
		for _, name := range names {
			holding.Go(func() {
				for ctx.Err() == nil {
					l, err := j.Lease(ctx, name, LeaseOptions{})
					if err != nil {
						continue
					}
					mu.Lock()
					held[name][l] = time.Now()
					mu.Unlock()
					select {
					case <-l.Lost():
					case <-ctx.Done():
					}
					mu.Lock()
					delete(held[name], l)
					for _, since := range held[name] {
						if both := time.Since(since); both > DefaultLease {
							t.Errorf("two processes held %s for %v", name, both)
						}
					}
					mu.Unlock()
					l.Release()
				}
			})
		}
	}
	// back waits until all leases are held and known on all nodes.
	back := func(what string) {
		t.Helper()
		began := time.Now()
		journaltest.Eventually(t, time.Minute, what+": all leases held again", func() bool {
			for _, j := range journals {
				if known, err := j.Leases(); err != nil || len(known) != len(names) {
					return false
				}
			}
			mu.Lock()
			defer mu.Unlock()
			return !slices.ContainsFunc(names, func(name string) bool { return len(held[name]) != 1 })
		})
		t.Logf("%s: held again after %v", what, time.Since(began).Round(time.Millisecond))
	}
	back("at the start")
	for _, lost := range [][]int{{0, 1, 2}, {1, 2}} {
		c.Kill(lost...)
		backoff.Sleep(t.Context(), DefaultLease+time.Second) // longer than a lease lasts
		c.Start(t, lost...)
		back(fmt.Sprint("without nodes ", lost))
	}
	c.Kill(0, 1, 2) // shorter than a lease lasts
	c.Start(t, 0, 1, 2)
	back("after a short restart")
	journaltest.Eventually(t, time.Minute, "the bucket is deleted", func() bool {
		return journals[0].store.js.DeleteKeyValue(t.Context(), "mcptrack_leases") == nil
	})
	journaltest.Eventually(t, time.Minute, "the bucket is made again", func() bool {
		_, err := journals[0].store.js.KeyValue(t.Context(), "mcptrack_leases")
		return err == nil
	})
	back("after the bucket was deleted")
}

// Nodes that lost the leases elect no leader of the bucket if the node that has them dies early.
// Nobody can then acquire a lease.
func TestRealRestartedNodesHaveLeases(t *testing.T) {
	t.Parallel()
	c := journaltest.StartCluster(t)
	j := openNode(t, c, 0)
	for i := range 20 {
		acquire(t, j, fmt.Sprint(i), time.Minute)
	}
	const bucket = "KV_mcptrack_leases"
	before, err := j.store.info(t.Context(), bucket)
	if err != nil {
		t.Fatal(err)
	}
	c.Kill(0, 1, 2)
	c.Start(t, 0, 1, 2)
	journaltest.Eventually(t, time.Minute, "the bucket can be read", func() bool {
		after, err := j.store.info(t.Context(), bucket)
		if err == nil && after.State.LastSeq < before.State.LastSeq {
			t.Fatalf("%d leases were lost", before.State.LastSeq-after.State.LastSeq)
		}
		return err == nil
	})
}
