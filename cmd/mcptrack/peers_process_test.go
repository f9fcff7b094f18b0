//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A peerServer is a running server process and what it said.
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

// startAnnouncing runs a server that says "listening on URL" on stderr once it
// accepts connections, and returns the URL.
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
