package tracker

import (
	"context"
	"flag"
	"fmt"
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

// link is one way to a fake server: a transport and an era.
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

// stand is a fake server behind a real transport, followed by a tracker with
// short times, and the state of every resource as the events say.
type stand struct {
	*testing.T
	link
	docs    *sessiontest.Fake
	tracker *Tracker
	wire    *wire // http and sse

	mu        sync.Mutex
	published map[string]catalog.Digest // zero: gone
	dups      int                       // resync events that said nothing new
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
		return len(st.Resources) == 10 && !slices.ContainsFunc(st.Resources, func(r status.Resource) bool { return r.Digest.IsZero() })
	})
	st, _ := s.tracker.Snapshot().Server("docs")
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range st.Resources {
		s.published[r.URI] = r.Digest
	}
}

// note keeps what an event says about a resource.
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

// rest is a moment for a fault to work in.
func rest(d time.Duration) { <-time.After(d) }
