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
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
)

const (
	readyTimeout = time.Minute      // of a node on a busy machine
	stopTimeout  = 30 * time.Second // then it is killed
)

// node is a nats-server on the loopback. It may be ended and started again with the same
// ports and data.
type node struct {
	name    string
	program string // path of nats-server
	config  string // file
	log     string // file: what every run printed
	monitor string // URL

	process *os.Process   // nil before the first run
	ended   chan struct{} // closed, by the goroutine that waits for the process, when it has ended
}

// nodeConfig is what differs between nodes. Ports are free ones.
type nodeConfig struct {
	name    string
	dir     string // of JetStream; empty: without JetStream
	client  int    // port
	monitor int    // port
	sync    bool   // whatever is stored, before it is acknowledged
	route   int    // port, 0: not in a cluster
	routes  []int  // ports of all nodes of the cluster
}

// newNode prepares a node; its files besides the data are in a folder that the test's end
// removes.
func newNode(t testing.TB, program string, c nodeConfig) *node {
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
	data, err := json.Marshal(conf) // which the format of nats-server contains
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	n := &node{
		name: c.name, program: program,
		config: filepath.Join(dir, "nats.conf"), log: filepath.Join(dir, "log"),
		monitor: "http://" + loopback(c.monitor),
	}
	if err := os.WriteFile(n.config, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return n
}

// program returns the path of nats-server. It is the one of scripts/tools.mod, which the go
// command builds unless its cache has it.
func program(t testing.TB) string {
	t.Helper()
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

// start starts a node that does not run. ready waits until it serves.
func (n *node) start() error {
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
		// To Linux the parent is the thread that started the process, so it has to stay.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // a test that misses the node says so
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	n.process, n.ended = cmd.Process, ended
	return nil
}

// ready waits until a node that was started serves; in a cluster, until it follows the
// leader of all nodes.
func (n *node) ready(ctx context.Context) error {
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

// get reads a page of the node's monitor.
func (n *node) get(ctx context.Context, page string) ([]byte, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, n.monitor+page, nil)
	if err != nil {
		return nil, err
	}
	q.Close = true // the node may be killed before the next request
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

// kill kills (SIGKILL) the node if it runs. wait waits for its end.
func (n *node) kill() {
	if n.process != nil {
		_ = n.process.Kill()
	}
}

// wait waits until the node has ended.
func (n *node) wait() {
	if n.process != nil {
		<-n.ended
	}
}

// stop lets the node close its files, and waits for its end.
func (n *node) stop() {
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

// freePorts returns different ports that nothing listens on now. Systems choose ports for
// connections, and for listeners that ask for any, above these: nobody takes the port of a
// node that is not running.
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
