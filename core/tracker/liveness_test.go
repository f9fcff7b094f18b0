package tracker

import (
	"encoding/json"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// noPings has the server leave all pings unanswered.
func noPings(docs *sessiontest.Fake) {
	for _, method := range []string{"ping", "server/discover"} {
		docs.Fail(sessiontest.Fault{Method: method, Silent: true})
	}
}

// call begins a call that may take so long; its error is sent when it has ended.
func (w *world) call(tool string, timeout time.Duration) <-chan error {
	done := make(chan error, 1)
	w.running.Go(func() {
		params := map[string]json.RawMessage{"name": json.RawMessage(strconv.Quote(tool)), "arguments": json.RawMessage("{}")}
		_, err := w.tracker.Do(w.Context(), "docs", session.Request{Method: "tools/call", Params: params, Timeout: timeout})
		done <- err
	})
	return done
}

// A server that does one thing at a time is not taken for dead while it is at a call
// that may take so long, whatever becomes of what waits behind it.
func TestBusyServerIsNotTakenForDead(t *testing.T) {
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

// A server that freezes during a call is found dead once the call has run out of
// time, also if others are made all the time.
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

// What the tracker itself waits for does not keep a frozen server from being found.
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

// A server that answers reads, one after the other, lives, also if a ping has to
// wait for its turn for too long.
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
			w.Error("the session goes on")
		}
	})
}

// What was begun after a request that got no answer is no excuse, whatever ends in
// which order.
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
	want(true, "and the fourth may be answered too")
	e.end(fourth, nil)
	want(false, "idle again")
}
