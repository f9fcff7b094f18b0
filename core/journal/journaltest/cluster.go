package journaltest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/backoff"
)

// Cluster is three NATS servers on the loopback, each a process of its own, which can be
// killed. They sync what they store. The processes are the test binary; see [RunNode].
type Cluster struct {
	URLs []string // of the nodes

	specs []nodeSpec
	nodes map[string]*exec.Cmd // by name
}

// nodeSpec says which node a process is.
type nodeSpec struct {
	Name, Dir     string
	Client, Route int // ports
	Routes        []int
}

// nodeVariable makes the test binary a node: it contains a nodeSpec as JSON.
const nodeVariable = "MCPTRACK_JOURNALTEST_NODE"

// ready is the line on stderr with which a node says that it is part of the cluster.
const ready = "ready"

// RunNode does nothing but in a process of a [Cluster]: there it serves until the test's
// process ends, and returns true and the exit code. TestMain calls it first.
func RunNode() (code int, node bool) {
	spec, node := os.LookupEnv(nodeVariable)
	if !node {
		return 0, false
	}
	if err := serveNode(spec); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1, true
	}
	return 0, true
}

func serveNode(spec string) error {
	var n nodeSpec
	if err := json.Unmarshal([]byte(spec), &n); err != nil {
		return err
	}
	opts := options(n.Name, n.Dir)
	opts.Port, opts.SyncAlways, opts.SyncInterval = n.Client, true, 2*time.Minute
	opts.Cluster = server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: n.Route}
	for _, port := range n.Routes {
		opts.Routes = append(opts.Routes, &url.URL{Scheme: "nats", Host: fmt.Sprint("127.0.0.1:", port)})
	}
	srv, err := server.NewServer(&opts)
	if err != nil {
		return err
	}
	srv.Start()
	for !srv.JetStreamIsCurrent() {
		time.Sleep(5 * time.Millisecond)
	}
	fmt.Fprintln(os.Stderr, ready)
	_, err = io.Copy(io.Discard, os.Stdin) // until the test is gone
	return err
}

// StartCluster starts a cluster, and returns when it is ready. The test's end kills it. The
// binary's TestMain must call [RunNode].
func StartCluster(t testing.TB) *Cluster {
	t.Helper()
	free := freePorts(t, 6)
	clients, routes := free[:3], free[3:]
	c := &Cluster{nodes: map[string]*exec.Cmd{}}
	dir := t.TempDir()
	for i := range 3 {
		c.specs = append(c.specs, nodeSpec{Name: fmt.Sprint("n", i), Dir: filepath.Join(dir, fmt.Sprint(i)), Client: clients[i], Route: routes[i], Routes: routes})
		c.URLs = append(c.URLs, fmt.Sprint("nats://127.0.0.1:", clients[i]))
	}
	t.Cleanup(func() { c.Kill(0, 1, 2) })
	c.Start(t, 0, 1, 2)
	return c
}

// URL returns the URLs of all nodes, separated by commas.
func (c *Cluster) URL() string {
	return strings.Join(c.URLs, ",")
}

// Start starts nodes by their numbers, at first or after Kill, and waits until they are ready.
func (c *Cluster) Start(t testing.TB, nodes ...int) {
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
		cmd.Env = append(os.Environ(), nodeVariable+"="+string(spec))
		if _, err := cmd.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StderrPipe()
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
		if !out.Scan() || out.Text() != ready {
			t.Fatalf("a node is not ready: %s", out.Text())
		}
	}
}

// Kill kills (SIGKILL) nodes by their numbers, all at once.
func (c *Cluster) Kill(nodes ...int) {
	var killed []*exec.Cmd
	for _, i := range nodes {
		if cmd := c.nodes[c.specs[i].Name]; cmd != nil {
			_ = cmd.Process.Kill()
			killed = append(killed, cmd)
		}
	}
	for _, cmd := range killed {
		_ = cmd.Wait() // killed
	}
}

// KillLeader kills (SIGKILL) the node that leads a stream, and returns its name. A cluster
// under load may have to be asked more than once; ctx ends that.
func (c *Cluster) KillLeader(ctx context.Context, stream string) (string, error) {
	conn, err := nats.Connect(c.URL())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return "", err
	}
	for {
		s, err := js.Stream(ctx, stream)
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
