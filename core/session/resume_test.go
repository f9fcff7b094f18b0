package session_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// callHandler is a server whose responses to tools/call, and to requests for event streams, are written by
// the test. id is the id of the call.
func callHandler(srv *sessiontest.Fake, call func(w http.ResponseWriter, r *http.Request, id string), get http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		switch {
		case r.Method == http.MethodGet:
			get(w, r)
		case bytes.Contains(body, []byte(`"tools/call"`)):
			_, after, _ := strings.Cut(string(body), `"id":`)
			id, _, _ := strings.Cut(after, ",")
			call(w, r, id)
		default:
			srv.ServeHTTP(w, r)
		}
	})
}

// A response whose event stream ends before it is requested again, after the last complete event and the
// delay that the server requests. If that fails, or the server did not number its events, the call fails.
func TestResponseIsResumed(t *testing.T) {
	const first = "retry: 3000\nid: event-1\ndata: \n\nid: event-2\n\nid: event-3\ndata: {\"jsonrpc\""
	for name, tt := range map[string]struct {
		modern  bool
		stream  string
		cut     bool
		refuse  bool
		resumed int64 // requests for the rest
		fails   string
	}{
		"closed":     {stream: first, resumed: 2},
		"cut":        {stream: first, cut: true, resumed: 2},
		"no ids":     {stream: "data: \n\n", fails: "the server closed the event stream before it sent the response"},
		"refused":    {stream: first, refuse: true, resumed: 1, fails: "the server closed the event stream before it sent the response"},
		"2026-07-28": {modern: true, stream: first, cut: true, fails: "the event stream was interrupted before the response: the connection was lost in the middle of the response"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var call atomic.Value // id of the call
				var gets atomic.Int64
				stream := func(w http.ResponseWriter, text string) {
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = io.WriteString(w, text)
					w.(http.Flusher).Flush()
				}
				s, _ := dialThrough(t, callHandler(newServer(!tt.modern, tt.modern), func(w http.ResponseWriter, _ *http.Request, id string) {
					call.Store(id)
					stream(w, tt.stream)
					if tt.cut {
						panic(http.ErrAbortHandler)
					}
				}, func(w http.ResponseWriter, r *http.Request) {
					switch after := r.Header.Get("Last-Event-ID"); {
					case after == "":
						http.Error(w, "no", http.StatusMethodNotAllowed)
					case r.Header.Get("Mcp-Session-Id") == "" || r.Header.Get("Mcp-Protocol-Version") == "":
						t.Errorf("%v", r.Header)
					case tt.refuse:
						gets.Add(1)
						http.Error(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Method not allowed"}}`, http.StatusMethodNotAllowed)
					case after == "event-2": // ends before the response, too
						gets.Add(1)
						stream(w, "id: event-4\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n")
					case after == "event-4":
						gets.Add(1)
						stream(w, fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[]}}\n\n", call.Load()))
					default:
						t.Errorf("resumed after %q", after)
					}
				}), httpEntry("http://server.test/mcp"), session.Options{})
				began := time.Now()
				_, err := s.CallTool(t.Context(), "x", nil)
				if (err == nil) != (tt.fails == "") || err != nil && err.Error() != `call tool "x": `+tt.fails {
					t.Errorf("%v", err)
				}
				// The second delay is the default, because the second stream has requested none.
				if want := []time.Duration{0, 3 * time.Second, 4 * time.Second}[tt.resumed]; gets.Load() != tt.resumed || time.Since(began) != want {
					t.Errorf("%d requests in %v, want %v", gets.Load(), time.Since(began), want)
				}
			})
		})
	}
}

// The session is the one of the response to initialize, whatever headers other responses have. Close
// deletes it, unless the server is gone.
func TestSessionHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(true, false)
		s, _ := dialThrough(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Mcp-Session-Id") != "" {
				w.Header().Set("Mcp-Session-Id", "another")
			}
			srv.ServeHTTP(w, r)
		}), httpEntry("http://server.test/mcp"), session.Options{Era: session.EraLegacy})
		for range 2 {
			if err := s.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		_ = s.Close()
		seen := srv.Wire()
		last, ping := seen[len(seen)-1], seen[len(seen)-2]
		if last.Method != "DELETE" || last.Header["Mcp-Session-Id"] == "" || last.Header["Mcp-Session-Id"] != ping.Header["Mcp-Session-Id"] || last.Header["Mcp-Protocol-Version"] != "2025-11-25" {
			t.Errorf("%+v after %+v", last, ping)
		}
	})
}

// A connection is used again after a response in an event stream, even if the server sends the end of the
// stream later; it is closed if the server leaves the stream open.
func TestConnectionIsReusedAfterAnEventStream(t *testing.T) {
	for name, wait := range map[string]time.Duration{"ends": 0, "ends later": 100 * time.Millisecond, "stays open": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var open atomic.Int64 // responses
				s, box := dialThrough(t, callHandler(newServer(false, true), func(w http.ResponseWriter, r *http.Request, id string) {
					open.Add(1)
					defer open.Add(-1)
					w.Header().Set("Content-Type", "text/event-stream")
					fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[]}}\n\n", id)
					w.(http.Flusher).Flush()
					backoff.Sleep(r.Context(), wait)
				}, http.NotFound), httpEntry("http://server.test/mcp"), session.Options{})
				before := box.Dialled()
				for range 3 {
					if _, err := s.CallTool(t.Context(), "x", nil); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Second)
				}
				if again := box.Dialled() - before; again > 0 != (wait > time.Second) || open.Load() > 0 {
					t.Errorf("%d connections, %d open streams", again, open.Load())
				}
			})
		})
	}
}

// Nobody waits long for the rest of a response that is not needed: to a notification or DELETE, to a call
// that was answered on the notification stream, or with an error.
func TestResponseThatStaysOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call := make(chan string, 1) // id of the call
		open := func(w http.ResponseWriter, text string) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, text)
			w.(http.Flusher).Flush()
		}
		calls := 0
		inner := callHandler(newServer(true, false), func(w http.ResponseWriter, r *http.Request, id string) {
			if calls++; calls == 2 {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			open(w, "")
			call <- id
		}, func(w http.ResponseWriter, r *http.Request) {
			open(w, "")
			select {
			case id := <-call:
				open(w, fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[]}}\n\n", id))
			case <-r.Context().Done():
			}
		})
		began := time.Now()
		s, _ := dialThrough(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			inner.ServeHTTP(w, r)
			if r.Method != http.MethodPost || bytes.Contains(body, []byte("notifications/")) || bytes.Contains(body, []byte("tools/call")) {
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			}
		}), httpEntry("http://server.test/mcp"), session.Options{})
		if _, err := s.CallTool(t.Context(), "x", nil); err != nil {
			t.Error(err)
		}
		if _, err := s.CallTool(t.Context(), "x", nil); err == nil || !strings.Contains(err.Error(), "500") {
			t.Errorf("%v", err)
		}
		_ = s.Close()
		if d := time.Since(began); d > 6*time.Second {
			t.Errorf("%v", d)
		}
	})
}

// The endpoint may be relative, absolute or sent again, and may have a query.
func TestSSEEndpoint(t *testing.T) {
	for endpoint, want := range map[string]string{
		"/messages?session=%s": "/messages", "?session=%s": "/deep/sse", "messages/?session=%s": "/deep/messages/", "http://server.test/x?session=%s": "/x",
	} {
		synctest.Test(t, func(t *testing.T) {
			srv := newServer(true, false)
			sse := srv.SSE()
			var posts atomic.Int64
			entry := httpEntry("http://server.test/deep/sse")
			entry.Transport = config.TransportSSE
			s, _ := dialThrough(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					posts.Add(1)
					if r.URL.Path != want {
						t.Errorf("%s: posted to %s", endpoint, r.URL.Path)
					}
					sse.ServeHTTP(w, r)
					return
				}
				sse.ServeHTTP(&endpointWriter{ResponseWriter: w, endpoint: endpoint}, r)
			}), entry, session.Options{})
			if err := s.Ping(t.Context()); err != nil || posts.Load() < 3 {
				t.Errorf("%s: %v", endpoint, err)
			}
		})
	}
}

// endpointWriter replaces the endpoint of a fake server.
type endpointWriter struct {
	http.ResponseWriter
	endpoint string
}

func (w *endpointWriter) Write(b []byte) (int, error) {
	if _, id, found := strings.Cut(string(b), "?session="); found {
		id, _, _ = strings.Cut(id, "\n")
		_, err := fmt.Fprintf(w.ResponseWriter, "event: endpoint\ndata: "+w.endpoint+"\n\n", id)
		return len(b), err
	}
	return w.ResponseWriter.Write(b)
}

func (w *endpointWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
