//go:build linux

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

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// way is how a server is reached: a transport and an era.
type way struct{ transport, era string }

func ways() []way {
	return []way{{"stdio", "legacy"}, {"stdio", "modern"}, {"stdio", "both"}, {"http", "legacy"}, {"http", "modern"}, {"http", "both"}, {"sse", "legacy"}}
}

func (w way) String() string { return w.transport + "-" + w.era }
func (w way) http() bool     { return w.transport != "stdio" }
func (w way) modern() bool   { return w.era == "modern" } // and nothing else

const (
	resources = 8                       // of each server at the start
	repeats   = "repeats its arguments" // the description of echo
)

// stand is one server and what stands between it and its clients. Its world is here and
// its processes are relays, so that it survives their deaths.
type stand struct {
	way
	id     string
	root   string // its resources are below
	extra  string // members of its entry of the config
	asks   bool   // there is a tool for capable clients
	oracle *oracle
	docs   *sessiontest.Fake
	wire   *wire // http and sse
	server *http.Server
	socket net.Listener // stdio
	spoil  atomic.Bool  // stdio: lines with notifications of updates are torn
	due    atomic.Bool  // the next change is a swap, too

	mu     sync.Mutex // guards what follows
	second bool       // of every pair, the second one is there
	asking string     // the description of the tool for capable clients
	relays map[net.Conn]int
	pids   []int // of all relays ever
}

func newStand(w way, id, extra string, o *oracle) (*stand, error) {
	return (&stand{way: w, id: id, extra: extra, oracle: o, root: "file:///"}).open()
}

// newOwn makes a stand with URIs of its own, which lists one more tool to clients that can be
// asked something if it speaks the legacy era, where that is a matter of the session.
func newOwn(w way, id string, o *oracle) (*stand, error) {
	return (&stand{way: w, id: id, oracle: o, root: "file:///" + id + "/", asks: w.era != "modern"}).open()
}

// open fills the server and serves it.
func (s *stand) open() (*stand, error) {
	s.docs, s.relays = sessiontest.New(), map[net.Conn]int{}
	s.docs.Legacy, s.docs.Modern = s.era != "modern", s.era != "legacy"
	s.docs.PageSize = 5
	s.swap(false)
	for i := range resources {
		s.set(s.uri(i), false)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	if !s.http() {
		s.socket = l
		go s.acceptRelays()
		return s, nil
	}
	handler := http.Handler(s.docs)
	if s.transport == "sse" {
		handler = s.docs.SSE()
	}
	s.server = &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.server.Serve(l) }()
	s.wire, err = newWire(l.Addr().String())
	return s, err
}

func (s *stand) uri(i int) string { return fmt.Sprintf("%s%d.md", s.root, i) }

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
	text := s.oracle.next(at{server: s.id, uri: uri})
	if announce {
		s.docs.Set(uri, text)
	} else {
		s.docs.SetQuietly(uri, text)
	}
}

// change changes some of the resources, and swaps if that is due.
func (s *stand) change(announce bool) {
	for i := range 4 {
		s.set(s.uri(i), announce)
	}
	if s.due.Swap(false) {
		s.swap(announce)
	}
}

// remove removes a resource, announced or not.
func (s *stand) remove(uri string) {
	s.oracle.remove(at{server: s.id, uri: uri})
	s.docs.Remove(uri)
}

// swap exchanges of a pair the one that is there for the other one: a resource, a tool, a prompt
// and a template. One more tool, prompt and template are described otherwise than before.
func (s *stand) swap(announce bool) {
	s.mu.Lock()
	comes, goes := "pair-0", "pair-1"
	if s.second = !s.second; s.second {
		comes, goes = goes, comes
	}
	s.mu.Unlock()
	for _, k := range []catalog.Kind{catalog.Tools, catalog.Prompts, catalog.Templates} {
		s.oracle.remove(s.item(k, goes))
		items := []any{s.described(k, "echo", repeats)}
		for _, name := range []string{"redefined", comes} {
			items = append(items, s.described(k, name, s.oracle.next(s.item(k, name))))
		}
		s.docs.SetList(k, items...)
	}
	if s.asks {
		s.mu.Lock()
		s.asking = fmt.Sprintf("version %d", s.oracle.serial.Add(1))
		s.docs.SetListForCapable(catalog.Tools, s.described(catalog.Tools, "asks", s.asking))
		s.mu.Unlock()
	}
	was, is := s.root+goes+".md", s.root+comes+".md"
	s.oracle.remove(at{server: s.id, uri: was})
	s.docs.RemoveQuietly(was)
	s.set(is, false)
	if announce {
		s.announceLists()
	}
}

func (s *stand) announceLists() {
	for _, k := range []catalog.Kind{catalog.Tools, catalog.Prompts, catalog.Resources} { // with templates
		s.docs.NotifyListChanged(k)
	}
}

func (s *stand) item(k catalog.Kind, name string) at {
	return at{s.id, s.described(k, name, "")[k.KeyField()].(string), string(k)}
}

// described returns the descriptor of an item of a list.
func (s *stand) described(k catalog.Kind, name, description string) map[string]any {
	d := map[string]any{"name": name, "description": description}
	switch k {
	case catalog.Tools:
		d["inputSchema"], d["annotations"] = map[string]any{"type": "object"}, map[string]any{"readOnlyHint": true}
	case catalog.Templates:
		d["uriTemplate"] = s.root + name + "/{x}"
	}
	return d
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
