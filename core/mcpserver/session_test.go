package mcpserver_test

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// A session outlives its stream: the next stream sends changes in between, and what a broken
// stream may not have delivered.
func TestSessionStream(t *testing.T) {
	t.Parallel()
	s := newEndpoint(t, mcpserver.Options{}, "a", "b")
	h := s.initialize()
	for _, uri := range []string{"a", "b"} {
		if status, body := s.post(h, `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"note:///%s"}}`, uri); status != 200 || code(body) != 0 {
			t.Fatal(body)
		}
	}
	updated := func(e *events, name string) {
		t.Helper()
		e.expect(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"note:///%s"}}`, name)
	}
	used := map[string]bool{} // ids are unique in a session, over all streams
	get := func(last string) *events {
		more := header{"Last-Event-ID": last}
		maps.Copy(more, h)
		e := s.stream("GET", more, "")
		e.ids = func(id string) {
			if used[id] {
				t.Errorf("the id %s came before", id)
			}
			used[id] = true
		}
		return e
	}
	s.write("a", "before the stream")
	first := get("")
	updated(first, "a")
	seen := first.id
	s.write("b", "1")
	updated(first, "b")
	s.SetCatalog(mcpserver.Catalog{})
	first.next()
	first.next()
	first.next()

	// A client that resumes with an id gets what was sent after it, and newer updates.
	s.write("a", "2")
	updated(first, "a")
	second := get(seen)
	if got := first.next(); got != "" {
		t.Errorf("the earlier stream continues: %s", got)
	}
	for _, list := range []string{"tools", "prompts", "resources"} {
		second.expect(`{"jsonrpc":"2.0","method":"notifications/%s/list_changed","params":{}}`, list)
	}
	updated(second, "b")
	updated(second, "a")
	second.leave()
	s.post(h, `{"jsonrpc":"2.0","id":1,"method":"resources/unsubscribe","params":{"uri":"note:///b"}}`)
	s.write("b", "no subscriber")
	s.write("a", "3")
	s.write("a", "4")
	third := get(second.id)
	updated(third, "a")
	s.write("a", "5")
	updated(third, "a")

	// A client that sends no id or an invalid one again gets what was sent within replayWindow, in
	// some order: the server may notice late that the client has left a stream.
	third.leave()
	get("").leave()
	get("99999").leave()
	fourth := get("x")
	missing := []string{"tools/list_changed", "prompts/list_changed", "resources/list_changed", "note:///a"}
	for len(missing) > 0 {
		got := fourth.next()
		if got == "" {
			t.Fatalf("%q are not repeated", missing)
		}
		missing = slices.DeleteFunc(missing, func(want string) bool { return strings.Contains(got, want) })
	}

	if resp := s.ask(t.Context(), http.MethodDelete, h, ""); resp.StatusCode != http.StatusNoContent {
		t.Errorf("DELETE: %s", resp.Status)
	}
	for fourth.next() != "" { // what the server repeats because it notices late that the client left another stream
	}
	if status, _ := s.post(h, ping); status != http.StatusNotFound {
		t.Errorf("after DELETE: %d", status)
	}
	if got := s.Subscriptions().Stats(); got.Subscribers != 0 || got.URIs != 0 {
		t.Errorf("left: %+v", got)
	}
}

// Idle sessions end, and the longest idle one makes room for a new one; sessions in use stay.
func TestSessionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestServer(t, mcpserver.Options{SessionIdle: time.Minute, MaxSessions: 2})
		open := func() string { return h.openAs(t, "") }
		alive := func(session string) bool { return h.postAs("", session, ping).Code == http.StatusOK }
		one := open()
		time.Sleep(50 * time.Second)
		if !alive(one) {
			t.Error("ended too early")
		}
		time.Sleep(50 * time.Second)
		if !alive(one) {
			t.Error("use does not extend it")
		}
		time.Sleep(61 * time.Second)
		if alive(one) || h.Subscriptions().Stats().Subscribers != 0 {
			t.Error("an idle session continues")
		}
		one = open()
		time.Sleep(time.Second)
		two := open()
		time.Sleep(time.Second)
		alive(one)
		time.Sleep(time.Second)
		three := open()
		if alive(two) || !alive(one) || !alive(three) {
			t.Error("the longest idle session did not have to go")
		}
		go h.postAs("", one, call("wait", ""))
		go h.postAs("", three, call("wait", ""))
		<-h.began
		<-h.began
		if four := h.postAs("", "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`); four.Code != http.StatusServiceUnavailable || four.Header().Get("Retry-After") == "" {
			t.Errorf("a third in use: %d", four.Code)
		}
		time.Sleep(10 * time.Minute)
		if !alive(one) {
			t.Error("a session with a call in flight was ended")
		}
		h.Close()
	})
}

// Without Last-Event-ID, what was sent before replayWindow is not repeated.
func TestReplayWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestServer(t, mcpserver.Options{Heartbeat: time.Hour}, "a", "b")
		session := h.openAs(t, "")
		for _, n := range []string{"a", "b"} {
			h.postAs("", session, `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"`+note(n)+`"}}`)
		}
		stream := func(d time.Duration, during func()) string {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			go func() {
				time.Sleep(d / 2)
				during()
			}()
			return h.request(ctx, http.MethodGet, "", session, "").Body.String()
		}
		stream(30*time.Second, func() { h.write("a", "1") })
		time.Sleep(50 * time.Second)
		if got := stream(10*time.Second, func() { h.write("b", "1") }); strings.Contains(got, note("a")) || !strings.Contains(got, note("b")) {
			t.Errorf("65 s after a, and with b: %s", got)
		}
		if got := stream(time.Second, func() {}); strings.Contains(got, note("a")) || !strings.Contains(got, note("b")) {
			t.Errorf("5 s after b: %s", got)
		}
	})
}

// Another stream of a session ends the one before. It repeats what the client has not received.
func TestSessionStreamIsReplaced(t *testing.T) {
	t.Parallel()
	s := newEndpoint(t, mcpserver.Options{Heartbeat: time.Hour}, "a", "b")
	h := s.initialize()
	for _, uri := range []string{"a", "b"} {
		s.post(h, `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"note:///%s"}}`, uri)
	}
	updated := func(e *events, name string) {
		t.Helper()
		e.expect(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"note:///%s"}}`, name)
	}
	first := s.stream("GET", h, "")
	s.write("a", "1")
	updated(first, "a")
	second := s.stream("GET", h, "")
	updated(second, "a")
	if got := first.next(); got != "" {
		t.Errorf("the first stream continues: %s", got)
	}
	s.write("b", "2")
	updated(second, "b")
	seen := second.id
	s.write("b", "3")
	updated(second, "b")
	s.write("a", "2")
	updated(second, "a")
	h["Last-Event-ID"] = seen
	third := s.stream("GET", h, "")
	updated(third, "b")
	updated(third, "a")
	if got := second.next(); got != "" {
		t.Errorf("the second stream continues: %s", got)
	}
}

// What was sent on a stream that the client no longer reads goes to the next one, even if the
// connection still seems to be open.
func TestDeadSessionStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestServer(t, mcpserver.Options{Heartbeat: time.Hour}, "a")
		session := h.openAs(t, "")
		h.postAs("", session, `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"note:///a"}}`)
		ctx, cancel := context.WithCancel(t.Context())
		dead := make(chan string)
		go func() { dead <- h.request(ctx, http.MethodGet, "", session, "").Body.String() }()
		synctest.Wait()
		h.write("a", "1")
		time.Sleep(time.Second)
		within, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		if got := h.request(within, http.MethodGet, "", session, "").Body.String(); !strings.Contains(got, note("a")) {
			t.Errorf("the second stream: %s", got)
		}
		cancel()
		if got := <-dead; !strings.Contains(got, note("a")) {
			t.Errorf("the first stream: %s", got)
		}
	})
}
