package tracker

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
	"github.com/mcptrack/mcptrack/core/status"
)

var patience = flag.Duration("fault.patience", 30*time.Second, "how long a recovery may take")

// link is one way to connect to a fake server: a transport and an era.
type link struct {
	transport config.Transport
	era       session.Era
}

func links() []link {
	return []link{
		{config.TransportStdio, session.EraLegacy}, {config.TransportStdio, session.EraModern},
		{config.TransportHTTP, session.EraLegacy}, {config.TransportHTTP, session.EraModern},
		{config.TransportSSE, session.EraLegacy},
	}
}

func (l link) String() string { return string(l.transport) + "-" + string(l.era) }

// stand is a fake server behind a real transport, followed by a tracker with short times, and the
// state of every resource according to the events.
type stand struct {
	*testing.T
	link
	docs    *sessiontest.Fake
	tracker *Tracker
	wire    *wire // http and sse

	mu        sync.Mutex
	published map[string]catalog.Digest // zero: gone
	dups      int                       // resync events without a change
	last      time.Time                 // of the last event about content
	seen      int
}

func newStand(t *testing.T, l link) *stand {
	s := &stand{T: t, link: l, docs: sessiontest.New(), published: map[string]catalog.Digest{}}
	s.docs.Legacy, s.docs.Modern = l.era == session.EraLegacy, l.era == session.EraModern
	s.docs.PageSize = 4
	for i := range 10 {
		s.docs.SetQuietly(fmt.Sprintf("file:///%d.md", i), "version 0")
	}
	return s
}

// start follows the server and waits for the baseline.
func (s *stand) start() {
	s.Helper()
	srv := sessiontest.Entry("docs", func(c *config.Server) {
		c.Transport, c.RequestTimeout = s.transport, 2*time.Second
		c.PollInterval, c.SafetyInterval = 500*time.Millisecond, 4*time.Second
	})
	opts := Options{Window: 200 * time.Millisecond, Patience: 50 * time.Millisecond, Resync: 4 * time.Second, Liveness: time.Second,
		Backoff: 20 * time.Millisecond, MaxBackoff: 500 * time.Millisecond, Drain: 100 * time.Millisecond,
		Session: session.Options{ConnectTimeout: 3 * time.Second}}
	var pipes sessiontest.Net
	if s.transport == config.TransportStdio {
		pipes.Add("docs", s.docs)
		opts.Dial = pipes.Dial
	} else {
		handler := http.Handler(s.docs)
		if s.transport == config.TransportSSE {
			handler = s.docs.SSE()
		}
		s.wire = newWire(s.T, handler)
		srv.URL = config.NewSecret("http://" + s.wire.addr + "/mcp")
	}
	s.tracker = New(opts)
	s.tracker.Apply(&config.Config{Servers: []config.Server{srv}})
	ctx, cancel := context.WithCancel(context.Background())
	_, sub := s.tracker.Subscribe(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for e := range sub.Events() {
			s.note(e)
		}
	})
	running.Go(func() { _ = s.tracker.Run(ctx) })
	s.Cleanup(func() {
		cancel()
		running.Wait()
		s.docs.Disconnect()
		pipes.Wait()
		if s.wire != nil {
			s.wire.down()
		}
	})
	s.eventually("the baseline", func() bool {
		st, _ := s.tracker.Snapshot().Server("docs")
		return len(st.Resources) == 10 && !slices.ContainsFunc(st.Resources, func(r status.ResourceStatus) bool { return r.Digest.IsZero() })
	})
	st, _ := s.tracker.Snapshot().Server("docs")
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range st.Resources {
		s.published[r.URI] = r.Digest
	}
}

// note records what an event reports about a resource.
func (s *stand) note(e *event.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen++
	switch p := e.Payload.(type) {
	case event.ResourceUpdated:
		if e.Cause == event.CauseResync && p.Digest == s.published[e.ResourceURI] {
			s.dups++
		}
		s.published[e.ResourceURI], s.last = p.Digest, time.Now()
	case event.ResourceRemoved:
		s.published[e.ResourceURI], s.last = catalog.Digest{}, time.Now()
	case event.ResourceAdded: // its content is in the snapshot once it was read
		s.published[e.ResourceURI] = catalog.Digest{1}
	}
}

// wrong returns the resources whose last event is not true.
func (s *stand) wrong(truth map[string]catalog.Digest) []string {
	st, _ := s.tracker.Snapshot().Server("docs")
	s.mu.Lock()
	defer s.mu.Unlock()
	var wrong []string
	for uri, want := range truth {
		got := s.published[uri]
		if got == (catalog.Digest{1}) {
			for _, r := range st.Resources {
				if r.URI == uri {
					got = r.Digest
				}
			}
		}
		if got != want {
			wrong = append(wrong, uri)
		}
	}
	slices.Sort(wrong)
	return wrong
}

func (s *stand) eventually(what string, ok func() bool) {
	s.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for over := time.After(*patience); ; {
		if ok() {
			return
		}
		select {
		case <-tick.C:
		case <-over:
			st, _ := s.tracker.Snapshot().Server("docs")
			s.Fatalf("no %s within %v; state %s (%s %s), counts %+v", what, *patience, st.State, st.Reason, st.Error, st.Counts)
		}
	}
}

// rest gives a fault real time to take effect: the transports are real sockets and pipes.
func rest(d time.Duration) { <-time.After(d) }

// fault is one row of the matrix: what fails while resources change.
type fault struct {
	name    string
	on      func(link) bool // where it can happen; nil: everywhere
	happens func(*stand)    // returns when the server is healthy again
}

func overHTTP(l link) bool { return l.transport != config.TransportStdio }
func modern(l link) bool   { return l.era == session.EraModern }
func streamable(l link) bool {
	return l.transport == config.TransportHTTP && l.era == session.EraLegacy
}

// change changes some resources, with or without an announcement.
func (s *stand) change(version string, announce bool) {
	for i := range 4 {
		uri := fmt.Sprintf("file:///%d.md", i)
		if announce {
			s.docs.Set(uri, version)
		} else {
			s.docs.SetQuietly(uri, version)
		}
	}
}

func faults() []fault {
	away := 300 * time.Millisecond
	every := func(f sessiontest.Fault) func(*stand) {
		return func(s *stand) {
			s.docs.Fail(f)
			s.change("meanwhile", true)
			rest(away)
			s.docs.Heal()
		}
	}
	return []fault{
		{name: "the connection breaks", happens: func(s *stand) { s.docs.Disconnect(); s.change("meanwhile", false) }},
		{name: "it breaks again and again", happens: func(s *stand) {
			for i := range 8 {
				s.change(fmt.Sprint("round ", i), i%2 == 0)
				s.docs.Disconnect()
				rest(60 * time.Millisecond)
			}
		}},
		{name: "the server restarts at its address", on: overHTTP, happens: func(s *stand) {
			s.wire.down()
			s.docs.ForgetSessions()
			s.change("meanwhile", false)
			rest(away)
			s.wire.up()
		}},
		{name: "the network goes silent", on: overHTTP, happens: func(s *stand) {
			s.wire.cutOff()
			s.change("meanwhile", true)
			rest(away)
			s.wire.mend()
		}},
		{name: "the session is forgotten", on: overHTTP, happens: func(s *stand) { s.docs.ForgetSessions(); s.change("meanwhile", false) }},
		{name: "the subscriptions are forgotten", on: overHTTP, happens: func(s *stand) { s.docs.ForgetSubscriptions(); s.change("meanwhile", false) }},
		{name: "the listen ends with its result", on: modern, happens: func(s *stand) { s.change("meanwhile", false); s.docs.EndListens(true) }},
		{name: "the listen is cancelled", on: modern, happens: func(s *stand) { s.docs.CancelListens(); s.change("meanwhile", false) }},
		{name: "the listen breaks off", on: func(l link) bool { return modern(l) && overHTTP(l) },
			happens: func(s *stand) { s.change("meanwhile", false); s.docs.EndListens(false) }},
		{name: "announcements are lost", happens: func(s *stand) {
			s.docs.Mute(true)
			s.change("meanwhile", true)
			s.docs.Mute(false)
		}},
		{name: "no answer to anything", happens: func(s *stand) {
			s.docs.Fail(sessiontest.Fault{Silent: true})
			s.docs.Mute(true)
			s.change("meanwhile", true)
			rest(2 * time.Second)
			s.docs.Heal()
			s.docs.Mute(false)
		}},
		{name: "reads fail", happens: every(sessiontest.Fault{Method: "resources/read", Code: -32603, Message: "disk on fire"})},
		{name: "reads are slow", happens: every(sessiontest.Fault{Method: "resources/read", Delay: 150 * time.Millisecond})},
		{name: "lists fail on page two", happens: func(s *stand) {
			s.docs.Fail(sessiontest.Fault{Method: "resources/list", Page: 2, Code: -32603, Message: "disk on fire"})
			s.docs.Set("file:///new.md", "one")
			rest(away)
			s.docs.Heal()
		}},
		{name: "HTTP 500 for all", on: overHTTP, happens: every(sessiontest.Fault{Status: http.StatusInternalServerError, Body: "oops"})},
		{name: "HTTP 429 with Retry-After", on: overHTTP, happens: every(sessiontest.Fault{Status: http.StatusTooManyRequests, Header: map[string]string{"Retry-After": "1"}})},
		{name: "HTTP 503 on reads", on: overHTTP, happens: every(sessiontest.Fault{Method: "resources/read", Status: http.StatusServiceUnavailable})},
		{name: "no stream for notifications", on: streamable, happens: func(s *stand) { s.change("polled", true) }},
		{name: "a flood", happens: func(s *stand) {
			s.docs.Flood("file:///0.md", 5_000)
			s.change("after the flood", true)
		}},
		{name: "garbage among the messages", happens: func(s *stand) {
			for _, m := range []any{map[string]any{"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": map[string]any{"uri": 7}},
				map[string]any{"jsonrpc": "2.0", "id": "nobody", "result": map[string]any{}}, map[string]any{"jsonrpc": "1.0"}, []any{}} {
				s.docs.Broadcast(m)
			}
			s.change("after the garbage", true)
		}},
		{name: "resources come and go", happens: func(s *stand) {
			for i := range 6 {
				s.docs.Remove(fmt.Sprintf("file:///%d.md", i))
				s.docs.Set(fmt.Sprintf("file:///%d.md", i+10), "new")
				s.docs.Set(fmt.Sprintf("file:///%d.md", i), "back")
			}
			s.docs.Remove("file:///9.md")
		}},
	}
}

// TestFault is the fault matrix: every fault on every transport and era where it can happen, while
// resources change. In the end, the last event of every resource is true. It takes a minute of real
// time, because the transports are real, so -short skips it.
func TestFault(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute of real time")
	}
	var (
		mu        sync.Mutex
		recovered []time.Duration
		dups      int
	)
	t.Run("matrix", func(t *testing.T) {
		for _, l := range links() {
			for _, f := range faults() {
				if f.on != nil && !f.on(l) {
					continue
				}
				t.Run(l.String()+"/"+f.name, func(t *testing.T) {
					t.Parallel()
					took, again := f.run(t, l)
					mu.Lock()
					defer mu.Unlock()
					recovered = append(recovered, took)
					dups += again
				})
			}
		}
	})
	if len(recovered) == 0 {
		t.Fatal("no fault was tried")
	}
	slices.Sort(recovered)
	t.Logf("%d faults; time to recover p50 %v, p99 %v; resync events without a change: %d",
		len(recovered), recovered[len(recovered)/2].Round(time.Millisecond), recovered[len(recovered)*99/100].Round(time.Millisecond), dups)
	if dups > 0 {
		t.Errorf("%d resync events without a change", dups)
	}
}

// run lets the fault happen and waits until the last event of every resource is true, and stays
// true. It returns the time since the end of the fault.
func (f fault) run(t *testing.T, l link) (took time.Duration, dups int) {
	s := newStand(t, l)
	if f.name == "no stream for notifications" {
		s.docs.NoGET = true
	}
	s.start()
	s.change("before", true)
	rest(20 * time.Millisecond)
	f.happens(s)
	over := time.Now()
	s.docs.Set("file:///8.md", "after")
	truth := trueDigests(s.docs)
	published := func() bool { return len(s.wrong(truth)) == 0 }
	s.eventually("truth for all resources", published)
	took = time.Since(over)
	rest(500 * time.Millisecond) // nothing false follows and stays
	s.eventually("truth for all resources, still", published)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen < 5 {
		t.Errorf("only %d events: too little load", s.seen)
	}
	return took, s.dups
}

// wire is an HTTP server on one address. It can be taken down and restarted there, or silently cut
// off: the connections stay open and nothing passes.
type wire struct {
	t       *testing.T
	addr    string // where clients connect: a relay in front of the server
	handler http.Handler

	mu      sync.Mutex
	relay   net.Listener
	server  *http.Server
	passing chan struct{}   // closed while bytes pass; open: cut off
	held    []chan struct{} // of connections that were cut off; closed by down
	conns   []net.Conn
	served  sync.WaitGroup
}

func newWire(t *testing.T, h http.Handler) *wire {
	w := &wire{t: t, addr: "127.0.0.1:0", handler: h, passing: make(chan struct{})}
	close(w.passing)
	w.up()
	return w
}

func (w *wire) up() {
	w.mu.Lock()
	defer w.mu.Unlock()
	backend, err := net.Listen("tcp", "127.0.0.1:0")
	for range 100 { // the old connections may hold the address for a moment
		if w.relay, err = net.Listen("tcp", w.addr); err == nil {
			break
		}
		rest(20 * time.Millisecond)
	}
	if err != nil {
		w.t.Error(err)
		return
	}
	w.addr = w.relay.Addr().String()
	server, relay := &http.Server{Handler: w.handler, ReadHeaderTimeout: 10 * time.Second}, w.relay
	w.server = server
	w.served.Go(func() { _ = server.Serve(backend) })
	w.served.Go(func() {
		for {
			in, err := relay.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", backend.Addr().String())
			if err != nil {
				_ = in.Close()
				continue
			}
			w.mu.Lock()
			w.conns = append(w.conns, in, out)
			w.mu.Unlock()
			w.served.Go(func() { w.pass(in, out) })
			w.served.Go(func() { w.pass(out, in) })
		}
	})
}

// pass copies bytes in one direction, unless the wire is cut off.
func (w *wire) pass(from, to net.Conn) {
	defer func() { _, _ = from.Close(), to.Close() }()
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		w.mu.Lock()
		passing := w.passing
		w.mu.Unlock()
		<-passing
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// cutOff stops all bytes, on old and new connections, until mend.
func (w *wire) cutOff() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.passing = make(chan struct{})
}

// mend lets new connections pass. Connections that were cut off stay dead, and neither end learns
// of it.
func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = append(w.held, w.passing)
	w.passing = make(chan struct{})
	close(w.passing)
}

// down simulates the death of the server's process: every connection breaks.
func (w *wire) down() {
	w.mu.Lock()
	_ = w.server.Close()
	_ = w.relay.Close()
	for _, c := range w.conns {
		_ = c.Close()
	}
	w.conns = nil
	for _, held := range w.held {
		close(held)
	}
	w.held = nil
	w.mu.Unlock()
	w.served.Wait()
}
