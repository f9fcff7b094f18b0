//go:build linux

package main

import (
	"fmt"
	"net/http"
	"time"

	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// fault is one row: what goes wrong on one server while its resources change.
type fault struct {
	name    string
	on      func(way) bool     // where it can happen; nil: everywhere
	limit   time.Duration      // within which everything is true again; 0: 40 s
	happens func(*round) error // returns when the server is well again
}

// round is one fault on one server.
type round struct {
	*stand
	feed   *feed
	report *report
	result
}

func modernHTTP(w way) bool { return w.transport == "http" && w.modern() }
func onStdio(w way) bool    { return !w.http() }

// within waits for a condition, which is counted as hung if it does not come true.
func (r *round) within(d time.Duration, what string, ok func() bool) {
	for end := time.Now().Add(d); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			r.hung++
			r.report.note("%s: not within %v: %s", r.id, d, what)
			return
		}
	}
}

// failing makes requests fail for a moment in which resources change.
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
		{name: "killed again and again", happens: func(r *round) error {
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
				r.report.note("%s: said to be polled while it was dead", r.id)
			}
			return r.live()
		}},
	}
}

// slowFaults take a minute or more, each on a server of its own.
func slowFaults() []fault {
	return []fault{
		{name: "stream dead, nobody sees it", on: way.http, limit: 80 * time.Second, happens: func(r *round) error {
			if n := r.wire.forget(); n == 0 {
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

// run lets the fault happen once and waits until the last event of every resource is true,
// and stays so.
func (f fault) run(s *stand, feed *feed, report *report) {
	r := &round{stand: s, feed: feed, report: report}
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
		report.note("%s on %s: nothing changed meanwhile", f.name, s.id)
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
