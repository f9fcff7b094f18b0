package tracker

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// fault is one row of the matrix: what goes wrong while resources change.
type fault struct {
	name    string
	on      func(link) bool // where it can happen; nil: everywhere
	happens func(*stand)    // returns when the server is well again
}

func overHTTP(l link) bool { return l.transport != config.TransportStdio }
func modern(l link) bool   { return l.era == session.EraModern }
func streamable(l link) bool {
	return l.transport == config.TransportHTTP && l.era == session.EraLegacy
}

// change changes some resources, announced or not.
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

// TestFault is the fault matrix: every fault on every transport and era it can
// happen on, while resources change. In the end the last event of every resource
// is true.
func TestFault(t *testing.T) {
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
		t.Fatal("nothing was tried")
	}
	slices.Sort(recovered)
	t.Logf("%d faults; time to recover p50 %v, p99 %v; resync events that said nothing new: %d",
		len(recovered), recovered[len(recovered)/2].Round(time.Millisecond), recovered[len(recovered)*99/100].Round(time.Millisecond), dups)
	if dups > 0 {
		t.Errorf("%d resync events said nothing new", dups)
	}
}

// run lets the fault happen and waits until every resource is published truly, and
// stays so. It returns the time from the end of the fault.
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
	truth := digestsOf(s.docs)
	published := func() bool { return len(s.wrong(truth)) == 0 }
	s.eventually("truth for all resources", published)
	took = time.Since(over)
	rest(500 * time.Millisecond) // nothing untrue follows and stays
	s.eventually("truth for all resources, still", published)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen < 5 {
		t.Errorf("only %d events: the load did not flow", s.seen)
	}
	return took, s.dups
}

// digestsOf is what is true now, by URI; the zero digest for what is gone.
func digestsOf(docs *sessiontest.Fake) map[string]catalog.Digest { return trueDigests(docs) }
