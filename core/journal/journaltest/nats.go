// Package journaltest tests that an implementation of [journal.Log] fulfils its contract (see
// [Run]), and starts NATS servers for tests: the program nats-server with JetStream, on the
// loopback interface, as a single node or as a cluster of three. Only tests import this package;
// those that start NATS have names that begin with TestReal (see package peertest).
package journaltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/peertest"
)

const (
	readyTimeout = time.Minute      // time until a node must be ready, even on a busy machine
	stopTimeout  = 30 * time.Second // time until a node that does not stop is killed
)

// NATSServer is a nats-server process that listens on the loopback interface. It can be stopped and
// started again with the same ports and data. Only the test goroutine may call its methods.
type NATSServer struct {
	URL string // client URL; does not change after a restart
	Dir string // JetStream data directory; empty if JetStream is disabled

	t       testing.TB
	name    string
	program string // path of the nats-server program
	config  string // path of the configuration file
	log     string // path of the log file, which contains the output of every run
	monitor string // URL of the monitoring endpoint

	process *os.Process   // nil before the first start
	ended   chan struct{} // closed when the process has exited, by the goroutine that waits for it
}

// Store starts a server with JetStream and returns its URL. When the test ends, the server is
// stopped and its data is removed.
func Store(t testing.TB) (url string) {
	t.Helper()
	return Start(t, t.TempDir()).URL
}

// Start starts a server with its data in dir, and returns when the server is ready. If dir is
// empty, the server runs without JetStream. It is stopped when the test ends.
func Start(t testing.TB, dir string) *NATSServer {
	t.Helper()
	program := peertest.NATSServer(t)
	for {
		ports := freePorts(t, 2)
		s := newServer(t, program, serverConfig{name: "n", dir: dir, client: ports[0], monitor: ports[1]})
		err := s.start()
		if err == nil {
			err = s.ready(t.Context())
		}
		if err != nil && strings.Contains(err.Error(), "address already in use") { // another test was faster
			s.Stop()
			continue
		}
		t.Cleanup(s.Stop)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// serverConfig contains the settings that differ between servers. The ports must be unused.
type serverConfig struct {
	name    string
	dir     string // JetStream data directory; empty if JetStream is disabled
	client  int    // port for clients
	monitor int    // port for monitoring
	sync    bool   // sync every write before acknowledging it
	route   int    // port for other nodes; 0 if not in a cluster
	routes  []int  // route ports of all nodes in the cluster
}

// newServer writes the configuration of a server, but does not start it. When the test ends, the
// files of the server, except for its data, are removed.
func newServer(t testing.TB, program string, c serverConfig) *NATSServer {
	t.Helper()
	conf := map[string]any{
		"server_name": c.name,
		"listen":      loopback(c.client),
		"http":        loopback(c.monitor),
	}
	if c.dir != "" {
		store := map[string]any{"store_dir": c.dir, "max_file_store": int64(1 << 40), "max_memory_store": 1 << 30}
		if c.sync {
			store["sync_interval"] = "always"
		}
		conf["jetstream"] = store
	}
	if c.route != 0 {
		var routes []string
		for _, port := range c.routes {
			routes = append(routes, "nats://"+loopback(port))
		}
		conf["cluster"] = map[string]any{"name": "c", "listen": loopback(c.route), "routes": routes}
	}
	data, err := json.Marshal(conf) // nats-server accepts JSON as a configuration
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	n := &NATSServer{
		URL: "nats://" + loopback(c.client), Dir: c.dir, t: t, name: c.name, program: program,
		config: filepath.Join(dir, "nats.conf"), log: filepath.Join(dir, "log"),
		monitor: "http://" + loopback(c.monitor),
	}
	if err := os.WriteFile(n.config, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return n
}

// Start starts the server again after Stop, and returns when it is ready.
func (n *NATSServer) Start() {
	n.t.Helper()
	if err := n.start(); err != nil {
		n.t.Fatal(err)
	}
	if err := n.ready(n.t.Context()); err != nil {
		n.t.Fatal(err)
	}
}

// start starts a server that is not running. It does not wait; call ready for that.
func (n *NATSServer) start() error {
	log, err := os.OpenFile(n.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(n.program, "-c", n.config)
	cmd.Stderr = log
	cmd.SysProcAttr = endsWithParent()
	started := make(chan error, 1) // capacity 1, so that the goroutine never blocks
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// On Linux, Pdeathsig kills the child when the thread that started it exits, so the
		// goroutine must stay on this thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // ignored: if the server has failed, the tests that use it fail
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	n.process, n.ended = cmd.Process, ended
	return nil
}

// ready waits until a started server accepts requests. In a cluster, it waits until the server
// follows the leader that all nodes have elected.
func (n *NATSServer) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("not ready within %s", readyTimeout))
	defer cancel()
	for {
		_, err := n.get(ctx, "/healthz?js-meta-only=true")
		if err == nil {
			return nil
		}
		select {
		case <-n.ended:
			err = errors.New("it ended")
		default:
			if backoff.Sleep(ctx, 10*time.Millisecond) {
				continue
			}
			err = errors.Join(context.Cause(ctx), err)
		}
		log, _ := os.ReadFile(n.log)
		return fmt.Errorf("nats-server %s: %w\n%s", n.name, err, log[max(0, len(log)-4096):])
	}
}

// get requests a page from the server's monitoring endpoint.
func (n *NATSServer) get(ctx context.Context, page string) ([]byte, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, n.monitor+page, nil)
	if err != nil {
		return nil, err
	}
	q.Close = true // no keep-alive: the server may be killed before the next request
	p, err := http.DefaultClient.Do(q)
	if err != nil {
		return nil, err
	}
	defer func() { _ = p.Body.Close() }()
	if p.StatusCode != http.StatusOK {
		return nil, errors.New(p.Status)
	}
	return io.ReadAll(io.LimitReader(p.Body, 1<<20))
}

// kill sends SIGKILL to the server if it is running. It does not wait; call wait for that.
func (n *NATSServer) kill() {
	if n.process != nil {
		_ = n.process.Kill()
	}
}

// wait waits until the process has exited.
func (n *NATSServer) wait() {
	if n.process != nil {
		<-n.ended
	}
}

// Stop makes the server shut down and close its files, and waits until it has exited. Its data is
// kept.
func (n *NATSServer) Stop() {
	if n.process == nil {
		return
	}
	if n.process.Signal(os.Interrupt) != nil { // the process has exited, or the system has no such signal
		n.kill()
	}
	select {
	case <-n.ended:
	case <-time.After(stopTimeout):
		n.kill()
		n.wait()
	}
}

// lastPort counts the ports that freePorts has tried, so that tests that run concurrently get different ones.
var lastPort atomic.Uint32

// freePorts returns n different ports on which no process listens. They are below the range from
// which operating systems assign ports automatically, so no other process is given the port of a
// stopped server. Test processes that run concurrently have different ranges, unless their ids differ
// by a multiple of 22.
func freePorts(t testing.TB, n int) []int {
	t.Helper()
	first := 10_000 + os.Getpid()%22*1000
	var ports []int
	for range 1000 {
		port := first + int(lastPort.Add(1)%1000)
		l, err := net.Listen("tcp", loopback(port))
		if err != nil {
			continue
		}
		_ = l.Close()
		if ports = append(ports, port); len(ports) == n {
			return ports
		}
	}
	t.Fatal("there are no free ports")
	return nil
}

func loopback(port int) string { return fmt.Sprint("127.0.0.1:", port) }

// Cluster is a cluster of three NATS servers that can be killed. They sync every write to disk. Its
// methods must not be called concurrently.
type Cluster struct {
	URLs []string // client URLs of the nodes

	nodes []*NATSServer
}

// StartCluster starts a cluster, and returns when it is ready. The cluster is killed when the test
// ends.
func StartCluster(t testing.TB) *Cluster {
	t.Helper()
	program, free, dir := peertest.NATSServer(t), freePorts(t, 9), t.TempDir()
	clients, monitors, routes := free[:3], free[3:6], free[6:]
	c := &Cluster{}
	for i := range 3 {
		c.nodes = append(c.nodes, newServer(t, program, serverConfig{
			name: fmt.Sprint("n", i), dir: filepath.Join(dir, fmt.Sprint(i)), sync: true,
			client: clients[i], monitor: monitors[i], route: routes[i], routes: routes,
		}))
		c.URLs = append(c.URLs, c.nodes[i].URL)
	}
	t.Cleanup(func() { c.Kill(0, 1, 2) })
	c.Start(t, 0, 1, 2)
	return c
}

// URL returns the URLs of all nodes, separated by commas.
func (c *Cluster) URL() string {
	return strings.Join(c.URLs, ",")
}

// Start starts the nodes with the given numbers, for the first time or after Kill, and waits until
// they are ready.
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

// Kill sends SIGKILL to the nodes with the given numbers simultaneously and waits until they have
// exited.
func (c *Cluster) Kill(nodes ...int) {
	for _, i := range nodes {
		c.nodes[i].kill()
	}
	for _, i := range nodes {
		c.nodes[i].wait()
	}
}

// KillLeader sends SIGKILL to the node that leads a stream, and returns its name. If the cluster
// does not respond, it retries until ctx ends.
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
		try, done := context.WithTimeout(ctx, time.Second) // short, because requests are lost during a leader election
		s, err := js.Stream(try, stream)
		done()
		if err == nil && s.CachedInfo().Cluster != nil {
			leader := s.CachedInfo().Cluster.Leader
			if i := slices.IndexFunc(c.nodes, func(n *NATSServer) bool { return n.name == leader }); i >= 0 {
				c.Kill(i)
				return leader, nil
			}
		}
		if !backoff.Sleep(ctx, 20*time.Millisecond) {
			return "", errors.Join(err, context.Cause(ctx))
		}
	}
}

// Report returns a description of the cluster to print when a test fails: the state of every stream
// on every node, the leader of each stream, and the last log lines of each node.
func (c *Cluster) Report(ctx context.Context) string {
	var out strings.Builder
	for _, n := range c.nodes {
		streams, err := n.get(ctx, "/jsz?streams=true&raft=true")
		log, _ := os.ReadFile(n.log)
		fmt.Fprintf(&out, "node %s: %s %v\n%s\n", n.name, streams, err, log[max(0, len(log)-8192):])
	}
	return out.String()
}
