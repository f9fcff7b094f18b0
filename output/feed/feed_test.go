package feed

import (
	"context"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
)

// recorder is a ResponseWriter for synctest, where there is no network. After some writes its client
// stops reading: then writes block until their deadline.
type recorder struct {
	header http.Header

	mu       sync.Mutex
	writes   int // that still succeed
	text     strings.Builder
	deadline time.Time
	moved    chan struct{} // closed and replaced when the deadline changes
}

func (r *recorder) Header() http.Header { return r.header }
func (r *recorder) WriteHeader(int)     {}
func (r *recorder) FlushError() error   { return nil }
func (r *recorder) SetWriteDeadline(at time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deadline = at
	close(r.moved)
	r.moved = make(chan struct{})
	return nil
}

func (r *recorder) Write(b []byte) (int, error) {
	for {
		r.mu.Lock()
		if r.writes > 0 {
			defer r.mu.Unlock()
			r.writes--
			return r.text.Write(b)
		}
		left, moved := time.Until(r.deadline), r.moved
		r.mu.Unlock()
		if left <= 0 {
			return 0, os.ErrDeadlineExceeded
		}
		select {
		case <-time.After(left):
		case <-moved:
		}
	}
}

// take returns what was written since the last call.
func (r *recorder) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.text.Reset()
	return r.text.String()
}

const allWrites = math.MaxInt

// inBubble runs a hub inside a synctest bubble. The check opens streams, whose clients read some
// writes.
func inBubble(t *testing.T, h *Hub, check func(open func(path string, writes int) *recorder)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		if err := h.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	synctest.Wait() // the ring has all events
	check(func(path string, writes int) *recorder {
		rec := &recorder{header: http.Header{}, writes: writes, moved: make(chan struct{})}
		wg.Go(func() { routes(h).ServeHTTP(rec, httptest.NewRequestWithContext(ctx, "GET", path, nil)) })
		synctest.Wait()
		return rec
	})
	cancel()
}

// Only a client that asks for them receives descriptions, of stored and of live events.
func TestDescribed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newMemLog()
		l.append(updated("a", "x:1"))
		inBubble(t, New(Options{Log: l}), func(open func(string, int) *recorder) {
			plain, described := open("/events?since=earliest", allWrites), open("/events?since=earliest&described=1", allWrites)
			l.append(updated("a", "x:2"))
			time.Sleep(time.Second)
			synctest.Wait()
			text, want := described.take(), strings.ReplaceAll(plain.take(), "event: resource.updated\n", "")
			for _, uri := range []string{"x:1", "x:2"} {
				said := `,"description":{"verb":"updated","tone":"changed","subject":"` + uri + `"}`
				if strings.Count(text, said) != 1 {
					t.Errorf("no %s in %s", said, text)
				}
				text = strings.Replace(text, said, "", 1)
			}
			events := func(s string) string { return s[strings.Index(s, "id: "):] } // the retry before it is random
			if events(text) != events(want) {
				t.Errorf("%s, want %s", text, want)
			}
		})
	})
}

func TestFeedBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newMemLog()
		h := New(Options{Log: l})
		at := time.Date(2025, 11, 20, 19, 10, 1, 5e6, time.UTC)
		inBubble(t, h, func(open func(string, int) *recorder) {
			rec := open("/api/mcp/resource-events", allWrites)
			want := func(text string) {
				t.Helper()
				synctest.Wait()
				if got := rec.take(); got != text {
					t.Errorf("got  %q\nwant %q", got, text)
				}
			}
			// The clock of a bubble begins on 2000-01-01.
			want("retry: 5000\n\n" + `data: {"type":"handshake","status":"ready","timestamp":946684800000}` + "\n\n")
			e := updated("codex-tasks", "task://x?a=1&b=<2>")
			e.Timestamp = at
			l.append(e)
			want("id: " + testEpoch + "-1\n" +
				`data: {"type":"resource_update","serverId":"codex-tasks","resourceUri":"task://x?a=1&b=<2>","timestamp":1763665801005}` + "\n\n")
			time.Sleep(5 * time.Millisecond)
			l.append(
				event.Event{ServerID: "a", Timestamp: at, Payload: event.ListChanged{List: "resources", Error: "page 2: \"no\""}},
				event.Event{ServerID: "b", Timestamp: at, Payload: event.ServerState{State: event.Backoff, Error: "exit status 1"}},
				event.Event{ServerID: "c", Timestamp: at, Payload: event.ServerState{State: event.Unsupported}},
				event.Event{ServerID: "d", Timestamp: at, Payload: event.ServerState{State: event.Ready, Reason: event.NoResources}},
				event.Event{ServerID: "e", Timestamp: at, Payload: event.ServerState{State: event.Ready, Reason: "tracked in the legacy era"}},
				event.Event{ServerID: "d", Timestamp: at, Payload: event.ServerState{State: event.Ready}},
				event.Event{ServerID: "d", Timestamp: at, Payload: event.ListChanged{List: "tools", Error: "x"}},
				event.Event{ServerID: "d", ResourceURI: "u", Timestamp: at, Payload: event.ResourceAdded{}},
			)
			time.Sleep(5 * time.Millisecond) // the first one is shown immediately, the others after a tick
			want(`data: {"type":"resource_error","serverId":"a","timestamp":1763665801005,"reason":"refresh","error":"page 2: \"no\""}` + "\n\n" +
				`data: {"type":"resource_error","serverId":"b","timestamp":1763665801005,"reason":"refresh","error":"exit status 1"}` + "\n\n" +
				`data: {"type":"resource_error","serverId":"c","timestamp":1763665801005,"reason":"unsupported","error":"server does not support resources"}` + "\n\n" +
				`data: {"type":"resource_error","serverId":"d","timestamp":1763665801005,"reason":"unsupported","error":"the server does not offer resources"}` + "\n\n")
			time.Sleep(15*time.Second - 11*time.Millisecond)
			want("")
			time.Sleep(2 * time.Millisecond)
			want(": heartbeat\n\n")
			time.Sleep(45 * time.Second)
			want(strings.Repeat(": heartbeat\n\n", 3))
			l.close()
			synctest.Wait()
			if got := rec.take(); !regexp.MustCompile(`^data: \{"type":"tracker_stopped","timestamp":9466848\d{5}\}\n\n$`).MatchString(got) {
				t.Errorf("at the end: %q", got)
			}
			for name, value := range map[string]string{
				"Content-Type": "text/event-stream", "Cache-Control": "no-cache, no-transform", "Connection": "keep-alive",
				"X-Accel-Buffering": "no", "X-Reconnect-After": "5000",
			} {
				if got := rec.header.Get(name); got != value {
					t.Errorf("%s is %q", name, got)
				}
			}
		})
	})
}

func TestFeedHeadersOnTheWire(t *testing.T) {
	l := newMemLog()
	_, base := serve(t, Options{Log: l})
	s := connect(t, base, "/api/mcp/resource-events", "")
	h := s.res.Header
	if s.res.StatusCode != 200 || h.Get("Connection") != "keep-alive" || h.Get("X-Accel-Buffering") != "no" ||
		h.Get("Content-Type") != "text/event-stream" || h.Get("Content-Length") != "" {
		t.Errorf("%d %v", s.res.StatusCode, h)
	}
	if m := s.next(); m.event != "" || m.id != "" || s.p.retry != "5000" {
		t.Errorf("the handshake is %+v", m)
	}
}

func TestWritesAreCombinedUnderLoadAndImmediateAfterSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newMemLog()
		writes := 0
		h := New(Options{Log: l, Wrote: func(int, time.Time) { writes++ }})
		inBubble(t, h, func(open func(string, int) *recorder) {
			rec := open("/events", allWrites)
			l.append(updates(1)...)
			synctest.Wait() // no time passes
			if writes != 1 {
				t.Errorf("after silence: %d writes", writes)
			}
			time.Sleep(time.Second)
			writes = 0
			for range 1000 { // an event every 100 µs for 100 ms
				l.append(updates(1)...)
				time.Sleep(100 * time.Microsecond)
			}
			time.Sleep(5 * time.Millisecond)
			synctest.Wait()
			if writes < 20 || writes > 22 {
				t.Errorf("%d writes in 100 ms, want one every 5 ms", writes)
			}
			if n := strings.Count(rec.take(), "event: resource.updated\n"); n != 1001 {
				t.Errorf("%d events", n)
			}
		})
	})
}

func TestCheckpointsOfAFilteredClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newMemLog()
		h := New(Options{Log: l})
		inBubble(t, h, func(open func(string, int) *recorder) {
			rec := open("/events?server=s1", allWrites)
			var p parser
			step := func(d time.Duration) []message {
				time.Sleep(d)
				synctest.Wait()
				_, _ = p.Write([]byte(rec.take()))
				defer func() { p.messages = nil }()
				return p.messages
			}
			if m := step(0); len(m) != 1 || m[0].event != "checkpoint" || m[0].id != testEpoch+"-0" {
				t.Errorf("at first: %+v", m)
			}
			l.append(updates(5)...)
			if m := step(time.Second); len(m) != 1 || m[0].id != testEpoch+"-2" {
				t.Errorf("events: %+v", m)
			}
			m := step(15 * time.Second)
			if len(m) != 1 || m[0].event != "checkpoint" || m[0].id != testEpoch+"-5" || member(t, m[0], "seq") != 5.0 {
				t.Errorf("after a while: %+v", m)
			}
			if m := step(15 * time.Second); len(m) != 0 || p.comments != 2 {
				t.Errorf("when nothing happens: %+v, %d comments", m, p.comments)
			}
		})
	})
}

func TestRoutesRefuse(t *testing.T) {
	l := newMemLog()
	_, base := serve(t, Options{Log: l})
	status := func(method, path string) (int, string, http.Header) {
		req, err := http.NewRequestWithContext(t.Context(), method, base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer http.DefaultClient.CloseIdleConnections()
		defer res.Body.Close()
		if res.StatusCode == 200 {
			return 200, "", res.Header
		}
		text, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(text), res.Header
	}
	for _, path := range []string{"/events", "/api/mcp/resource-events"} {
		for _, method := range []string{"HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"} {
			if code, _, h := status(method, path); code != 405 || h.Get("Allow") != "GET" {
				t.Errorf("%s %s: %d", method, path, code)
			}
		}
	}
	for _, query := range []string{"since=yesterday", "since=-5s", "type=no.such", "server=[", "uri=" + strings.Repeat("a", 1025),
		"uri={a", strings.Repeat("uri=a&", 40), "types=resource.updated", "type=gap&Server=a", "server=%zz", "a;b"} {
		if code, text, _ := status("GET", "/events?"+query); code != 400 || !strings.HasPrefix(text, `{"error":"Bad query","details":"`) {
			t.Errorf("%.40s: %d %s", query, code, text)
		}
	}
	if _, text, _ := status("GET", "/events?srever=a"); text != `{"error":"Bad query","details":"unknown parameter \"srever\"; expected server, type, uri, since, lastEventId, described"}` {
		t.Error(text)
	}
	if code, text, _ := status("GET", "/api/mcp/resource-events?client=a&b=%zz"); code != 200 { // the feed ignores unknown parameters
		t.Errorf("the feed: %d %s", code, text)
	}
}
