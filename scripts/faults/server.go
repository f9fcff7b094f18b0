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

// way is the transport of a server and the era of the protocol that it speaks.
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

// fixture is one server and the proxy or the relays before it. Its resources are in this process and
// its processes are relays, so that it outlives them.
type fixture struct {
	way
	id     string
	root   string // its resources are below
	extra  string // members of its entry of the config
	asks   bool   // there is a tool for capable clients
	oracle *oracle
	docs   *sessiontest.Fake
	proxy  *proxy // http and sse
	server *http.Server
	socket net.Listener // stdio
	spoil  atomic.Bool  // stdio: lines with notifications of updates are torn
	due    atomic.Bool  // the next change also swaps

	mu     sync.Mutex // guards what follows
	second bool       // of every pair, the second one is there
	asking string     // the description of the tool for capable clients
	relays map[net.Conn]int
	pids   []int // of all relays ever
}

func newFixture(w way, id, extra string, o *oracle) (*fixture, error) {
	return (&fixture{way: w, id: id, extra: extra, oracle: o, root: "file:///"}).open()
}

// newOwnFixture makes a fixture with URIs of its own, which lists one more tool to clients that can be
// asked something if it speaks the legacy era, where that is a matter of the session.
func newOwnFixture(w way, id string, o *oracle) (*fixture, error) {
	return (&fixture{way: w, id: id, oracle: o, root: "file:///" + id + "/", asks: w.era != "modern"}).open()
}

// open fills the server and serves it.
func (s *fixture) open() (*fixture, error) {
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
	s.proxy, err = newProxy(l.Addr().String())
	return s, err
}

func (s *fixture) uri(i int) string { return fmt.Sprintf("%s%d.md", s.root, i) }

// entry is the server's entry of a config.
func (s *fixture) entry() string {
	if s.http() {
		return fmt.Sprintf(`%q: {"type": %q, "url": "http://%s/mcp", "trackResources": true%s}`, s.id, s.transport, s.proxy.addr, s.extra)
	}
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	return fmt.Sprintf(`%q: {"command": %q, "args": ["relay", %q], "trackResources": true%s}`, s.id, self, s.socket.Addr(), s.extra)
}

// acceptRelays serves the relays, each of which says its process id first.
func (s *fixture) acceptRelays() {
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

// tearing truncates update notifications while spoil is set.
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

// relay is a server's process: it connects its input and output to the socket of a fixture.
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
func (s *fixture) signal(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pid := range s.relays {
		_ = syscall.Kill(pid, sig)
	}
}

// leftover counts relays that still run.
func (s *fixture) leftover() (n int) {
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
func (s *fixture) set(uri string, announce bool) {
	text := s.oracle.next(at{server: s.id, uri: uri})
	if announce {
		s.docs.Set(uri, text)
	} else {
		s.docs.SetQuietly(uri, text)
	}
}

// change changes some of the resources, and swaps if that is due.
func (s *fixture) change(announce bool) {
	for i := range 4 {
		s.set(s.uri(i), announce)
	}
	if s.due.Swap(false) {
		s.swap(announce)
	}
}

// remove removes a resource, announced or not.
func (s *fixture) remove(uri string) {
	s.oracle.remove(at{server: s.id, uri: uri})
	s.docs.Remove(uri)
}

// swap exchanges of a pair the one that is there for the other one: a resource, a tool, a prompt
// and a template. One more tool, prompt and template are described otherwise than before.
func (s *fixture) swap(announce bool) {
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

func (s *fixture) announceLists() {
	for _, k := range []catalog.Kind{catalog.Tools, catalog.Prompts, catalog.Resources} { // with templates
		s.docs.NotifyListChanged(k)
	}
}

func (s *fixture) item(k catalog.Kind, name string) at {
	return at{s.id, s.described(k, name, "")[k.KeyField()].(string), string(k)}
}

// described returns the descriptor of an item of a list.
func (s *fixture) described(k catalog.Kind, name, description string) map[string]any {
	d := map[string]any{"name": name, "description": description}
	switch k {
	case catalog.Tools:
		d["inputSchema"], d["annotations"] = map[string]any{"type": "object"}, map[string]any{"readOnlyHint": true}
	case catalog.Templates:
		d["uriTemplate"] = s.root + name + "/{x}"
	}
	return d
}

// die kills the server's process, or drops its connections and sessions.
func (s *fixture) die() {
	if !s.http() {
		s.signal(syscall.SIGKILL)
		return
	}
	s.proxy.down()
	s.docs.ForgetSessions()
}

// live makes the server reachable again after die.
func (s *fixture) live() error {
	if !s.http() {
		return nil
	}
	return s.proxy.up()
}

// hang stops the server until resume.
func (s *fixture) hang() {
	if s.http() {
		s.proxy.cutOff()
	} else {
		s.signal(syscall.SIGSTOP)
	}
}

func (s *fixture) resume() {
	if s.http() {
		s.proxy.mend()
	} else {
		s.signal(syscall.SIGCONT)
	}
}

func (s *fixture) close() {
	if s.http() {
		s.proxy.close()
		_ = s.server.Close()
		return
	}
	_ = s.socket.Close()
	s.signal(syscall.SIGKILL)
}

// proxy is a TCP proxy on one address. It can go down and up, and block all bytes. Like a NAT, it can
// silently drop open event streams: then it discards what the server writes to them.
type proxy struct {
	addr   string // where clients connect, the same after every up
	target string

	mu       sync.Mutex // guards what follows
	listener net.Listener
	links    map[*link]struct{}
	cut      chan struct{} // closed by mend; nil: bytes pass
	running  sync.WaitGroup
}

// link is one connection through a proxy.
type link struct {
	in, out    net.Conn
	stream     atomic.Bool // it carries an event stream
	swallowing atomic.Bool
}

func newProxy(target string) (*proxy, error) {
	w := &proxy{addr: "127.0.0.1:0", target: target, links: map[*link]struct{}{}}
	return w, w.up()
}

// up accepts connections.
func (w *proxy) up() error {
	var l net.Listener
	var err error
	for range 100 { // old connections may hold the address for a moment
		if l, err = net.Listen("tcp", w.addr); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.listener, w.addr = l, l.Addr().String()
	w.mu.Unlock()
	w.running.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", w.target)
			if err != nil {
				_ = in.Close()
				continue
			}
			k := &link{in: in, out: out}
			w.mu.Lock()
			w.links[k] = struct{}{}
			w.mu.Unlock()
			w.running.Go(func() { w.pass(k, in, out, true) })
			w.running.Go(func() { w.pass(k, out, in, false) })
		}
	})
	return nil
}

// pass copies one way until an end is closed, and closes both.
func (w *proxy) pass(k *link, from, to net.Conn, request bool) {
	defer func() {
		_, _ = from.Close(), to.Close()
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.links, k)
	}()
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if request && (bytes.HasPrefix(buf[:n], []byte("GET ")) || bytes.Contains(buf[:n], []byte("subscriptions/listen"))) {
			k.stream.Store(true)
		}
		w.wait()
		if n > 0 && !(k.swallowing.Load() && !request) {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// wait returns when bytes may pass.
func (w *proxy) wait() {
	w.mu.Lock()
	cut := w.cut
	w.mu.Unlock()
	if cut != nil {
		<-cut
	}
}

// down refuses and breaks all connections.
func (w *proxy) down() {
	w.mend()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listener != nil {
		_ = w.listener.Close()
		w.listener = nil
	}
	for k := range w.links {
		_, _ = k.in.Close(), k.out.Close()
	}
}

// cutOff stops all bytes; connections stay.
func (w *proxy) cutOff() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut == nil {
		w.cut = make(chan struct{})
	}
}

// mend ends cutOff.
func (w *proxy) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut != nil {
		close(w.cut)
		w.cut = nil
	}
}

// forget discards what servers write to streams that are open now.
func (w *proxy) forget() (streams int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k := range w.links {
		if k.stream.Load() && !k.swallowing.Swap(true) {
			streams++
		}
	}
	return streams
}

func (w *proxy) close() {
	w.down()
	w.running.Wait()
}

// fault is one row: a fault of one server while its resources change.
type fault struct {
	name    string
	on      func(way) bool     // where it can happen; nil: everywhere
	limit   time.Duration      // until everything must be true again; 0: 40 s
	happens func(*round) error // returns when the server works again
}

// round is one fault on one server.
type round struct {
	*fixture
	feed   *feed
	report *report
	result
}

func modernHTTP(w way) bool { return w.transport == "http" && w.modern() }
func onStdio(w way) bool    { return !w.http() }

// within waits for a condition, and counts a timeout as hung.
func (r *round) within(d time.Duration, what string, ok func() bool) {
	for end := time.Now().Add(d); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			r.hung++
			r.report.note("%s: not within %v: %s", r.id, d, what)
			return
		}
	}
}

// failing makes requests fail for a second while resources change.
func failing(f sessiontest.Fault) func(*round) error {
	return func(r *round) error {
		r.docs.Fail(f)
		r.change(true)
		time.Sleep(time.Second)
		r.docs.Heal()
		return nil
	}
}

func faults() []fault {
	return []fault{
		{name: "no fault", happens: func(r *round) error { r.change(true); r.change(true); return nil }},
		{name: "killed, changes meanwhile", happens: func(r *round) error {
			r.die()
			r.change(false)
			time.Sleep(500 * time.Millisecond)
			return r.live()
		}},
		{name: "killed repeatedly", happens: func(r *round) error {
			for i := range 5 {
				r.change(i%2 == 0)
				r.die()
				time.Sleep(200 * time.Millisecond)
				if err := r.live(); err != nil {
					return err
				}
			}
			return nil
		}},
		{name: "stopped for 4 s", happens: func(r *round) error {
			r.hang()
			r.change(true)
			time.Sleep(4 * time.Second)
			r.resume()
			return nil
		}},
		{name: "connections break", happens: func(r *round) error { r.docs.Disconnect(); r.change(false); return nil }},
		{name: "session forgotten", on: way.http, happens: func(r *round) error { r.docs.ForgetSessions(); r.change(false); return nil }},
		{name: "subscriptions forgotten", on: way.http, happens: func(r *round) error { r.docs.ForgetSubscriptions(); r.change(false); return nil }},
		{name: "listen ends", on: way.modern, happens: func(r *round) error { r.change(false); r.docs.EndListens(true); return nil }},
		{name: "listen cancelled", on: way.modern, happens: func(r *round) error { r.docs.CancelListens(); r.change(false); return nil }},
		{name: "listen breaks", on: modernHTTP, happens: func(r *round) error { r.change(false); r.docs.EndListens(false); return nil }},
		{name: "line torn", on: onStdio, happens: func(r *round) error {
			r.spoil.Store(true)
			r.change(true)
			time.Sleep(500 * time.Millisecond)
			r.spoil.Store(false)
			return nil
		}},
		{name: "removed and added between walks", happens: func(r *round) error {
			r.change(false) // also other contents in the same list
			r.announceLists()
			return nil
		}},
		{name: "resources come and go", happens: func(r *round) error {
			r.change(true)
			extra := fmt.Sprintf("file:///extra-%d.md", r.oracle.serial.Load())
			r.set(extra, true)
			r.set(extra, true)
			r.remove(r.uri(5))
			r.set(r.uri(5), true)
			r.remove(extra)
			return nil
		}},
		{name: "reads fail", happens: failing(sessiontest.Fault{Method: "resources/read", Code: -32603, Message: "disk on fire"})},
		{name: "reads are slow", happens: failing(sessiontest.Fault{Method: "resources/read", Delay: 700 * time.Millisecond})},
		{name: "reads are not answered", happens: failing(sessiontest.Fault{Method: "resources/read", Times: 2, Silent: true}), limit: 90 * time.Second},
		{name: "lists fail on page two", happens: func(r *round) error {
			r.docs.Fail(sessiontest.Fault{Method: "resources/list", Page: 2, Code: -32603, Message: "disk on fire"})
			r.change(false)
			r.announceLists()
			time.Sleep(time.Second)
			r.docs.Heal()
			return nil
		}},
		{name: "HTTP 500", on: way.http, happens: failing(sessiontest.Fault{Status: http.StatusInternalServerError, Body: "oops"})},
		{name: "HTTP 429, Retry-After", on: way.http, happens: failing(sessiontest.Fault{Status: http.StatusTooManyRequests, Header: map[string]string{"Retry-After": "1"}})},
		{name: "flood", happens: func(r *round) error {
			go r.docs.Flood(r.uri(0), 5000)
			r.change(true)
			time.Sleep(time.Second)
			return nil
		}},
		{name: "garbage", happens: func(r *round) error {
			for _, m := range []any{map[string]any{"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": map[string]any{"uri": 7}}, []any{}, map[string]any{"jsonrpc": "1.0"}} {
				r.docs.Broadcast(m)
			}
			r.change(true)
			return nil
		}},
		{name: "dead for 9 s", on: way.http, happens: func(r *round) error {
			_, polls := r.feed.mode(r.id)
			r.die()
			r.change(false)
			began := time.Now()
			r.within(6*time.Second, "Backoff", func() bool { return r.feed.t.state(r.id) == "Backoff" || r.feed.t.state(r.id) == "Connecting" })
			time.Sleep(9*time.Second - time.Since(began))
			if _, now := r.feed.mode(r.id); now != polls {
				r.stale++
				r.report.note("%s: reported as polled while it was dead", r.id)
			}
			return r.live()
		}},
	}
}

// slowFaults take a minute or more; each has its own server.
func slowFaults() []fault {
	return []fault{
		{name: "stream dead, nobody sees it", on: way.http, limit: 80 * time.Second, happens: func(r *round) error {
			if n := r.proxy.forget(); n == 0 {
				return fmt.Errorf("%s has no stream", r.id)
			}
			r.change(true)
			return nil
		}},
		{name: "never pushes", limit: 40 * time.Second, happens: func(r *round) error {
			r.docs.Mute(true)
			polled := func() bool { mode, _ := r.feed.mode(r.id); return mode == "poll" }
			for range 4 { // after the first missed changes the other era is tried, if there is one
				r.set(r.uri(0), true)
				r.set(r.uri(1), true)
				r.within(30*time.Second, "found by safety reads", func() bool { return len(r.feed.wrong(r.id)) == 0 })
				time.Sleep(12 * time.Second) // the grace of late notifications
				if polled() {
					break
				}
			}
			r.within(20*time.Second, "mode poll", polled)
			r.change(true)
			r.docs.Mute(false)
			r.announceLists() // the lists, which are compared every 5 min only
			return nil
		}},
		{name: "streams end every 20 s", on: func(w way) bool { return w.transport == "http" }, happens: func(r *round) error {
			r.change(true)
			next := time.Now()
			for end := time.Now().Add(100 * time.Second); time.Now().Before(end); time.Sleep(1500 * time.Millisecond) {
				if time.Now().After(next) {
					next = time.Now().Add(20 * time.Second)
					if r.modern() {
						r.docs.EndListens(false)
					} else {
						r.docs.Disconnect()
					}
				}
				r.set(r.uri(2), true)
				r.within(6*time.Second, "a change is published", func() bool { return len(r.feed.wrong(r.id)) == 0 })
			}
			return nil
		}},
	}
}

// run injects the fault once and waits until the last event of every resource is true and stays
// true.
func (f fault) run(s *fixture, feed *feed, report *report) {
	r := &round{fixture: s, feed: feed, report: report}
	r.rounds = 1
	before := feed.count(s.id)
	s.change(true)
	s.swap(true)
	r.within(30*time.Second, "the lists as they are before "+f.name, func() bool { return len(feed.wrong(s.id)) == 0 })
	s.due.Store(true) // what the client has just heard is undone meanwhile
	if err := f.happens(r); err != nil {
		report.note("%s on %s: %v", f.name, s.id, err)
		r.hung++
	}
	if s.due.Load() {
		report.note("%s on %s: nothing changed during the fault", f.name, s.id)
		r.hung++
	}
	over := time.Now()
	s.set(s.uri(6), true)
	limit := f.limit
	if limit == 0 {
		limit = 40 * time.Second
	}
	wrong := feed.wrong(s.id)
	for ; len(wrong) > 0 && time.Since(over) < limit; wrong = feed.wrong(s.id) {
		time.Sleep(20 * time.Millisecond)
	}
	r.slowest = time.Since(over)
	if len(wrong) == 0 {
		time.Sleep(2500 * time.Millisecond) // nothing untrue follows
		wrong = feed.wrong(s.id)
	}
	if r.lost += len(wrong); len(wrong) > 0 {
		report.note("%s on %s: the last event is not true within %v for %v", f.name, s.id, limit, wrong)
	}
	after := feed.count(s.id)
	r.stale += after.stale - before.stale
	r.duplicated += after.duplicated - before.duplicated
	r.lost += after.holes - before.holes
	report.row(f.name, s.String(), r.result)
}
