package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// inEachEra runs the test against a server of each era.
func inEachEra(t *testing.T, test func(t *testing.T, srv *sessiontest.Fake, s *session.Session)) {
	t.Helper()
	for _, modern := range []bool{false, true} {
		t.Run(map[bool]string{false: "legacy", true: "modern"}[modern], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer(!modern, modern)
				test(t, srv, over(t, srv, config.Server{}, session.Options{}))
			})
		})
	}
}

// lastCall returns the last message of the method that the server received.
func lastCall(t *testing.T, srv *sessiontest.Fake, method string) (id json.RawMessage, params map[string]json.RawMessage) {
	t.Helper()
	wire := srv.Wire()
	for _, m := range slices.Backward(wire) {
		if m.Method == method {
			if err := json.Unmarshal(m.Params, &params); err != nil {
				t.Fatal(err)
			}
			return m.ID, params
		}
	}
	t.Fatalf("no %s on the wire", method)
	return nil, nil
}

func rawParams(t *testing.T, text string) map[string]json.RawMessage {
	t.Helper()
	var p map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestDoForwardsParamsUnchanged(t *testing.T) {
	inEachEra(t, func(t *testing.T, srv *sessiontest.Fake, s *session.Session) {
		raw, err := s.Do(t.Context(), session.Request{Method: "tools/call",
			Params: rawParams(t, `{"name":"echo","arguments":{"n":9007199254740993},"_meta":{"example.com/trace":90071992547409931,"progressToken":"theirs"}}`)})
		if err != nil || !strings.Contains(string(raw), "echo") {
			t.Fatalf("%s, %v", raw, err)
		}
		_, params := lastCall(t, srv, "tools/call")
		if string(params["arguments"]) != `{"n":9007199254740993}` {
			t.Errorf("arguments %s", params["arguments"])
		}
		if !strings.Contains(string(params["_meta"]), `"example.com/trace":90071992547409931`) {
			t.Errorf("_meta %s", params["_meta"])
		}
		srv.Fail(sessiontest.Fault{Method: "prompts/get", Code: -32099, Message: "no such luck", Data: map[string]any{"why": 1}})
		_, err = s.Do(t.Context(), session.Request{Method: "prompts/get", Params: rawParams(t, `{"name":"p"}`)})
		e, ok := errors.AsType[*session.RPCError](err)
		if !ok || e.Code != -32099 || e.Message != "no such luck" || string(e.Data) != `{"why":1}` {
			t.Errorf("error %#v", err)
		}
	})
}

func TestDoReportsProgress(t *testing.T) {
	inEachEra(t, func(t *testing.T, srv *sessiontest.Fake, s *session.Session) {
		srv.Fail(sessiontest.Fault{Method: "tools/call", Delay: 25 * time.Second})
		var reports []session.Progress
		done := make(chan error, 1)
		began := time.Now()
		go func() {
			_, err := s.Do(t.Context(), session.Request{Method: "tools/call", Timeout: 10 * time.Second,
				Params:   rawParams(t, `{"name":"slow","_meta":{"progressToken":7}}`),
				Progress: func(p session.Progress) { reports = append(reports, p) }})
			done <- err
		}()
		synctest.Wait()
		_, params := lastCall(t, srv, "tools/call")
		var meta struct{ ProgressToken int }
		if err := json.Unmarshal(params["_meta"], &meta); err != nil || meta.ProgressToken == 0 {
			t.Fatalf("_meta %s: %v", params["_meta"], err)
		}
		report := func(token any, members map[string]any) {
			members["progressToken"] = token
			srv.Broadcast(map[string]any{"jsonrpc": "2.0", "method": "notifications/progress", "params": members})
		}
		for i := range 3 {
			wait(t, 8*time.Second) // each report restarts the timeout
			if i < 2 {
				report(meta.ProgressToken, map[string]any{"progress": i, "total": 3, "message": "at it"})
				report("not ours", map[string]any{"progress": 99})
				report(meta.ProgressToken, map[string]any{"progress": "half"})
			}
			synctest.Wait()
		}
		if err := <-done; err != nil || time.Since(began) != 25*time.Second {
			t.Fatalf("%v after %v", err, time.Since(began))
		}
		want := []session.Progress{{Progress: 0, Total: 3, Message: "at it"}, {Progress: 1, Total: 3, Message: "at it"}}
		if !slices.Equal(reports, want) {
			t.Errorf("reports %+v, want %+v", reports, want)
		}
		report(meta.ProgressToken, map[string]any{"progress": 3}) // late: the request has ended
		synctest.Wait()
		if len(reports) != 2 {
			t.Errorf("reported after the response: %+v", reports)
		}
	})
}

// However a request is made, progress cannot extend it for ever, and reports that do not increase
// do not extend it.
func TestProgressExtendsARequestUpToAnHour(t *testing.T) {
	requests := map[string]func(context.Context, *session.Session) error{
		"CallTool": func(ctx context.Context, s *session.Session) error {
			_, err := s.CallTool(session.WithProgress(ctx, func(session.Progress) {}), "endless", nil)
			return err
		},
		"Do": func(ctx context.Context, s *session.Session) error {
			_, err := s.Do(ctx, session.Request{Method: "tools/call", Params: rawParams(t, `{"name":"endless"}`),
				Timeout: config.DefaultRequestTimeout, Progress: func(session.Progress) {}})
			return err
		},
	}
	for name, request := range requests {
		for rising, want := range map[bool]time.Duration{true: time.Hour, false: config.DefaultRequestTimeout + 20*time.Second} {
			t.Run(fmt.Sprintf("%s, rising %t", name, rising), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := newServer(true, false)
					s := over(t, srv, config.Server{}, session.Options{})
					srv.Fail(sessiontest.Fault{Method: "tools/call", Silent: true})
					began := time.Now()
					done := make(chan error, 1)
					go func() { done <- request(t.Context(), s) }()
					synctest.Wait()
					_, params := lastCall(t, srv, "tools/call")
					var meta struct{ ProgressToken int }
					_ = json.Unmarshal(params["_meta"], &meta)
					for i := 1.0; ; i++ {
						select {
						case err := <-done:
							if took := time.Since(began); err == nil || took != want {
								t.Errorf("%v after %v", err, took)
							}
							return
						case <-time.After(20 * time.Second):
						}
						progress := i
						if !rising {
							progress = 1
						}
						srv.Broadcast(map[string]any{"jsonrpc": "2.0", "method": "notifications/progress",
							"params": map[string]any{"progressToken": meta.ProgressToken, "progress": progress}})
					}
				})
			})
		}
	}
}

// wait lets the bubble's time pass.
func wait(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	<-ctx.Done()
}

func TestDoEndsWithItsTimeoutOrContext(t *testing.T) {
	inEachEra(t, func(t *testing.T, srv *sessiontest.Fake, s *session.Session) {
		srv.Fail(sessiontest.Fault{Method: "tools/call", Silent: true})
		call := func(ctx context.Context, limit time.Duration) (time.Duration, error) {
			began := time.Now()
			_, err := s.Do(ctx, session.Request{Method: "tools/call", Params: rawParams(t, `{"name":"mute"}`), Timeout: limit})
			return time.Since(began), err
		}
		if took, err := call(t.Context(), 0); err == nil || took != config.DefaultRequestTimeout {
			t.Errorf("%v after %v, want the entry's timeout", err, took)
		}
		if took, err := call(t.Context(), 90*time.Second); err == nil || took != 90*time.Second {
			t.Errorf("%v after %v, want its own timeout", err, took)
		}
		why := errors.New("the client went away")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		if _, err := call(ctx, 0); !errors.Is(err, why) {
			t.Errorf("error %v, want the cause", err)
		}
		synctest.Wait()
		id, _ := lastCall(t, srv, "tools/call")
		_, cancelled := lastCall(t, srv, "notifications/cancelled")
		if string(cancelled["requestId"]) != string(id) {
			t.Errorf("cancelled %s, want %s", cancelled["requestId"], id)
		}
	})
}

// In the legacy era, closing a request cancels nothing; a notification must.
func TestCancellationOverHTTP(t *testing.T) {
	for _, modern := range []bool{false, true} {
		srv := newServer(!modern, modern)
		ts := listenOn(t, srv)
		s := dial(t, httpEntry(ts.URL), session.Options{})
		srv.Fail(sessiontest.Fault{Method: "tools/call", Silent: true})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := s.Do(ctx, session.Request{Method: "tools/call", Params: rawParams(t, `{"name":"mute"}`)})
			ended <- err
		}()
		eventually(t, "the call", func() bool { return srv.Count("tools/call") == 1 })
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if modern {
			_ = s.Close() // flushes what is queued
			if n := srv.Count("notifications/cancelled"); n != 0 {
				t.Errorf("modern: %d cancellations", n)
			}
			continue
		}
		eventually(t, "the cancellation", func() bool { return srv.Count("notifications/cancelled") == 1 })
	}
}
