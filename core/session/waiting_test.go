package session_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// malformed are errors that the transports cannot decode.
func malformed() []string {
	return []string{`{"code":1.5,"message":"x"}`, `{"code":"E1","message":"x"}`, `{"code":-1,"message":{"a":1}}`, `7`,
		fmt.Sprintf(`{"code":"E1","message":%q}`, strings.Repeat("long ", 2000))}
}

func isMalformed(err error) bool {
	e, ok := errors.AsType[*session.RPCError](err)
	return ok && e.Code == -32603 && strings.HasPrefix(e.Message, "malformed error response: ") && len(e.Message) < 1100
}

// A malformed answer is an answer: its request must not hang.
func TestMalformedErrorOverStdio(t *testing.T) {
	eachEra(t, func(t *testing.T, srv *sessiontest.Fake, s *session.Session) {
		for _, raw := range malformed() {
			srv.Fail(sessiontest.Fault{Method: "tools/call", Error: json.RawMessage(raw), Times: 1})
			start := time.Now()
			_, err := s.CallTool(t.Context(), "x", nil)
			if !isMalformed(err) || time.Since(start) > 0 {
				t.Errorf("%.40s: %v after %v", raw, err, time.Since(start))
			}
		}
		if _, err := s.CallTool(t.Context(), "x", nil); err != nil {
			t.Errorf("the next call: %v", err)
		}
		synctest.Wait()
		if n := srv.Count("notifications/cancelled"); n != 0 {
			t.Errorf("%d cancelled, though answered", n)
		}
	})
}

func TestMalformedErrorOverSSE(t *testing.T) {
	srv := newServer(true, false)
	entry := config.Server{Transport: config.TransportSSE, URL: config.NewSecret(listenOn(t, srv.SSE()).URL), RequestTimeout: 5 * time.Second}
	s := dial(t, entry, session.Options{})
	for _, raw := range malformed() {
		srv.Fail(sessiontest.Fault{Method: "tools/call", Error: json.RawMessage(raw), Times: 1})
		if _, err := s.CallTool(t.Context(), "x", nil); !isMalformed(err) {
			t.Errorf("%.40s: %v", raw, err)
		}
	}
}

// Streamable HTTP may answer in an event stream, and leave it open.
func TestMalformedErrorInAnEventStream(t *testing.T) {
	srv := newServer(true, false)
	next := make(chan string, 1) // the error of the next call; never closed
	ts := listenOn(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if _ = json.Unmarshal(body, &m); m.Method != "tools/call" {
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			srv.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":%s}\n\n", m.ID, <-next)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	entry := httpEntry(ts.URL)
	entry.RequestTimeout = 5 * time.Second
	s := dial(t, entry, session.Options{})
	for _, raw := range malformed() {
		next <- raw
		if _, err := s.CallTool(t.Context(), "x", nil); !isMalformed(err) {
			t.Errorf("%.40s: %v", raw, err)
		}
	}
}
