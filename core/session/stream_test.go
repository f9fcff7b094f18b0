package session_test

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// through connects to a server over HTTP through a middlebox. Call it in a synctest bubble.
func through(t *testing.T, handler http.Handler) (*session.Session, *sessiontest.Middlebox) {
	t.Helper()
	return dialThrough(t, handler, httpEntry("http://server.test/mcp"), session.Options{})
}

func dialThrough(t *testing.T, handler http.Handler, entry config.Server, opts session.Options) (*session.Session, *sessiontest.Middlebox) {
	t.Helper()
	box := sessiontest.NewMiddlebox()
	stop := box.Serve(handler)
	opts.DialContext = box.DialContext
	s, err := session.Dial(t.Context(), entry, opts)
	if err != nil {
		stop()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Close()
		stop()
	})
	return s, box
}

func eachHTTPEra(t *testing.T, test func(t *testing.T, srv *sessiontest.Fake)) {
	t.Helper()
	for name, legacy := range map[string]bool{"legacy": true, "modern": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, newServer(legacy, !legacy)) })
		})
	}
}

// streams returns how many streams the client has opened.
func streams(srv *sessiontest.Fake) int {
	return srv.Count("GET") + srv.Count("subscriptions/listen")
}

// A stream that a middlebox dropped is recognised by its silence and replaced.
func TestSilentStreamIsReplaced(t *testing.T) {
	eachHTTPEra(t, func(t *testing.T, srv *sessiontest.Fake) {
		s, box := through(t, srv)
		mustSubscribe(t, s, all)
		time.Sleep(10 * time.Second)
		box.Forget()
		srv.Set("test://a", "lost on the dead stream")
		began := time.Now()
		time.Sleep(30 * time.Second)
		b := collect(t, s, func(b session.Dirty) bool { return b.Gap != "" })
		if took := time.Since(began); took > 46*time.Second || len(b.URIs) > 0 {
			t.Errorf("after %v: %+v", took, b)
		}
		mustSubscribe(t, s, all) // the gap requires it
		time.Sleep(time.Second)
		srv.Set("test://a", "new")
		collect(t, s, func(b session.Dirty) bool { return b.URIs["test://a"].Count == 1 })
		if n := streams(srv); n != 2 {
			t.Errorf("%d streams", n)
		}
		if err := s.Ping(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A healthy server without news sees one new stream per 45 s, and nothing is signalled twice.
func TestQuietServerSeesFewStreams(t *testing.T) {
	eachHTTPEra(t, func(t *testing.T, srv *sessiontest.Fake) {
		s, _ := through(t, srv)
		mustSubscribe(t, s, all)
		for range 20 {
			time.Sleep(30 * time.Second)
			if b := s.Signals().Take(); b.Gap != "" && !b.Silent {
				t.Errorf("gap: %s", b.Gap)
			}
			mustSubscribe(t, s, all)
		}
		if n := streams(srv); n < 10 || n > 1+600/45 {
			t.Errorf("%d streams in 10 min", n)
		}
		if n := srv.Count("resources/subscribe"); n > len(all.URIs) {
			t.Errorf("%d subscribe requests: the session was never lost", n)
		}
		time.Sleep(time.Second) // a replaced stream still delivers for a moment
		srv.Set("test://a", "new")
		synctest.Wait()
		if b := s.Signals().Take(); b.URIs["test://a"].Count != 1 {
			t.Errorf("%+v", b)
		}
	})
}

// getHandler is a legacy server whose GET stream is served by the test.
func getHandler(srv *sessiontest.Fake, get http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			get(w, r)
			return
		}
		srv.ServeHTTP(w, r)
	})
}

// openStream answers a GET and writes the frame immediately and after each interval.
func openStream(w http.ResponseWriter, r *http.Request, frame string, interval time.Duration) {
	w.Header().Set("Content-Type", "text/event-stream")
	for r.Context().Err() == nil {
		_, _ = io.WriteString(w, frame)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-time.After(interval):
		case <-r.Context().Done():
		}
	}
}

// Comments that keep a stream alive are signs of life.
func TestCommentsKeepAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var opened atomic.Int64
		s, _ := through(t, getHandler(newServer(true, false), func(w http.ResponseWriter, r *http.Request) {
			opened.Add(1)
			openStream(w, r, ": here\n\n", 44*time.Second)
		}))
		time.Sleep(10 * time.Minute)
		if b := s.Signals().Take(); b.Gap != "" || opened.Load() != 1 {
			t.Errorf("%d streams, gap %q", opened.Load(), b.Gap)
		}
	})
}

// A replaced stream resumes after the last event of the old one.
func TestReplacedStreamIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resumed := make(chan string, 10) // the Last-Event-ID of each GET; never closed
		s, _ := through(t, getHandler(newServer(true, false), func(w http.ResponseWriter, r *http.Request) {
			resumed <- r.Header.Get("Last-Event-ID")
			openStream(w, r, "id: event-7\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n", time.Hour)
		}))
		time.Sleep(50 * time.Second)
		if first, second := <-resumed, <-resumed; first != "" || second != "event-7" {
			t.Errorf("%q, %q", first, second)
		}
		if b := s.Signals().Take(); !b.Silent {
			t.Errorf("%+v", b)
		}
	})
}

// If a server allows only one stream, the silent one is closed first. If the server does not notice
// that, the session ends, so that another one can begin.
func TestSilentStreamOfServerThatAllowsOne(t *testing.T) {
	for name, dead := range map[string]bool{"quiet": false, "dead": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var active, opened atomic.Int64
				s, box := through(t, getHandler(newServer(true, false), func(w http.ResponseWriter, r *http.Request) {
					if active.Add(1) > 1 {
						active.Add(-1)
						http.Error(w, "only one stream", http.StatusConflict)
						return
					}
					opened.Add(1)
					openStream(w, r, "", time.Hour)
					active.Add(-1)
				}))
				if dead {
					box.Forget()
				}
				time.Sleep(50 * time.Second)
				switch err := s.Err(); {
				case dead && err == nil:
					t.Error("the session continues without a stream")
				case !dead && (err != nil || opened.Load() != 2 || s.Signals().Take().Gap == ""):
					t.Errorf("%v, %d streams", err, opened.Load())
				}
			})
		})
	}
}

// A stream that temporarily cannot be opened is requested again; a stream that the server refuses
// is not.
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
				s, _ := through(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodGet && gets.Add(1) <= 2 {
						tt.fail(w, r)
						return
					}
					srv.ServeHTTP(w, r)
				}))
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
