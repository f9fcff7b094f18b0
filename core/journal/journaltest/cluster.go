package journaltest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/backoff"
)

// Cluster is three NATS servers, which can be killed. They sync what they store. One
// goroutine at a time calls its methods.
type Cluster struct {
	URLs []string // of the nodes

	nodes []*node
}

// StartCluster starts a cluster, and returns when it is ready. The test's end kills it.
func StartCluster(t testing.TB) *Cluster {
	t.Helper()
	free, dir, program := freePorts(t, 9), t.TempDir(), program(t)
	clients, monitors, routes := free[:3], free[3:6], free[6:]
	c := &Cluster{}
	for i := range 3 {
		c.nodes = append(c.nodes, newNode(t, program, nodeConfig{
			name: fmt.Sprint("n", i), dir: filepath.Join(dir, fmt.Sprint(i)), sync: true,
			client: clients[i], monitor: monitors[i], route: routes[i], routes: routes,
		}))
		c.URLs = append(c.URLs, "nats://"+loopback(clients[i]))
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
	for _, i := range nodes {
		if err := c.nodes[i].start(); err != nil {
			t.Fatal(err)
		}
	}
	for _, i := range nodes {
		if err := c.nodes[i].ready(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// Kill kills (SIGKILL) nodes by their numbers, simultaneously, and waits for their ends.
func (c *Cluster) Kill(nodes ...int) {
	for _, i := range nodes {
		c.nodes[i].kill()
	}
	for _, i := range nodes {
		c.nodes[i].wait()
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
		try, done := context.WithTimeout(ctx, time.Second) // a cluster that elects a leader loses requests
		s, err := js.Stream(try, stream)
		done()
		if err == nil && s.CachedInfo().Cluster != nil {
			leader := s.CachedInfo().Cluster.Leader
			if i := slices.IndexFunc(c.nodes, func(n *node) bool { return n.name == leader }); i >= 0 {
				c.Kill(i)
				return leader, nil
			}
		}
		if !backoff.Sleep(ctx, 20*time.Millisecond) {
			return "", errors.Join(err, context.Cause(ctx))
		}
	}
}

// Report says, for a test that failed, what every node has of every stream, who leads it, and what
// the nodes logged last.
func (c *Cluster) Report(ctx context.Context) string {
	var out strings.Builder
	for _, n := range c.nodes {
		streams, err := n.get(ctx, "/jsz?streams=true&raft=true")
		log, _ := os.ReadFile(n.log)
		fmt.Fprintf(&out, "node %s: %s %v\n%s\n", n.name, streams, err, log[max(0, len(log)-8192):])
	}
	return out.String()
}
