package mcpserver_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// stall opens a stream and reads nothing.
func (s *endpoint) stall(network *network, method string, h header, body string) {
	s.t.Helper()
	c, err := network.dial(s.t.Context(), "", "")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	var b strings.Builder
	fmt.Fprintf(&b, "%s / HTTP/1.1\r\nHost: x\r\nAccept: */*\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", method, len(body))
	for name, value := range h {
		fmt.Fprintf(&b, "%s: %s\r\n", name, value)
	}
	if _, err := io.WriteString(c, b.String()+"\r\n"+body); err != nil {
		s.t.Fatal(err)
	}
}

// A client that does not read delays no other client, costs no memory, is disconnected, and gets
// what it missed when it reconnects.
func TestSlowHTTPClient(t *testing.T) { // not parallel: it measures memory
	synctest.Test(t, func(t *testing.T) {
		const timeout = 10 * time.Second
		h := newTestServer(t, mcpserver.Options{WriteTimeout: timeout, Heartbeat: time.Hour})
		network := newNetwork(t)
		stop := network.serve(h)
		t.Cleanup(func() {
			h.Close()
			stop()
		})
		s := &endpoint{testServer: h, t: t, url: "http://notes.test/", client: network.Client}
		const many = 1000
		uris := make([]string, many)
		filter := make([]string, many)
		for i := range uris {
			uris[i] = note(fmt.Sprintf("%04d/%s", i, strings.Repeat("x", 200)))
			filter[i] = fmt.Sprintf("%q", uris[i])
		}
		body := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{` + metaModern + `,"notifications":{"resourceSubscriptions":[` + strings.Join(filter, ",") + `]}}}`
		legacy := s.initialize()
		for _, uri := range uris[:200] {
			s.post(legacy, `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":%q}}`, uri)
		}
		good := s.stream("POST", modern("subscriptions/listen"), strings.Replace(body, strings.Join(filter, ","), filter[0], 1))
		good.next()
		s.stall(network, "POST", modern("subscriptions/listen"), body)
		s.stall(network, "GET", legacy, "")
		synctest.Wait()

		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		began := time.Now()
		for range 100 {
			h.Updated(uris...)
			if got := good.next(); !strings.Contains(got, "updated") {
				t.Fatalf("the good client received %q", got)
			}
		}
		if waited := time.Since(began); waited > 0 {
			t.Errorf("the good client waited %v", waited)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 4<<20 {
			t.Errorf("%d KiB more are in use", grown>>10)
		}
		time.Sleep(2 * timeout)
		if n := h.Subscriptions().Stats().Subscriptions; n != 200+1 {
			t.Errorf("%d subscriptions: the stuck listen is not cut off", n)
		}
		again := s.stream("GET", legacy, "")
		for i := range 200 {
			if got := again.next(); !strings.Contains(got, "updated") {
				t.Fatalf("update %d: %q", i, got)
			}
		}
	})
}

// An idle stream sends heartbeats.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	s := newEndpoint(t, mcpserver.Options{Heartbeat: 10 * time.Millisecond}, "a")
	listen := s.stream("POST", modern("subscriptions/listen"),
		`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{`+metaModern+`,"notifications":{"toolsListChanged":true}}}`)
	listen.next()
	get := s.stream("GET", s.initialize(), "")
	for _, e := range []*events{listen, get} {
		for range 3 {
			if got := e.next(); got != ":" {
				t.Errorf("%q", got)
			}
		}
	}
	// A long call whose response is a stream also has heartbeats.
	call := s.stream("POST", modern("tools/call", "Mcp-Name", "progress"), call("progress", `,"arguments":{"hold":1},`+metaModern))
	for count := 0; count < 3; { // heartbeats may come in between
		if call.next() != ":" {
			count++
		}
	}
	if got := call.next(); got != ":" {
		t.Errorf("%q", got)
	}
	s.proceed <- struct{}{}
	eventually(t, "the answer", func() bool { return strings.Contains(call.next(), "result") })
}

// A body that is too large is rejected before it ends.
func TestEndlessBody(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, mcpserver.Options{MaxMessage: 1000})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", endless{})
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusRequestEntityTooLarge {
		t.Error(w.Code)
	}
}

// endless is a body without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
