package tracker

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// noPings makes the server leave all pings unanswered.
func noPings(docs *sessiontest.Fake) {
	for _, method := range []string{"ping", "server/discover"} {
		docs.Fail(sessiontest.Fault{Method: method, Silent: true})
	}
}

// call begins a call with the timeout; its error is sent when it has ended.
func (w *world) call(tool string, timeout time.Duration) <-chan error {
	done := make(chan error, 1)
	w.running.Go(func() {
		params := map[string]json.RawMessage{"name": json.RawMessage(strconv.Quote(tool)), "arguments": json.RawMessage("{}")}
		_, err := w.tracker.Do(w.Context(), "docs", session.Request{Method: "tools/call", Params: params, Timeout: timeout})
		done <- err
	})
	return done
}

// A server that handles one request at a time does not count as dead while it works on a call
// within its timeout, whatever happens to the requests behind it.
func TestBusyServerDoesNotCountAsDead(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md")
		noPings(docs)
		docs.Fail(sessiontest.Fault{Method: "tools/call", Times: 1, Delay: 5 * time.Minute})
		done := w.call("slow", 10*time.Minute)
		w.pass(time.Second)
		docs.Fail(sessiontest.Fault{Method: "tools/call", Times: 1, Silent: true})
		if err := <-w.call("behind it", 30*time.Second); err == nil {
			w.Error("the second call was answered")
		}
		if err := <-done; err != nil {
			w.Errorf("the call was ended: %v; events:\n%s", err, w.log())
		}
		docs.Heal()
		w.pass(time.Minute)
		w.wantState("docs", event.Ready)
		if n := len(w.Dialled("docs")); n != 1 {
			w.Errorf("dialled %d times", n)
		}
	})
}

// A server that freezes during a call counts as dead once the call has timed out, even if other
// calls keep being made.
func TestFrozenDuringCalls(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md")
		docs.Fail(sessiontest.Fault{Silent: true})
		docs.Mute(true)
		for range 6 {
			w.call("one", 20*time.Second)
			w.pass(10 * time.Second)
		}
		if got := w.state("docs"); got == event.Ready {
			w.Errorf("the server is %s a minute after it froze", got)
		}
	})
}

// The tracker's own requests do not keep a frozen server from being detected.
func TestFrozenDuringReads(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md", "file:///b.md")
		docs.Fail(sessiontest.Fault{Silent: true})
		docs.NotifyUpdated("file:///a.md")
		w.pass(10 * time.Second)
		docs.NotifyUpdated("file:///b.md")
		w.pass(20 * time.Second)
		if docs.Count("resources/read") < 4 {
			w.Fatalf("%d reads: this test tests nothing", docs.Count("resources/read"))
		}
		if got := w.state("docs"); got == event.Ready {
			w.Errorf("the server is %s 30 s after it froze", got)
		}
	})
}

// A server that answers reads one after the other is alive, even if a ping waits behind them until
// it times out.
func TestPingBehindReads(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md")
		noPings(docs)
		for range 12 {
			docs.NotifyUpdated("file:///a.md")
			w.pass(5 * time.Second)
		}
		if n := len(w.Dialled("docs")); n != 1 {
			w.Errorf("dialled %d times while it answers", n)
		}
		w.pass(25 * time.Second) // 30 s after the last answer
		if n := len(w.Dialled("docs")); n < 2 {
			w.Error("the session was not ended")
		}
	})
}

// A request that began after an unanswered one is no excuse, in whatever order they end.
func TestRequestsExcuseAnUnansweredPing(t *testing.T) {
	var e requests
	since, late := time.Now(), errors.New("no response in time")
	want := func(want bool, when string) {
		t.Helper()
		if got := e.excuse(since); got != want {
			t.Errorf("%s: excused is %t", when, got)
		}
	}
	want(false, "idle")
	first, second, third := e.begin(), e.begin(), e.begin()
	want(true, "three are out")
	e.end(second, late)
	want(true, "the first is still out")
	e.end(first, late)
	want(false, "the third was begun after one without an answer")
	fourth := e.begin()
	e.end(e.begin(), late)
	want(false, "two are out, begun after one without an answer")
	since = time.Now()
	e.end(third, &session.RPCError{Code: -32603})
	want(true, "an error is an answer")
	since = time.Now().Add(time.Hour)
	want(true, "and the fourth may also be answered")
	e.end(fourth, nil)
	want(false, "idle again")
}

// suspend blocks the worker's goroutine for the given time, as a suspension of the process does:
// the next read of the URI fails, and writing the log line about it takes that long.
func (w *world) suspend(docs *sessiontest.Fake, uri string, d time.Duration) {
	docs.Fail(sessiontest.Fault{Method: "resources/read", URI: uri, Times: 1, Code: -32603, Message: "disk on fire"})
	w.logs.stallAt("read failed", d)
	docs.NotifyUpdated(uri)
}

// After a suspension of a minute, everything is compared once, and the session stays.
func TestSuspension(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md", "file:///b.md", "file:///c.md")
		w.suspend(docs, "file:///a.md", time.Minute)
		w.pass(time.Second)
		docs.SetQuietly("file:///b.md", "two")
		lists := docs.Count("resources/list")
		w.pass(70 * time.Second)
		got := w.updates()
		slices.Sort(got)
		if want := []string{"file:///a.md notify", "file:///a.md resync", "file:///b.md resync"}; !slices.Equal(got, want) {
			w.Errorf("updates %q, want %q; events:\n%s", got, want, w.log())
		}
		if n := len(w.Dialled("docs")); n != 1 {
			w.Errorf("dialled %d times", n)
		}
		if n := docs.Count("resources/list") - lists; n != 1 {
			w.Errorf("%d syncs, want one", n)
		}
		if n := len(w.published(event.TypeServerState)); n != 0 {
			w.Errorf("%d states:\n%s", n, w.log())
		}
		w.forget()
		docs.Set("file:///c.md", "two")
		w.pass(3 * time.Second)
		w.wantUpdates("file:///c.md notify")
	})
}

// A modern server that describes itself differently is not connected again, and at most one change in
// 5 minutes is published.
func TestServerDescribesItselfDifferently(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		if docs.Legacy {
			return // it describes itself once
		}
		settledOn(w, docs, "file:///a.md")
		say := func(text string) {
			docs.Heal()
			docs.Fail(sessiontest.Fault{Method: "server/discover", Result: map[string]any{"resultType": "complete",
				"supportedVersions": []string{"2026-07-28"}, "capabilities": docs.Capabilities, "instructions": text}})
			w.pass(time.Minute)
		}
		said := func(want string) {
			w.Helper()
			if st, _ := w.tracker.Snapshot().Server("docs"); st.Info.Instructions != want {
				w.Errorf("instructions %q, want %q", st.Info.Instructions, want)
			}
		}
		before := len(w.published(event.TypeServerState))
		for _, text := range []string{"one", "two", "three"} {
			say(text)
			said("one")
		}
		w.pass(5 * time.Minute)
		said("three")
		if n := len(w.published(event.TypeServerState)) - before; n != 2 {
			w.Errorf("%d states:\n%s", n, w.log())
		}
		w.wantState("docs", event.Ready)
		if n := len(w.Dialled("docs")); n != 1 {
			w.Errorf("dialled %d times", n)
		}
	})
}

// A ping that was in flight during the suspension does not count against the server, and does not
// keep the session from ending.
func TestSuspensionDuringAPing(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md") // 3 s after the connection
		for _, method := range []string{"ping", "server/discover"} {
			docs.Fail(sessiontest.Fault{Method: method, Silent: true})
		}
		w.pass(12500 * time.Millisecond) // one has been in flight for half a second
		w.suspend(docs, "file:///a.md", 6*time.Second)
		w.pass(7 * time.Second) // and now two are
		w.wantState("docs", event.Ready)
		docs.Heal()
		docs.Disconnect()
		w.pass(10 * time.Second)
		w.wantState("docs", event.Ready)
		if n := len(w.Dialled("docs")); n != 2 {
			w.Errorf("dialled %d times", n)
		}
	})
}

func TestClock(t *testing.T) {
	start := time.Now()
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	var c clock
	for _, step := range []struct {
		now, until float64
		never      bool
		jumped     bool
	}{
		{now: 0, until: 1},
		{now: 1, until: 2},
		{now: 6.9, until: 9}, // late, within the tolerance
		{now: 14.1, until: 15, jumped: true},
		{now: 14.2, never: true},
		{now: 3000, until: 3001}, // nothing was due
		{now: 3002, never: true},
		{now: 3002 + 3700, until: 8000, jumped: true},
	} {
		if got := c.jumped(at(step.now)); got != step.jumped {
			t.Errorf("at %v s: jumped is %t", step.now, got)
		}
		if step.never {
			c.expect(time.Time{})
		} else {
			c.expect(at(step.until))
		}
	}
}
