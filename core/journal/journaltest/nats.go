// Package journaltest tests that a log keeps the contract of [journal.Log] (see [Run]), and gives
// tests a store on a network: the program nats-server with JetStream, on the loopback, as one node or
// as a cluster of three. Only tests import it.
//
// The version of nats-server is the one in scripts/tools.mod. The first test on a machine waits
// until it is built; later ones need no network.
package journaltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/backoff"
)

const (
	readyTimeout = time.Minute      // of a node on a busy machine
	stopTimeout  = 30 * time.Second // then it is killed
)

// NATSServer is a nats-server process on the loopback. It can be stopped and started again with the
// same ports and data. Only the goroutine of the test calls its methods.
type NATSServer struct {
	URL string // the same after every start
	Dir string // of JetStream; empty: without JetStream

	t       testing.TB
	name    string
	program string // path of nats-server
	config  string // file
	log     string // file: what every run printed
	monitor string // URL

	process *os.Process   // nil before the first run
	ended   chan struct{} // closed, by the goroutine that waits for the process, when it has ended
}

// Store starts a server and returns its URL. The end of the test stops the server and removes its
// data.
func Store(t testing.TB) (url string) {
	t.Helper()
	return Start(t, t.TempDir()).URL
}

// Start starts a server with the data of dir, and returns when it is ready. The end of the test
// stops it. If dir is empty, the server has no JetStream.
func Start(t testing.TB, dir string) *NATSServer {
	t.Helper()
	ports := freePorts(t, 2)
	s := newServer(t, program(t), serverConfig{name: "n", dir: dir, client: ports[0], monitor: ports[1]})
	t.Cleanup(s.Stop)
	s.Start()
	return s
}

// serverConfig is what differs between servers. The ports must be free.
type serverConfig struct {
	name    string
	dir     string // of JetStream; empty: without JetStream
	client  int    // port
	monitor int    // port
	sync    bool   // sync everything before acknowledging it
	route   int    // port; 0: not in a cluster
	routes  []int  // ports of all nodes of the cluster
}

// newServer prepares a server. The end of the test removes its files except the data.
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
	data, err := json.Marshal(conf) // the format of nats-server includes JSON
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

// program returns the path of nats-server. The go command builds the version of scripts/tools.mod
// unless it is cached.
func program(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("starts NATS")
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	tools := filepath.Join("scripts", "tools.mod")
	for {
		if _, err := os.Stat(filepath.Join(dir, tools)); err == nil {
			break
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatalf("no folder above the test has %s", tools)
		}
		dir = up
	}
	cmd := exec.CommandContext(t.Context(), "go", "tool", "-modfile="+tools, "-n", "nats-server")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("build nats-server: %v\n%s", err, exit.Stderr)
		}
		t.Fatalf("build nats-server: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// Start starts the server after Stop, and returns when it is ready.
func (n *NATSServer) Start() {
	n.t.Helper()
	if err := n.start(); err != nil {
		n.t.Fatal(err)
	}
	if err := n.ready(n.t.Context()); err != nil {
		n.t.Fatal(err)
	}
}

// start starts a server that is not running. ready waits until it serves.
func (n *NATSServer) start() error {
	log, err := os.OpenFile(n.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(n.program, "-c", n.config)
	cmd.Stderr = log
	cmd.SysProcAttr = endsWithParent()
	started := make(chan error, 1) // so that the goroutine does not wait
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// To Linux, the parent is the thread that started the process, so the thread must stay.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // a test that needs the server fails
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	n.process, n.ended = cmd.Process, ended
	return nil
}

// ready waits until a started server serves; in a cluster, until it follows the leader of all
// nodes.
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

// get reads a page of the server's monitor.
func (n *NATSServer) get(ctx context.Context, page string) ([]byte, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, n.monitor+page, nil)
	if err != nil {
		return nil, err
	}
	q.Close = true // the server may be killed before the next request
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

// kill kills (SIGKILL) the server if it runs. wait waits for its end.
func (n *NATSServer) kill() {
	if n.process != nil {
		_ = n.process.Kill()
	}
}

// wait waits until the node has ended.
func (n *NATSServer) wait() {
	if n.process != nil {
		<-n.ended
	}
}

// Stop lets the server close its files, and waits for its end. Its data stays.
func (n *NATSServer) Stop() {
	if n.process == nil {
		return
	}
	if n.process.Signal(os.Interrupt) != nil { // it has ended, or the system has no such signal
		n.kill()
	}
	select {
	case <-n.ended:
	case <-time.After(stopTimeout):
		n.kill()
		n.wait()
	}
}

// freePorts returns different ports that nothing listens on. Systems assign higher ports to
// connections and to listeners without a port, so nobody takes the port of a stopped server.
func freePorts(t testing.TB, n int) []int {
	t.Helper()
	var ports []int
	for range 100 {
		port := 10000 + rand.IntN(22000)
		l, err := net.Listen("tcp", loopback(port))
		if err != nil {
			continue
		}
		defer func() { _ = l.Close() }()
		if ports = append(ports, port); len(ports) == n {
			return ports
		}
	}
	t.Fatal("there are no free ports")
	return nil
}

func loopback(port int) string { return fmt.Sprint("127.0.0.1:", port) }

// Cluster is three NATS servers that can be killed. They sync everything that they store. One
// goroutine at a time calls its methods.
type Cluster struct {
	URLs []string // of the nodes

	nodes []*NATSServer
}

// StartCluster starts a cluster, and returns when it is ready. The end of the test kills it.
func StartCluster(t testing.TB) *Cluster {
	t.Helper()
	free, dir, program := freePorts(t, 9), t.TempDir(), program(t)
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

// Start starts nodes by number, at first or after Kill, and waits until they are ready.
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

// Kill kills (SIGKILL) nodes by number, simultaneously, and waits for their ends.
func (c *Cluster) Kill(nodes ...int) {
	for _, i := range nodes {
		c.nodes[i].kill()
	}
	for _, i := range nodes {
		c.nodes[i].wait()
	}
}

// KillLeader kills (SIGKILL) the node that leads a stream, and returns its name. It asks a busy
// cluster repeatedly until ctx ends.
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

// Report describes, for a failed test, what every node has of every stream, who leads it, and what
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
