package session_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// Progress of any request reaches the caller that asked for it with the context, and extends the
// request beyond its timeout; progress that does not increase does not.
func TestWithProgress(t *testing.T) {
	inEachEra(t, func(t *testing.T, srv *sessiontest.Fake, s *session.Session) {
		srv.Fail(sessiontest.Fault{Method: "tools/call", Silent: true})
		var reports []float64
		began := time.Now()
		var ended time.Duration
		done := make(chan error, 1) // the call's, sent once
		go func() {
			ctx := session.WithProgress(t.Context(), func(p session.Progress) { reports = append(reports, p.Progress) })
			_, err := s.CallTool(ctx, "slow", nil)
			ended = time.Since(began)
			done <- err
		}()
		synctest.Wait()
		_, params := lastCall(t, srv, "tools/call")
		var meta struct{ ProgressToken int }
		if err := json.Unmarshal(params["_meta"], &meta); err != nil || meta.ProgressToken == 0 {
			t.Fatalf("_meta %s: %v", params["_meta"], err)
		}
		for _, n := range []float64{0, 1, 2, 2, 1} {
			wait(t, 20*time.Second) // each within the timeout of 30 s
			srv.Broadcast(map[string]any{"jsonrpc": "2.0", "method": "notifications/progress",
				"params": map[string]any{"progressToken": meta.ProgressToken, "progress": n}})
			synctest.Wait()
		}
		if err := <-done; err == nil || ended != 90*time.Second { // 30 s after the last increase
			t.Errorf("%v after %v", err, ended)
		}
		if !slices.Equal(reports, []float64{0, 1, 2}) {
			t.Errorf("reports %v", reports)
		}
		synctest.Wait()
		if srv.Count("notifications/cancelled") != 1 {
			t.Errorf("%d cancelled", srv.Count("notifications/cancelled"))
		}
	})
}

// An interrupted call is cancelled on the server even if the session is closed immediately.
func TestCancelledBeforeClosed(t *testing.T) {
	for _, modern := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			srv := newServer(!modern, modern)
			srv.Fail(sessiontest.Fault{Method: "tools/call", Silent: true})
			s := over(t, srv, config.Server{}, session.Options{OneShot: true})
			ctx, interrupt := context.WithCancelCause(t.Context())
			interrupted := errors.New("interrupted")
			time.AfterFunc(time.Second, func() { interrupt(interrupted) })
			_, err := s.CallTool(ctx, "slow", nil)
			_ = s.Close()
			if !errors.Is(err, interrupted) {
				t.Errorf("the call ended with %v", err)
			}
			synctest.Wait()
			id, _ := lastCall(t, srv, "tools/call")
			_, params := lastCall(t, srv, "notifications/cancelled")
			if string(params["requestId"]) != string(id) {
				t.Errorf("cancelled %s, called %s", params["requestId"], id)
			}
		})
	}
}

// The same holds over HTTP, where closing the request means nothing in the legacy era.
func TestCancelledBeforeClosedHTTP(t *testing.T) {
	srv := newServer(true, false)
	srv.Fail(sessiontest.Fault{Method: "tools/call", Silent: true})
	s := dial(t, httpEntry(listenOn(t, srv).URL), session.Options{OneShot: true})
	ctx, interrupt := context.WithCancel(t.Context())
	done := make(chan struct{}) // closed at the end of the test
	go func() {
		defer close(done)
		_, _ = s.CallTool(ctx, "slow", nil)
		_ = s.Close()
	}()
	eventually(t, "the call", func() bool { return srv.Count("tools/call") == 1 })
	interrupt()
	<-done
	if n := srv.Count("notifications/cancelled"); n != 1 {
		t.Errorf("%d cancellations when the session was closed", n)
	}
}

// The error names what the server asks, sanitized.
func TestInputRequired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(false, true)
		srv.Fail(sessiontest.Fault{Method: "resources/read", Result: map[string]any{"resultType": "input_required", "inputRequests": map[string]any{
			"b": map[string]any{"method": "roots/list"},
			"a": map[string]any{"method": "elicitation/create", "params": map[string]any{"message": "Which\nbranch? \x1b[31m hunter2secret"}},
			"c": "nonsense",
		}}})
		srv.Fail(sessiontest.Fault{Method: "tools/call", Result: map[string]any{"resultType": "input_required", "inputRequests": 7}})
		s := over(t, srv, config.Server{Program: config.Program{Env: map[string]config.Secret{"KEY": config.NewSecret("hunter2secret")}}}, session.Options{})
		_, err := s.Read(t.Context(), "file:///a")
		e, ok := errors.AsType[*session.InputRequiredError](err)
		if !ok || e.Method != "resources/read" || len(e.Asked) != 2 || !strings.HasPrefix(e.Asked[0], "elicitation/create (Which") || e.Asked[1] != "roots/list" {
			t.Fatalf("%#v", err)
		}
		text := err.Error()
		if !strings.Contains(text, "elicitation/create (Which") || strings.ContainsAny(text, "\n\x1b") || strings.Contains(text, "hunter2secret") {
			t.Errorf("%q", text)
		}
		if _, err = s.CallTool(t.Context(), "t", nil); err == nil || !strings.HasSuffix(err.Error(), "input that mcptrack cannot provide") {
			t.Errorf("%v", err)
		}
	})
}

func TestComplete(t *testing.T) {
	inEachEra(t, func(t *testing.T, srv *sessiontest.Fake, s *session.Session) {
		_, err := s.Complete(t.Context(), session.Reference{Prompt: "p"}, "a", "", nil)
		if !errors.Is(err, session.ErrUnsupported) || srv.Count("completion/complete") != 0 {
			t.Errorf("without the capability: %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(true, true)
		srv.Capabilities["completions"] = map[string]any{}
		many := slices.Repeat([]string{"x"}, 150)
		srv.Fail(sessiontest.Fault{Method: "completion/complete", Times: 1, Result: map[string]any{"completion": map[string]any{"values": []string{"moon"}, "total": 3, "hasMore": true}}})
		srv.Fail(sessiontest.Fault{Method: "completion/complete", Times: 1, Result: map[string]any{"completion": map[string]any{"values": many}}})
		srv.Fail(sessiontest.Fault{Method: "completion/complete", Times: 1, Result: map[string]any{"values": many}})
		s := over(t, srv, config.Server{}, session.Options{})
		c, err := s.Complete(t.Context(), session.Reference{Template: "note:///{a}/{b}"}, "b", "mo", map[string]string{"a": "1"})
		if err != nil || !slices.Equal(c.Values, []string{"moon"}) || c.Total != 3 || !c.More {
			t.Errorf("%+v, %v", c, err)
		}
		_, params := lastCall(t, srv, "completion/complete")
		if got := string(params["ref"]); got != `{"type":"ref/resource","uri":"note:///{a}/{b}"}` {
			t.Errorf("ref %s", got)
		}
		if got := string(params["argument"]); got != `{"name":"b","value":"mo"}` {
			t.Errorf("argument %s", got)
		}
		if got := string(params["context"]); got != `{"arguments":{"a":"1"}}` {
			t.Errorf("context %s", got)
		}
		if c, err = s.Complete(t.Context(), session.Reference{Prompt: "p"}, "a", "", nil); err != nil || len(c.Values) != 100 || !c.More {
			t.Errorf("%d values, more %t, %v", len(c.Values), c.More, err)
		}
		_, params = lastCall(t, srv, "completion/complete")
		if got := string(params["ref"]); got != `{"name":"p","type":"ref/prompt"}` {
			t.Errorf("ref %s", got)
		}
		if _, err = s.Complete(t.Context(), session.Reference{Prompt: "p"}, "a", "", nil); err == nil {
			t.Error("a malformed result was accepted")
		}
	})
}

// A tool may wait for the response to a request that its server sends on the GET stream. A one-shot
// call also answers it.
func TestOneShotCallAnswersRequestsOfTheServer(t *testing.T) {
	srv := newServer(true, false)
	call, answer := make(chan struct{}), make(chan json.RawMessage) // unbuffered; never closed
	ts := listenOn(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		var m struct {
			ID     json.RawMessage
			Method string
			Result json.RawMessage
		}
		_ = json.Unmarshal(body, &m)
		switch {
		case r.Method == http.MethodGet:
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			select {
			case <-call:
				fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"id\":\"of-the-server\",\"method\":\"ping\"}\n\n")
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
			}
			<-r.Context().Done()
		case m.Method == "tools/call":
			select {
			case call <- struct{}{}:
			case <-r.Context().Done():
				return
			}
			select {
			case <-answer:
				srv.ServeHTTP(w, r)
			case <-r.Context().Done():
			}
		case string(m.ID) == `"of-the-server"` && m.Method == "":
			w.WriteHeader(http.StatusAccepted)
			select {
			case answer <- m.Result:
			case <-time.After(5 * time.Second): // the call has given up
			}
		default:
			srv.ServeHTTP(w, r)
		}
	}))
	entry := httpEntry(ts.URL)
	entry.RequestTimeout = 5 * time.Second
	s := dial(t, entry, session.Options{OneShot: true})
	if _, err := s.CallTool(t.Context(), "x", nil); err != nil {
		t.Fatal(err)
	}
}

// Media types are compared without case (RFC 9110 §8.3.1), and JSON is read as JSON if it is called an event
// stream.
func TestMediaTypes(t *testing.T) {
	for of, as := range map[string]string{"Text/Event-Stream; Charset=UTF-8": "data: %s\n\n", "Application/JSON; Charset=UTF-8": "%s", "text/event-stream": "[%s\n]\n"} {
		srv := newServer(true, false)
		ts := listenOn(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rec := httptest.NewRecorder()
			srv.ServeHTTP(rec, r)
			body := bytes.TrimSpace(rec.Body.Bytes())
			if r.Method == http.MethodPost && len(body) > 0 {
				w.Header().Set("Mcp-Session-Id", rec.Header().Get("Mcp-Session-Id"))
				w.Header().Set("Content-Type", of)
				if body[0] == '{' {
					body = fmt.Appendf(nil, as, body)
				}
			}
			w.WriteHeader(rec.Code)
			_, _ = w.Write(body)
		}))
		if _, err := dial(t, httpEntry(ts.URL), session.Options{OneShot: true}).CallTool(t.Context(), "x", nil); err != nil {
			t.Errorf("%s: %v", of, err)
		}
	}
}

// Broken responses are described in words.
func TestBrokenAnswers(t *testing.T) {
	for name, tt := range map[string]struct {
		contentType, body string
		cut               bool
		want              string
	}{
		"event stream closed": {"text/event-stream", ": busy\n\n", false, "the server closed the event stream before it sent the response"},
		"event stream cut":    {"text/event-stream", ": busy\n\n", true, "the event stream was interrupted before the response: the connection was lost in the middle of the response"},
		"JSON cut":            {"application/json", `{"jsonrpc":"2.0","id":`, true, "the connection was lost in the middle of the response"},
		"not JSON":            {"application/json", `hello`, false, "the response is not JSON"},
		"no answer":           {"", "", true, "the server closed the connection without a response"},
	} {
		t.Run(name, func(t *testing.T) {
			srv := newServer(true, false)
			ts := listenOn(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(bytes.NewReader(body))
				if !bytes.Contains(body, []byte(`"tools/call"`)) {
					srv.ServeHTTP(w, r)
					return
				}
				if tt.contentType != "" {
					w.Header().Set("Content-Type", tt.contentType)
					_, _ = io.WriteString(w, tt.body)
					w.(http.Flusher).Flush()
				}
				if tt.cut {
					panic(http.ErrAbortHandler)
				}
			}))
			_, err := dial(t, httpEntry(ts.URL), session.Options{}).CallTool(t.Context(), "x", nil)
			if err == nil || err.Error() != `call tool "x": `+tt.want {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}

// A tool that requires arguments in headers gets them, even if it is called before anyone listed
// it.
func TestArgumentsAreMirroredInHeaders(t *testing.T) {
	t.Parallel()
	for _, listFirst := range []bool{false, true} {
		srv := newServer(false, true)
		srv.SetList(catalog.Tools, json.RawMessage(`{"name":"geo","inputSchema":{"type":"object","properties":{
			"region":{"type":"string","x-mcp-header":"Region"},"level":{"type":"integer","x-mcp-header":"Level"},"other":{"type":"string"}}}}`),
			json.RawMessage(`{"name":"bad","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"a b\r\n"}}}}`))
		var mu sync.Mutex
		var calls []string
		ts := listenOn(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			var q struct {
				ID     json.RawMessage
				Method string
			}
			_ = json.Unmarshal(body, &q)
			if q.Method == "tools/call" {
				got := fmt.Sprintf("%q %q", r.Header.Values("Mcp-Param-Region"), r.Header.Values("Mcp-Param-Level"))
				mu.Lock()
				calls = append(calls, got)
				mu.Unlock()
				if got != `["=?base64?w6k=?="] ["3"]` {
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(http.StatusBadRequest)
					fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32020,"message":"header mismatch"}}`, q.ID)
					return
				}
			}
			srv.ServeHTTP(w, r)
		}))
		entry := httpEntry(ts.URL)
		entry.Protocol = config.ProtocolModern
		s := dial(t, entry, session.Options{})
		if listFirst {
			if _, err := s.List(t.Context(), catalog.Tools); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.CallTool(t.Context(), "geo", map[string]any{"region": "é", "level": 3, "other": "x"}); err != nil {
			t.Error(err)
		}
		if _, err := s.Do(t.Context(), session.Request{Method: "tools/call", Params: rawParams(t, `{"name":"geo","arguments":{"region":"é","level":3}}`)}); err != nil {
			t.Error(err)
		}
		if len(calls) != 2 {
			t.Errorf("%d calls: %s", len(calls), calls)
		}
		// A tool with invalid annotations is not called.
		_, err := s.CallTool(t.Context(), "bad", map[string]any{"a": "b"})
		if e, ok := errors.AsType[*session.InvalidToolError](err); !ok || !strings.Contains(e.Error(), "x-mcp-header") || len(calls) != 2 {
			t.Errorf("%v after %d calls", err, len(calls))
		}
		// A header mismatch is an error after one retry, in case the tools have changed.
		_, err = s.CallTool(t.Context(), "plain", nil)
		if e, ok := errors.AsType[*session.RPCError](err); !ok || e.Code != -32020 || len(calls) != 4 {
			t.Errorf("%v after %d calls", err, len(calls))
		}
		r := session.Probe(t.Context(), []config.Server{entry}, session.ProbeOptions{})[0]
		if r.Err != nil || len(r.Invalid) != 1 || r.Invalid["bad"] == "" {
			t.Errorf("%v, %v", r.Err, r.Invalid)
		}
	}
}
