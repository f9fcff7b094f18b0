package journal

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/event"
)

// cluster is three NATS servers on the loopback, each a process of its own.
type cluster struct {
	specs []nodeSpec
	nodes map[string]*exec.Cmd // by name
	urls  []string
}

// nodeSpec says which node a child process is.
type nodeSpec struct {
	Name, Dir     string
	Client, Route int
	Routes        []int
}

// childNode is one node, until it is killed.
func childNode(spec string) int {
	var n nodeSpec
	if err := json.Unmarshal([]byte(spec), &n); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	opts := &server.Options{
		ServerName: n.Name, Host: "127.0.0.1", Port: n.Client, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: n.Dir, SyncAlways: true, SyncInterval: 2 * time.Minute,
		JetStreamMaxStore: 1 << 40, JetStreamMaxMemory: 1 << 30,
		Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: n.Route},
	}
	for _, port := range n.Routes {
		opts.Routes = append(opts.Routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", port)})
	}
	srv, err := server.NewServer(opts)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	srv.Start()
	for !srv.JetStreamIsCurrent() {
		time.Sleep(5 * time.Millisecond)
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test is gone
	return 0
}

func ports(t testing.TB, n int) []int {
	t.Helper()
	var out []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, l.Addr().(*net.TCPAddr).Port)
		defer l.Close()
	}
	return out
}

func startCluster(t testing.TB) *cluster {
	t.Helper()
	free := ports(t, 6)
	clients, routes := free[:3], free[3:]
	c := &cluster{nodes: map[string]*exec.Cmd{}}
	dir := t.TempDir()
	for i := range 3 {
		c.specs = append(c.specs, nodeSpec{Name: fmt.Sprintf("n%d", i), Dir: filepath.Join(dir, fmt.Sprint(i)), Client: clients[i], Route: routes[i], Routes: routes})
		c.urls = append(c.urls, fmt.Sprintf("nats://127.0.0.1:%d", clients[i]))
	}
	t.Cleanup(func() { c.kill(0, 1, 2) })
	c.start(t, 0, 1, 2)
	return c
}

// start starts nodes and waits until they are ready.
func (c *cluster) start(t testing.TB, nodes ...int) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var outputs []*bufio.Scanner
	for _, i := range nodes {
		spec, err := json.Marshal(c.specs[i])
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), childEnv+"=node", childDir+"="+string(spec))
		cmd.Stderr = t.Output()
		if _, err := cmd.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		c.nodes[c.specs[i].Name] = cmd
		outputs = append(outputs, bufio.NewScanner(out))
	}
	for _, out := range outputs {
		if !out.Scan() || out.Text() != "ready" {
			t.Fatal("a node is not ready")
		}
	}
}

// kill kills (SIGKILL) nodes, all at once.
func (c *cluster) kill(nodes ...int) {
	for _, i := range nodes {
		_ = c.nodes[c.specs[i].Name].Process.Kill()
	}
	for _, i := range nodes {
		_ = c.nodes[c.specs[i].Name].Wait() // killed
	}
}

// node opens a journal that connects to that node first.
func (c *cluster) node(t testing.TB, i int) *Journal {
	t.Helper()
	urls := append(slices.Clone(c.urls[i:]), c.urls[:i]...)
	return open(t, Options{URL: strings.Join(urls, ","), Drain: 30 * time.Second})
}

// killLeader kills (SIGKILL) the node that leads the log, and returns its name. A
// cluster under load may need more than one question.
func (c *cluster) killLeader(ctx context.Context, j *Journal) (string, error) {
	for {
		s, err := j.store.js.Stream(ctx, "mcptrack")
		if err == nil {
			if info := s.CachedInfo(); info.Cluster != nil && c.nodes[info.Cluster.Leader] != nil {
				return info.Cluster.Leader, c.nodes[info.Cluster.Leader].Process.Kill()
			}
		}
		if !backoff.Sleep(ctx, 20*time.Millisecond) {
			return "", errors.Join(err, context.Cause(ctx))
		}
	}
}

// TestClusterLosesItsLeaderUnderLoad: two processes append through different
// nodes, readers follow on each, and the leader of the log dies.
func TestClusterLosesItsLeaderUnderLoad(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	journals := []*Journal{c.node(t, 0), c.node(t, 1), c.node(t, 2)}
	epoch := journals[0].Epoch()
	for _, j := range journals {
		if j.Epoch() != epoch {
			t.Fatalf("epochs %s and %s", epoch, j.Epoch())
		}
	}
	const perWriter, writers = 1500, 2
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// ids[i][n] is what reader i saw as the n-th.
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
					t.Errorf("reader %d: %s, %v", i, e.Data, err)
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
			s := newSource()
			for n := range perWriter {
				e := s.next(uri(n % 50))
				e.ServerID = fmt.Sprintf("w%d", w)
				if n%100 == 50 {
					if _, err := journals[w].Store(ctx, e); err != nil {
						t.Errorf("writer %d: %v", w, err)
						return
					}
				} else if err := journals[w].Append(e); err != nil {
					t.Error(err)
				}
				if n == perWriter/2 && w == 0 {
					leader, err := c.killLeader(ctx, journals[1])
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
		if got := read(t, j, 1); len(got) != perWriter*writers {
			t.Errorf("journal %d reads %d entries", i, len(got))
		}
	}
	for _, j := range journals {
		closeJournal(t, j)
	}
}

// TestLeaseIsTakenOverWithinTenSeconds: the holder's process vanishes.
func TestLeaseIsTakenOverWithinTenSeconds(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	a, b := c.node(t, 0), c.node(t, 1)
	held := acquire(t, a, "docs", 0)
	taken := make(chan time.Time, 1)
	go func() {
		if l, err := b.Lease(t.Context(), "docs", LeaseOptions{}); err == nil && l != nil {
			taken <- time.Now()
		}
	}()
	eventually(t, "the other process sees the lease", time.Minute, func() bool {
		held, err := b.Leases()
		return err == nil && len(held) == 1
	})
	a.store.nc.Close() // as if killed: nothing is given back
	died := time.Now()
	select {
	case <-held.Lost():
	case <-time.After(10 * time.Second):
		t.Fatal("the holder did not notice")
	}
	gone := time.Now()
	select {
	case at := <-taken:
		t.Logf("the holder stopped after %v, the next one began after %v", gone.Sub(died), at.Sub(died))
		if at.Before(gone) {
			t.Error("two holders at a time")
		}
		if at.Sub(died) > 10*time.Second {
			t.Errorf("taken over after %v", at.Sub(died))
		}
	case <-time.After(11 * time.Second):
		t.Fatal("not taken over")
	}
}

// TestLeasesComeBack: whatever the cluster loses, leases are held again within 15 s of
// its return. A cluster that loses what it acknowledged may give a lease to a second
// process; the first one notices when it renews.
func TestLeasesComeBack(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	names := []string{"a", "b", "c", "d"}
	journals := []*Journal{c.node(t, 0), c.node(t, 1)}
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
						if both := time.Since(since); both > DefaultLease/2 {
							t.Errorf("two processes held %s for %v", name, both)
						}
					}
					mu.Unlock()
					l.Release()
				}
			})
		}
	}
	// back waits until all leases are held and known to be on all nodes.
	back := func(what string) {
		t.Helper()
		began := time.Now()
		eventually(t, what+": all leases held again", 15*time.Second, func() bool {
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
		c.kill(lost...)
		backoff.Sleep(t.Context(), DefaultLease+time.Second) // longer than a lease lasts
		c.start(t, lost...)
		back(fmt.Sprint("without nodes ", lost))
	}
	c.kill(0, 1, 2) // shorter than a lease lasts
	c.start(t, 0, 1, 2)
	back("after a short restart")
	eventually(t, "the bucket is deleted", 30*time.Second, func() bool {
		return journals[0].store.js.DeleteKeyValue(t.Context(), "mcptrack_leases") == nil
	})
	backoff.Sleep(t.Context(), 2*bucketCheck)
	back("after the bucket was deleted")
}
