//go:build unix

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// way is how a server is reached: a transport and an era.
type way struct{ transport, era string }

func ways() []way {
	return []way{{"stdio", "legacy"}, {"stdio", "modern"}, {"http", "legacy"}, {"http", "modern"}, {"sse", "legacy"}}
}

func (w way) String() string { return w.transport + "-" + w.era }
func (w way) http() bool     { return w.transport != "stdio" }
func (w way) modern() bool   { return w.era == "modern" }

const resources = 8 // of each server at the start

// stand is one server and what stands between it and its clients. Its world is here and
// its processes are relays, so that it survives their deaths.
type stand struct {
	way
	id     string
	extra  string // members of its entry of the config
	oracle *oracle
	docs   *sessiontest.Server
	wire   *wire // http and sse
	server *http.Server
	socket net.Listener // stdio
	spoil  atomic.Bool  // stdio: lines with notifications of updates are torn

	mu     sync.Mutex // guards what follows
	relays map[net.Conn]int
	pids   []int // of all relays ever
}

func newStand(w way, id, extra string, o *oracle) (*stand, error) {
	s := &stand{way: w, id: id, extra: extra, oracle: o, docs: sessiontest.New(), relays: map[net.Conn]int{}}
	s.docs.Legacy, s.docs.Modern = !w.modern(), w.modern()
	s.docs.PageSize = 5
	s.docs.SetList("tools", map[string]any{"name": "echo", "inputSchema": map[string]any{"type": "object"}, "annotations": map[string]any{"readOnlyHint": true}})
	for i := range resources {
		s.docs.SetQuietly(s.uri(i), o.next(at{id, s.uri(i)}))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	if !w.http() {
		s.socket = l
		go s.acceptRelays()
		return s, nil
	}
	handler := http.Handler(s.docs)
	if w.transport == "sse" {
		handler = s.docs.SSE()
	}
	s.server = &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.server.Serve(l) }()
	s.wire, err = newWire(l.Addr().String())
	return s, err
}

func (s *stand) uri(i int) string { return fmt.Sprintf("file:///%d.md", i) }

// entry is the server's entry of a config.
func (s *stand) entry() string {
	if s.http() {
		return fmt.Sprintf(`%q: {"type": %q, "url": "http://%s/mcp", "trackResources": true%s}`, s.id, s.transport, s.wire.addr, s.extra)
	}
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	return fmt.Sprintf(`%q: {"command": %q, "args": ["relay", %q], "trackResources": true%s}`, s.id, self, s.socket.Addr(), s.extra)
}

// acceptRelays serves the relays, each of which says its process id first.
func (s *stand) acceptRelays() {
	for {
		c, err := s.socket.Accept()
		if err != nil {
			return
		}
		go func() {
			in := bufio.NewReader(c)
			line, err := in.ReadString('\n')
			pid, _ := strconv.Atoi(strings.TrimSpace(line))
			if err != nil || pid == 0 {
				_ = c.Close()
				return
			}
			s.mu.Lock()
			s.relays[c] = pid
			s.pids = append(s.pids, pid)
			s.mu.Unlock()
			s.docs.ServeStdio(in, &tearing{c, &s.spoil})
			s.mu.Lock()
			delete(s.relays, c)
			s.mu.Unlock()
		}()
	}
}

// tearing tears notifications of updates while spoil is set.
type tearing struct {
	net.Conn
	spoil *atomic.Bool
}

func (c *tearing) Write(line []byte) (int, error) {
	if c.spoil.Load() && bytes.Contains(line, []byte("notifications/resources/updated")) {
		_, err := c.Conn.Write(append(bytes.Clone(line[:len(line)-20]), '\n'))
		return len(line), err
	}
	return c.Conn.Write(line)
}

// relay is a server's process: it connects its input and output to the socket of a stand.
func relay(addr string) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(c, os.Getpid()); err != nil {
		return err
	}
	go func() {
		_, _ = c.(*net.TCPConn).ReadFrom(os.Stdin)
		os.Exit(0)
	}()
	_, err = c.(*net.TCPConn).WriteTo(os.Stdout)
	return err
}

// signal sends a signal to the relays that run.
func (s *stand) signal(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pid := range s.relays {
		_ = syscall.Kill(pid, sig)
	}
}

// leftover counts relays that are alive.
func (s *stand) leftover() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pid := range s.pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && bytes.Contains(stat, []byte("relay\x00")) {
			n++
		}
	}
	return n
}

// set gives a resource its next version, announced or not.
func (s *stand) set(uri string, announce bool) {
	text := s.oracle.next(at{s.id, uri})
	if announce {
		s.docs.Set(uri, text)
	} else {
		s.docs.SetQuietly(uri, text)
	}
}

// change changes some of the resources.
func (s *stand) change(announce bool) {
	for i := range 4 {
		s.set(s.uri(i), announce)
	}
}

// remove removes a resource, announced or not.
func (s *stand) remove(uri string) {
	s.oracle.remove(at{s.id, uri})
	s.docs.Remove(uri)
}

// die ends the server's process, or its connections and sessions, as kill -9 does.
func (s *stand) die() {
	if !s.http() {
		s.signal(syscall.SIGKILL)
		return
	}
	s.wire.down()
	s.docs.ForgetSessions()
}

// live makes a server that died reachable again.
func (s *stand) live() error {
	if !s.http() {
		return nil
	}
	return s.wire.up()
}

// hang stops the server; resume lets it go on.
func (s *stand) hang() {
	if s.http() {
		s.wire.cutOff()
	} else {
		s.signal(syscall.SIGSTOP)
	}
}

func (s *stand) resume() {
	if s.http() {
		s.wire.mend()
	} else {
		s.signal(syscall.SIGCONT)
	}
}

func (s *stand) close() {
	if s.http() {
		s.wire.close()
		_ = s.server.Close()
		return
	}
	_ = s.socket.Close()
	s.signal(syscall.SIGKILL)
}
