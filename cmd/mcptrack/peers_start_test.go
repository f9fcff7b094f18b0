//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/peertest"
)

const (
	// peerMark is set in the environment of every stdio peer, so that a test
	// can see whether one of its peers is still alive.
	peerMark = "MCPTRACK_TEST_PEER"

	peerReadyTimeout = 60 * time.Second // Node on a busy machine takes seconds
)

// A peer is a real MCP server, made by others, that a test connects to.
type peer struct {
	// Config is the server's entry in a configuration file: a JSON object with
	// command and args, or type and url. It opts in to tracking and makes the
	// server send updates by itself.
	Config string

	// Mark is the value of peerMark in the environment of a stdio peer, empty
	// for one that startPeer runs.
	Mark string
}

// peerEntry is the part of a server's configuration that the peers need.
type peerEntry struct {
	Command        string            `json:"command,omitempty"`
	Args           []string          `json:"args,omitempty"`
	Env            map[string]string `json:"env,omitempty"`
	Type           string            `json:"type,omitempty"`
	URL            string            `json:"url,omitempty"`
	Protocol       string            `json:"protocol,omitempty"`
	ConnectTimeout string            `json:"connectTimeout,omitempty"`
	TrackResources bool              `json:"trackResources"`
	OnConnect      []peerCall        `json:"onConnect,omitempty"`
}

type peerCall struct {
	Tool      string         `json:"tool"`
	Arguments map[string]any `json:"arguments"`
}

// startPeer makes the named peer ready: a stdio peer is only described, since
// the client starts it; an HTTP peer is started on a free loopback port,
// accepts connections when startPeer returns, and is killed with its whole
// process group at the end of the test.
func startPeer(t testing.TB, name string) peer {
	t.Helper()
	everything := peertest.Path(t, "node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js")
	modern, loopback := peertest.Path(t, "ts-modern.mjs"), peertest.Path(t, "loopback.mjs")
	gosdk, node := peertest.EverythingServer(t), peertest.Node(t)

	toggle := []peerCall{{Tool: "toggle-subscriber-updates", Arguments: map[string]any{}}}
	switch name {
	case "everything-stdio":
		return stdioPeer(t, toggle, node, everything, "stdio")
	case "everything-http":
		return httpPeer(t, "http", startAnnouncing(t, node, "--import", loopback, everything, "streamableHttp")+"/mcp", toggle)
	case "everything-sse":
		return httpPeer(t, "sse", startAnnouncing(t, node, "--import", loopback, everything, "sse")+"/sse", toggle)
	case "gosdk-stdio":
		return stdioPeer(t, nil, gosdk)
	case "gosdk-http":
		return httpPeer(t, "http", startOnFreePort(t, gosdk, "-stateless=false", "-http"), nil)
	case "gosdk-stateless":
		return httpPeer(t, "http", startOnFreePort(t, gosdk, "-stateless=true", "-http"), nil)
	case "ts-http":
		return httpPeer(t, "http", startAnnouncing(t, node, modern, "--http=0"), nil)
	case "ts-http-reject":
		return httpPeer(t, "http", startAnnouncing(t, node, modern, "--http=0", "--legacy=reject"), nil)
	case "ts-stdio":
		return stdioPeer(t, nil, node, modern, "--stdio")
	case "ts-stdio-reject":
		return stdioPeer(t, nil, node, modern, "--stdio", "--legacy=reject")
	}
	t.Fatalf("no peer is called %q", name)
	return peer{}
}

// peerStarts is how long a peer may take to start on a busy machine.
const peerStarts = "2m"

func stdioPeer(t testing.TB, onConnect []peerCall, command string, args ...string) peer {
	t.Helper()
	mark := markOf(t)
	return peer{Mark: mark, Config: marshalPeer(t, peerEntry{
		Command: command, Args: args, Env: map[string]string{peerMark: mark},
		ConnectTimeout: peerStarts, TrackResources: true, OnConnect: onConnect,
	})}
}

func httpPeer(t testing.TB, transport, url string, onConnect []peerCall) peer {
	t.Helper()
	return peer{Config: marshalPeer(t, peerEntry{
		Type: transport, URL: url, TrackResources: true, OnConnect: onConnect,
	})}
}

func marshalPeer(t testing.TB, entry peerEntry) string {
	t.Helper()
	data, err := json.Marshal(entry)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// A peerServer is a running server process and its stderr.
type peerServer struct {
	stderr *peerOutput
	exited chan struct{} // closed by the goroutine that waits for the process
}

// A peerOutput keeps the beginning of what a server writes and picks out the
// URL it announces. It is written to by the one goroutine that os/exec runs.
type peerOutput struct {
	url chan string // sent to once, by Write

	mu   sync.Mutex // guards what follows
	buf  bytes.Buffer
	sent bool
}

func startServer(t testing.TB, command string, args ...string) *peerServer {
	t.Helper()
	server := &peerServer{
		stderr: &peerOutput{url: make(chan string, 1)}, // at most one URL, which may come before it is received
		exited: make(chan struct{}),
	}
	cmd := exec.Command(command, args...)
	cmd.Env = append(os.Environ(), "PORT=0") // where server-everything takes its port from
	cmd.Stderr = server.stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(server.exited)
		_ = cmd.Wait() // killed below, so an error is what is expected
	}()
	t.Cleanup(func() {
		select {
		case <-server.exited: // its id may belong to another group by now
		default:
			if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				t.Errorf("kill %s: %v", command, err)
			}
			<-server.exited
		}
	})
	return server
}

// accepts reports whether the server takes connections at addr before it exits.
func (s *peerServer) accepts(addr string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), peerReadyTimeout)
	defer cancel()
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err == nil {
			conn.Close()
			return true
		}
		select {
		case <-retry.C:
		case <-s.exited:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

func (o *peerOutput) Write(p []byte) (int, error) {
	const most = 64 << 10
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf.Write(p[:min(len(p), max(0, most-o.buf.Len()))])
	if _, after, ok := strings.Cut(o.buf.String(), "listening on http"); ok && !o.sent {
		if rest, _, ok := strings.Cut(after, "\n"); ok {
			o.sent = true
			o.url <- "http" + strings.TrimSpace(rest)
		}
	}
	return len(p), nil
}

func (o *peerOutput) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// startAnnouncing runs a server that prints "listening on URL" to stderr when it accepts connections, and
// returns the URL.
func startAnnouncing(t testing.TB, command string, args ...string) string {
	t.Helper()
	server := startServer(t, command, args...)
	select {
	case url := <-server.stderr.url:
		return url
	case <-server.exited:
	case <-time.After(peerReadyTimeout):
	}
	t.Fatalf("%s did not become ready:\n%s", command, server.stderr.text())
	return ""
}

// startOnFreePort runs a server that takes its address as last argument and
// does not report when it is ready. Another process may take the port between
// our look and the server's, in which case the server exits and the next try
// gets another port.
func startOnFreePort(t testing.TB, command string, args ...string) string {
	t.Helper()
	var server *peerServer
	for range 3 {
		probe, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := probe.Addr().String()
		probe.Close()
		server = startServer(t, command, append(args, addr)...)
		if server.accepts(addr) {
			return "http://" + addr
		}
	}
	t.Fatalf("%s did not become ready:\n%s", command, server.stderr.text())
	return ""
}
