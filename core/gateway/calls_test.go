package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/calls"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// Requests and results are forwarded unchanged.
func TestCallsAreForwardedUnchanged(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		a, b := w.Serve("a", era), w.Serve("b", era)
		a.SetList(catalog.Tools, tool("dig"))
		a.SetQuietly("file:///x", "x")
		b.SetQuietly("file:///x", "x")
		w.start(sessiontest.Entry("a"), sessiontest.Entry("b"))
		c := w.client(era)
		a.Fail(sessiontest.Fault{Method: "tools/call", Times: 1, Code: -32042, Message: "not <now>", Data: map[string]any{"big": json.Number("9007199254740993")}})
		_, err := w.do(c, "tools/call", `{"name":"a_dig"}`)
		e, ok := errors.AsType[*session.RPCError](err)
		if !ok || e.Code != -32042 || e.Message != "not <now>" || !strings.Contains(string(e.Data), "90071992547409") {
			w.Errorf("%#v", err)
		}
		a.Fail(sessiontest.Fault{Method: "tools/call", Times: 1, Result: map[string]any{
			"isError": true, "structuredContent": map[string]any{"n": json.Number("9007199254740993"), "uri": "file:///x"},
			"content": []any{
				map[string]any{"type": "text", "text": "<b>&"},
				map[string]any{"type": "resource_link", "name": "x", "uri": "file:///x"},
				map[string]any{"type": "resource", "resource": map[string]any{"uri": "file:///unlisted", "text": ""}},
			}}})
		raw, err := w.do(c, "tools/call", `{"name":"a_dig","arguments":{"n":9007199254740993,"s":"<"},"_meta":{"example.com/x":1}}`)
		for _, want := range []string{`"isError":true`, `9007199254740993`, `"uri":"file:///x"}`, `\u003cb\u003e`,
			`"uri":"mcptrack://server/a/file:///x"`, `"uri":"mcptrack://server/a/file:///unlisted"`} {
			if err != nil || !strings.Contains(raw, want) {
				w.Errorf("no %s in %s, %v", want, raw, err)
			}
		}
		sent := w.last("a", "tools/call")
		if string(sent["arguments"]) != `{"n":9007199254740993,"s":"<"}` && string(sent["arguments"]) != `{"n":9007199254740993,"s":"\u003c"}` {
			w.Errorf("arguments %s", sent["arguments"])
		}
		if !strings.Contains(string(sent["_meta"]), `"example.com/x":1`) {
			w.Errorf("_meta %s", sent["_meta"])
		}
		a.SetList(catalog.Prompts, map[string]any{"name": "ask"})
		a.NotifyListChanged(catalog.Prompts)
		w.advance(time.Second)
		a.Fail(sessiontest.Fault{Method: "prompts/get", Times: 1, Result: map[string]any{"messages": []any{
			map[string]any{"role": "user", "content": map[string]any{"type": "resource", "resource": map[string]any{"uri": "file:///x", "text": ""}}}}}})
		if raw, err := w.do(c, "prompts/get", `{"name":"a_ask"}`); err != nil || !strings.Contains(raw, `"uri":"mcptrack://server/a/file:///x"`) {
			w.Errorf("%s, %v", raw, err)
		}
		// A call to a server that dies meanwhile is not repeated.
		a.Fail(sessiontest.Fault{Method: "tools/call", Silent: true})
		before := a.Count("tools/call")
		go func() {
			synctest.Wait()
			a.Disconnect()
		}()
		if _, err := w.do(c, "tools/call", `{"name":"a_dig"}`); err == nil || !strings.Contains(err.Error(), "server a") {
			w.Errorf("%v", err)
		}
		if n := a.Count("tools/call") - before; n != 1 {
			w.Errorf("called %d times", n)
		}
	})
}

// Requests that wait for a server that hangs do not delay requests to others.
func TestHungServerDelaysNoOther(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		hung, good := w.Serve("hung", era), w.Serve("good", era)
		hung.SetList(catalog.Tools, tool("dig"))
		good.SetList(catalog.Tools, tool("fill"))
		w.start(sessiontest.Entry("hung"), sessiontest.Entry("good"))
		hung.Fail(sessiontest.Fault{Method: "tools/call", Silent: true})
		c := w.client(era)
		ctx, cancel := context.WithCancel(w.Context())
		var calls sync.WaitGroup
		for range maxPending {
			calls.Go(func() {
				_, _ = c.Do(ctx, session.Request{Method: "tools/call", Params: map[string]json.RawMessage{"name": quote("hung_dig")}})
			})
		}
		synctest.Wait()
		if n := hung.Count("tools/call"); n != maxPerServer {
			w.Errorf("%d calls are in progress", n)
		}
		began := time.Now()
		if _, err := w.do(c, "tools/call", `{"name":"good_fill"}`); err != nil || time.Since(began) > time.Second {
			w.Errorf("%v after %v", err, time.Since(began))
		}
		if _, err := w.do(c, "tools/call", `{"name":"hung_dig"}`); err == nil || !strings.Contains(err.Error(), "server hung is busy") {
			w.Errorf("a request above the limit: %v", err)
		}
		cancel()
		calls.Wait()
		hung.Heal()
		w.advance(time.Second)
		if _, err := w.do(c, "tools/call", `{"name":"hung_dig"}`); err != nil {
			w.Errorf("afterwards: %v", err)
		}
		if n := len(w.gateway.limits.byServer); n != 0 {
			w.Errorf("%d limits are left", n)
		}
	})
}

// Progress is sent to the client with its own token, in order and before the answer.
func TestProgressIsForwarded(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		docs := w.Serve("docs", era)
		docs.SetList(catalog.Tools, tool("slow"))
		w.start(sessiontest.Entry("docs"))
		c := w.client(era)
		docs.Fail(sessiontest.Fault{Method: "tools/call", Delay: 15 * time.Minute})
		var got []session.Progress
		done := make(chan error, 1)
		go func() {
			_, err := c.Do(w.Context(), session.Request{Method: "tools/call", Timeout: time.Hour,
				Params:   map[string]json.RawMessage{"name": quote("slow")},
				Progress: func(p session.Progress) { got = append(got, p) }})
			done <- err
		}()
		synctest.Wait()
		var meta struct{ ProgressToken any }
		if err := json.Unmarshal(w.last("docs", "tools/call")["_meta"], &meta); err != nil || meta.ProgressToken == nil {
			w.Fatalf("%v %+v", err, meta)
		}
		for i := 1; i <= 2; i++ { // beyond the 10 minutes that a silent call may take
			w.advance(6 * time.Minute)
			docs.Broadcast(map[string]any{"jsonrpc": "2.0", "method": "notifications/progress",
				"params": map[string]any{"progressToken": meta.ProgressToken, "progress": i, "total": 3, "message": "at it"}})
			synctest.Wait()
			if len(got) != i {
				w.Errorf("progress %+v", got)
			}
		}
		if err := <-done; err != nil {
			w.Error(err)
		}
		if !slices.Equal(got, []session.Progress{{Progress: 1, Total: 3, Message: "at it"}, {Progress: 2, Total: 3, Message: "at it"}}) {
			w.Errorf("progress %+v", got)
		}
	})
}

// A client that cancels, and a gateway that ends, cancel the request at the server. The record has no code, because nobody
// received one.
func TestCancellationIsForwarded(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		r := new(record)
		w.opts.Called = r.called
		docs := w.Serve("docs", era)
		docs.SetList(catalog.Tools, tool("slow"))
		w.start(sessiontest.Entry("docs"))
		docs.Fail(sessiontest.Fault{Method: "tools/call", Silent: true})
		for n, leave := range []func(cancel context.CancelFunc){
			func(cancel context.CancelFunc) { cancel() },
			func(context.CancelFunc) { w.gateway.Close() },
		} {
			c := w.client(era)
			ctx, cancel := context.WithCancel(w.Context())
			defer cancel()
			done := make(chan error, 1)
			go func() {
				_, err := c.Do(ctx, session.Request{Method: "tools/call", Params: map[string]json.RawMessage{"name": quote("slow")}})
				done <- err
			}()
			synctest.Wait()
			leave(cancel)
			if err := <-done; err == nil {
				w.Error("answered")
			}
			w.advance(5 * time.Second)
			if got := docs.Count("notifications/cancelled"); got != n+1 {
				w.Errorf("%d cancellations, want %d", got, n+1)
			}
			if all := r.take(); len(all) != 1 || all[0].Outcome != calls.Error || all[0].Code != 0 {
				w.Errorf("recorded: %+v", all)
			}
		}
	})
}

func TestCallTimeout(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		w.opts.CallTimeout = 7 * time.Second
		docs := w.Serve("docs", era)
		docs.SetList(catalog.Tools, tool("slow"))
		w.start(sessiontest.Entry("docs"))
		docs.Fail(sessiontest.Fault{Method: "tools/call", Silent: true})
		began := time.Now()
		_, err := w.do(w.client(era), "tools/call", `{"name":"slow"}`)
		if e, ok := errors.AsType[*session.RPCError](err); !ok || e.Code != mcp.CodeInternal || time.Since(began) != 7*time.Second {
			w.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// Arguments of prompts and templates are completed by their server.
func TestCompletion(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		for _, id := range []string{"a", "b"} {
			s := w.Serve(id, era)
			s.SetList(catalog.Prompts, map[string]any{"name": "ask"})
			s.SetList(catalog.Templates, map[string]any{"name": "t", "uriTemplate": "x:{y}"})
			s.Fail(sessiontest.Fault{Method: "completion/complete", Result: map[string]any{"completion": map[string]any{"values": []any{id}}}})
		}
		w.start(sessiontest.Entry("a"), sessiontest.Entry("b"))
		c := w.client(era)
		for _, tt := range []struct{ ref, want string }{
			{`{"type":"ref/prompt","name":"b_ask"}`, `{"name":"ask","type":"ref/prompt"}`},
			{`{"type":"ref/resource","uri":"mcptrack://server/b/x:{y}"}`, `{"type":"ref/resource","uri":"x:{y}"}`},
		} {
			raw, err := w.do(c, "completion/complete", `{"ref":`+tt.ref+`,"argument":{"name":"y","value":"v"},"context":{"arguments":{"z":"1"}}}`)
			sent := w.last("b", "completion/complete")
			if err != nil || !strings.Contains(raw, `"values":["b"]`) || string(sent["ref"]) != tt.want ||
				string(sent["argument"]) != `{"name":"y","value":"v"}` || string(sent["context"]) != `{"arguments":{"z":"1"}}` {
				w.Errorf("%s: %s, %v; sent %s", tt.ref, raw, err, sent)
			}
		}
		for _, ref := range []string{`{"type":"ref/prompt","name":"ask"}`, `{"type":"ref/other"}`, `7`, `{"type":"ref/resource"}`} {
			if raw, err := w.do(c, "completion/complete", `{"ref":`+ref+`,"argument":{"name":"y","value":"v"}}`); err == nil {
				w.Errorf("%s: %s", ref, raw)
			}
		}
	})
}

// A missing resource is reported with the code of the client's era, whatever the server's era.
func TestMissingResourceAcrossEras(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		w.Serve("docs", era).SetQuietly("file:///a", "x")
		w.Serve("more", era)
		w.start(sessiontest.Entry("docs"), sessiontest.Entry("more"))
		for client, want := range map[session.Era]int{session.EraLegacy: mcp.CodeResourceNotFound, session.EraModern: mcp.CodeInvalidParams} {
			uri := "mcptrack://server/docs/file:///none"
			_, err := w.do(w.client(client), "resources/read", `{"uri":"`+uri+`"}`)
			e, ok := errors.AsType[*session.RPCError](err)
			if !ok || e.Code != want || string(e.Data) != `{"uri":"`+uri+`"}` {
				w.Errorf("%s: %#v", client, err)
			}
		}
	})
}

// restarting is the HTTP server "docs", whose process can be replaced by a new one.
type restarting struct {
	*fixture
	era     session.Era
	network atomic.Pointer[sessiontest.Middlebox]
	process *sessiontest.Fake
	stop    func() // ends the process between requests: connections are closed, sessions forgotten
}

// inRestarting runs the test with a server that is up.
func inRestarting(t *testing.T, test func(r *restarting, c *session.Session)) {
	t.Helper()
	inEras(t, func(w *fixture, era session.Era) {
		r := &restarting{fixture: w, era: era}
		r.restart()
		w.Cleanup(func() { r.stop() })
		w.dial = func(ctx context.Context, srv config.Server, opts session.Options) (*session.Session, error) {
			opts.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
				return r.network.Load().DialContext(ctx, network, addr)
			}
			return session.Dial(ctx, srv, opts)
		}
		w.start(sessiontest.Entry("docs", func(s *config.Server) {
			s.Transport, s.URL, s.Command = config.TransportHTTP, config.NewSecret("http://docs.test/"), ""
		}))
		test(r, w.client(era))
	})
}

func (r *restarting) restart() {
	r.process = sessiontest.New()
	r.process.Legacy, r.process.Modern = r.era == session.EraLegacy, r.era == session.EraModern
	r.process.SetList(catalog.Tools, tool("dig"))
	r.process.SetQuietly("file:///a", "text")
	network := sessiontest.NewMiddlebox()
	r.network.Store(network)
	r.stop = network.Serve(r.process)
}

// An HTTP server that restarts within the grace period fails no call that begins meanwhile, and
// no call runs twice.
func TestRestartWithinGrace(t *testing.T) {
	inRestarting(t, func(r *restarting, c *session.Session) {
		r.stop()
		synctest.Wait()
		var calls sync.WaitGroup
		for i := range 8 {
			calls.Go(func() {
				method, params := "tools/call", `{"name":"dig","arguments":{}}`
				if i%4 == 0 {
					method, params = "resources/read", `{"uri":"file:///a"}`
				}
				time.Sleep(time.Duration(i) * 50 * time.Millisecond) // before, at and after the return
				if _, err := r.do(c, method, params); err != nil {
					r.Errorf("call %d: %s: %v", i, method, err)
				}
			})
		}
		time.Sleep(200 * time.Millisecond)
		r.restart()
		calls.Wait()
		if n := r.process.Count("tools/call"); n != 6 {
			r.Errorf("tools were called %d times", n)
		}
	})
}

// A call whose answer is lost with the connection is not repeated, and the client learns
// that it may have been processed.
func TestInterruptedCall(t *testing.T) {
	inRestarting(t, func(r *restarting, c *session.Session) {
		r.process.Fail(sessiontest.Fault{Method: "tools/call", Silent: true})
		failed := make(chan error, 1)
		go func() {
			_, err := r.do(c, "tools/call", `{"name":"dig"}`)
			failed <- err
		}()
		synctest.Wait()
		if n := r.process.Count("tools/call"); n != 1 {
			r.Errorf("%d calls are in progress", n)
		}
		r.stop()
		r.restart()
		if err := <-failed; err == nil || !strings.Contains(err.Error(), "may have been processed") {
			r.Error(err)
		}
		r.advance(time.Minute)
		if n := r.process.Count("tools/call"); n != 0 {
			r.Errorf("it was repeated %d times", n)
		}
	})
}
