package session_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// A stream that could not be opened for the moment is requested again; one that the server
// refuses is not.
func TestFirstStreamIsRetried(t *testing.T) {
	for name, tt := range map[string]struct {
		fail  http.HandlerFunc
		again bool
	}{
		"unavailable":   {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "later", http.StatusServiceUnavailable) }, true},
		"bad gateway":   {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "later", http.StatusBadGateway) }, true},
		"too many":      {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "later", http.StatusTooManyRequests) }, true},
		"broken off":    {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, true},
		"not allowed":   {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusMethodNotAllowed) }, false},
		"not a stream":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }, false},
		"not supported": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusNotImplemented) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer(true, false)
				var gets atomic.Int32
				box := sessiontest.NewMiddlebox()
				stop := box.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodGet && gets.Add(1) <= 2 {
						tt.fail(w, r)
						return
					}
					srv.ServeHTTP(w, r)
				}))
				defer stop()
				s, err := session.Dial(t.Context(), httpEntry("http://server/mcp"), session.Options{DialContext: box.DialContext})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				if s.Info().Push {
					t.Error("the server can push before the stream is open")
				}
				time.Sleep(time.Minute)
				b := s.Signals().Take()
				if push := s.Info().Push; push != tt.again || (b.Gap != "") != tt.again || s.Err() != nil {
					t.Errorf("after %d requests: push %v, gap %q, %v", gets.Load(), push, b.Gap, s.Err())
				}
				if n := gets.Load(); !tt.again && n != 1 {
					t.Errorf("a refused stream was requested %d times", n)
				}
			})
		})
	}
}
