package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// restarting is an HTTP server whose process can be replaced by a new one at its address.
type restarting struct {
	testing.TB
	modern bool
	addr   string
	http   *http.Server
	mcp    *sessiontest.Fake
	served sync.WaitGroup
	calls  atomic.Int64 // tool calls that were processed, by all processes
}

// serve counts the tool calls that are answered with a result.
func (r *restarting) serve(mcp *sessiontest.Fake, w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	q.Body = io.NopCloser(bytes.NewReader(body))
	status := &statusWriter{ResponseWriter: w, status: http.StatusOK}
	mcp.ServeHTTP(status, q)
	if bytes.Contains(body, []byte(`"tools/call"`)) && status.status == http.StatusOK {
		r.calls.Add(1)
	}
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
func (w *statusWriter) Flush()                      { _ = http.NewResponseController(w.ResponseWriter).Flush() }

func (r *restarting) start() {
	r.Helper()
	r.mcp = sessiontest.New()
	r.mcp.Legacy, r.mcp.Modern = !r.modern, r.modern
	r.mcp.SetList(catalog.Tools, tool("dig"))
	r.mcp.SetQuietly("file:///a", "text")
	var ln net.Listener
	var err error
	for range 100 { // the port may not be free yet
		if ln, err = net.Listen("tcp", r.addr); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		r.Fatal(err)
	}
	r.addr = ln.Addr().String()
	mcp := r.mcp
	handler := func(w http.ResponseWriter, q *http.Request) { r.serve(mcp, w, q) }
	r.http = &http.Server{Handler: http.HandlerFunc(handler), ReadHeaderTimeout: 10 * time.Second}
	srv := r.http
	r.served.Go(func() { _ = srv.Serve(ln) })
}

// stop ends the process between requests: connections are closed, sessions forgotten.
func (r *restarting) stop() {
	_ = r.http.Close()
	r.served.Wait()
}

// An HTTP server that restarts within the grace period fails no call that begins
// meanwhile, and no call runs twice.
func TestQuickRestart(t *testing.T) {
	t.Parallel()
	for _, era := range []session.Era{session.EraLegacy, session.EraModern} {
		t.Run(string(era), func(t *testing.T) {
			t.Parallel()
			r := &restarting{TB: t, modern: era == session.EraModern, addr: "127.0.0.1:0"}
			r.start()
			o := newOutside(t, Options{}, sessiontest.Entry("docs", func(s *config.Server) {
				s.Transport, s.URL, s.Command = config.TransportHTTP, config.NewSecret("http://"+r.addr), ""
			}))
			c := o.client(era, nil)
			t.Cleanup(func() { r.stop() })
			r.stop()
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) { // a call on a dead connection may have run
				if st, _ := o.gateway.tracker.Snapshot().Server("docs"); st.State != event.Ready {
					break
				}
				if time.Now().After(deadline) {
					t.Fatal("the end was not noticed")
				}
			}
			var calls sync.WaitGroup
			for i := range 8 {
				calls.Go(func() {
					method, params := "tools/call", `{"name":"dig","arguments":{}}`
					if i%4 == 0 {
						method, params = "resources/read", `{"uri":"file:///a"}`
					}
					time.Sleep(time.Duration(i) * 50 * time.Millisecond) // before, at and after the return
					var p map[string]json.RawMessage
					_ = json.Unmarshal([]byte(params), &p)
					if _, err := c.Do(t.Context(), session.Request{Method: method, Params: p}); err != nil {
						t.Errorf("call %d: %s: %v", i, method, err)
					}
				})
			}
			time.Sleep(200 * time.Millisecond)
			r.start()
			calls.Wait()
			if n := r.calls.Load(); n != 6 {
				t.Errorf("tools were called %d times", n)
			}
		})
	}
}

// A call whose answer is lost with the connection is not repeated, and the client learns
// that it may have been processed.
func TestInterruptedCall(t *testing.T) {
	t.Parallel()
	r := &restarting{TB: t, modern: true, addr: "127.0.0.1:0"}
	r.start()
	o := newOutside(t, Options{}, sessiontest.Entry("docs", func(s *config.Server) {
		s.Transport, s.URL, s.Command = config.TransportHTTP, config.NewSecret("http://"+r.addr), ""
	}))
	c := o.client(session.EraModern, nil)
	r.mcp.Fail(sessiontest.Fault{Method: "tools/call", Silent: true})
	failed := make(chan error, 1)
	go func() {
		_, err := c.Do(t.Context(), session.Request{Method: "tools/call", Params: map[string]json.RawMessage{"name": json.RawMessage(`"dig"`)}})
		failed <- err
	}()
	o.eventually("the call is in progress", func() bool { return r.mcp.Count("tools/call") == 1 })
	r.stop()
	r.start()
	defer r.stop()
	if err := <-failed; err == nil || !strings.Contains(fmt.Sprint(err), "may have been processed") {
		t.Error(err)
	}
	if n := r.mcp.Count("tools/call"); n != 0 {
		t.Errorf("it was repeated %d times", n)
	}
}
