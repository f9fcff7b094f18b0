package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/peertest"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// nodeServer is the entry of a server of testdata/peers.
func nodeServer(t *testing.T, id, script string, args ...string) config.Server {
	t.Helper()
	command := peertest.Script(t, script, args...)
	return config.Server{ID: id, Enabled: true, Transport: config.TransportStdio, Program: config.Program{Command: command[0], Args: command[1:]}, ConnectTimeout: time.Minute}
}

func everything(t *testing.T) config.Server {
	return nodeServer(t, "everything", "node_modules/@modelcontextprotocol/server-everything/dist/index.js", "stdio")
}

// modernTaskServer is a modern server with tasks.
func modernTaskServer(t *testing.T, id string) config.Server {
	srv := nodeServer(t, id, "tasks.mjs")
	srv.Protocol = config.ProtocolModern
	return srv
}

// over connects a client over pipes.
func (o *outside) over(era session.Era, side *session.ClientSide) *session.Session {
	o.Helper()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	go func() { _ = o.gateway.Server().ServeIO(context.Background(), in, out); _ = out.Close() }()
	s, err := session.OverIO(o.Context(), fromServer, toServer, config.Server{Protocol: config.Protocol(era)}, session.Options{Client: side})
	if err != nil {
		o.Fatal(err)
	}
	o.Cleanup(func() { _ = s.Close() })
	return s
}

func (o *outside) do(c *session.Session, method, params, capabilities string) (map[string]json.RawMessage, error) {
	q := session.Request{Method: method, Params: fields(json.RawMessage(params)), Timeout: time.Minute}
	if capabilities != "" {
		q.Client = json.RawMessage(capabilities)
	}
	raw, err := c.Do(o.Context(), q)
	return fields(raw), err
}

// elicited answers elicitations and counts them.
func elicited(content string, asked *int) *session.ClientSide {
	return &session.ClientSide{
		Capabilities: json.RawMessage(`{"elicitation":{"form":{}}}`),
		Request: func(_ context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
			if method != "elicitation/create" {
				return nil, &session.RPCError{Code: -32601, Message: "not " + method}
			}
			*asked++
			return json.RawMessage(`{"action":"accept","content":` + content + `}`), nil
		},
	}
}

const research = `{"name":"everything_simulate-research-query","arguments":{"topic":"python","ambiguous":true}`

// A task of a legacy server continues while its client is away: another client with the same
// credentials asks for it, answers the server's requests, and gets the result.
func TestRealTaskSurvivesReconnect(t *testing.T) {
	t.Parallel()
	o := newOutside(t, Options{}, everything(t), modernTaskServer(t, "tasks"))
	asked := 0
	first := o.over(session.EraLegacy, elicited(`{"interpretation":"technical"}`, &asked))
	begun, err := o.do(first, "tools/call", research+`,"task":{"ttl":60000}}`, "")
	id := taskID(begun["task"])
	if err != nil || !strings.HasPrefix(id, taskPrefix) {
		t.Fatalf("%s, %v", begun["task"], err)
	}
	if got, err := o.do(first, "tasks/get", `{"taskId":"`+id+`"}`, ""); err != nil || taskID(encode(got)) != id || string(got["status"]) != `"working"` {
		t.Fatalf("%s, %v", encode(got), err)
	}
	listed, err := o.do(first, "tasks/list", `{}`, "")
	if err != nil || !strings.Contains(string(listed["tasks"]), id) {
		t.Errorf("listed %s, %v", listed["tasks"], err)
	}
	_ = first.Close()

	asked = 0
	second := o.over(session.EraLegacy, elicited(`{"interpretation":"technical"}`, &asked))
	o.eventually("the task is known to another client", func() bool {
		got, err := o.do(second, "tasks/get", `{"taskId":"`+id+`"}`, "")
		return err == nil && taskID(encode(got)) == id
	})
	result, err := o.do(second, "tasks/result", `{"taskId":"`+id+`"}`, "")
	if err != nil || !strings.Contains(string(result["content"]), "technical") || !strings.Contains(string(result["_meta"]), id) {
		t.Errorf("%s, %v", encode(result), err)
	}
	if asked != 1 {
		t.Errorf("the client was asked %d times", asked)
	}
	if _, err := o.do(second, "tasks/get", `{"taskId":"`+o.gateway.taskIDs("", "everything").export("other")+`"}`, ""); err == nil {
		t.Error("an unknown task was found")
	}
	if _, err := o.do(second, "tasks/get", `{"taskId":"other"}`, ""); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("an id without a server: %v", err)
	}
}

// A client that does not support the tasks of a server gets the server's error for a tool that must be called as a
// task, and calls other tools normally, even if it asks for a task.
func TestRealTaskForOtherClients(t *testing.T) {
	t.Parallel()
	o := newOutside(t, Options{}, everything(t), modernTaskServer(t, "tasks"))
	modern, legacy := o.over(session.EraModern, nil), o.over(session.EraLegacy, nil)
	for _, params := range []string{research + `}`, research + `,"task":{}}`} {
		if got, err := o.do(modern, "tools/call", params, tasksCapability); !strings.Contains(string(encode(got))+fmt.Sprint(err), "task") || got["taskId"] != nil || err == nil && string(got["isError"]) != "true" {
			t.Errorf("of a legacy server: %s, %v", encode(got), err)
		}
	}
	if got, err := o.do(legacy, "tools/call", `{"name":"tasks_failing_job","task":{}}`, ""); err == nil || !strings.Contains(err.Error(), "capability") {
		t.Errorf("of a modern server: %s, %v", encode(got), err)
	}
	if got, err := o.do(legacy, "tools/call", `{"name":"tasks_slow_compute","arguments":{"seconds":0},"task":{}}`, ""); err != nil || got["content"] == nil {
		t.Errorf("a tool that needs no task: %s, %v", encode(got), err)
	}
}

// A task of a modern server is requested, updated and cancelled by the id that clients see, by
// clients that declare the extension.
func TestRealModernTask(t *testing.T) {
	t.Parallel()
	o := newOutside(t, Options{}, modernTaskServer(t, "tasks"), modernTaskServer(t, "more"))
	c := o.over(session.EraModern, nil)
	const capabilities = `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	begun, err := o.do(c, "tools/call", `{"name":"tasks_confirm_delete","arguments":{"filename":"b.txt"}}`, capabilities)
	id := taskID(encode(begun))
	if err != nil || string(begun["resultType"]) != `"task"` || !strings.HasPrefix(id, taskPrefix) {
		t.Fatalf("%s, %v", encode(begun), err)
	}
	var got map[string]json.RawMessage
	o.eventually("the task asks", func() bool {
		got, err = o.do(c, "tasks/get", `{"taskId":"`+id+`"}`, capabilities)
		return err == nil && string(got["status"]) == `"input_required"`
	})
	if !strings.Contains(string(got["inputRequests"]), "Delete b.txt?") || taskID(encode(got)) != id {
		t.Errorf("%s", encode(got))
	}
	if _, err := o.do(c, "tasks/update", `{"taskId":"`+id+`","inputResponses":{"confirm":{"action":"decline"}}}`, capabilities); err != nil {
		t.Error(err)
	}
	o.eventually("the task ends", func() bool {
		got, err = o.do(c, "tasks/get", `{"taskId":"`+id+`"}`, capabilities)
		return err == nil && string(got["status"]) == `"completed"`
	})
	if !strings.Contains(string(got["result"]), "b.txt: decline") {
		t.Errorf("%s", encode(got))
	}
	if _, err := o.do(c, "tasks/cancel", `{"taskId":"`+id+`"}`, capabilities); err != nil {
		t.Error(err)
	}
	known, _ := claimedTask(id)
	wrong := o.gateway.taskIDs("", "more").export(known.key)
	if _, err := o.do(c, "tasks/get", `{"taskId":"`+wrong+`"}`, capabilities); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("at another server: %v", err)
	}
	for _, method := range []string{"tasks/get", "tasks/cancel", "tasks/update"} {
		_, err := o.do(c, method, `{"taskId":"`+id+`","inputResponses":{}}`, `{"elicitation":{}}`)
		if e, ok := isRPC(err); !ok || e.Code != -32021 {
			t.Errorf("%s without the extension: %v", method, err)
		}
	}
	for _, method := range []string{"tasks/result", "tasks/list"} {
		_, err := o.do(c, method, `{"taskId":"`+id+`"}`, capabilities)
		if e, ok := isRPC(err); !ok || e.Code != -32601 {
			t.Errorf("%s in the modern era: %v", method, err)
		}
	}
	if _, err := o.do(c, "tools/call", `{"name":"tasks_failing_job"}`, `{}`); err == nil || !strings.Contains(err.Error(), "capability") {
		t.Errorf("a tool that needs tasks, without the extension: %v", err)
	}
}

// listening connects a client that records its messages.
func (w *fixture) listening(era session.Era) (*session.Session, *messages) {
	w.Helper()
	got := &messages{}
	return w.clientOf(era, &session.ClientSide{Message: got.add}), got
}

// A server's notification about a task reaches the client that began the task or listens to it,
// under the id that the client knows, and no other client.
func TestTaskNotifications(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		docs := w.Serve("docs", era)
		docs.SetList(catalog.Tools, tool("slow"))
		docs.Capabilities["tasks"] = map[string]any{"list": map[string]any{}, "requests": map[string]any{"tools": map[string]any{"call": map[string]any{}}}}
		docs.Capabilities["extensions"] = map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}}
		w.Serve("more", era)
		begun := map[string]any{"task": map[string]any{"taskId": "t1", "status": "working", "ttl": 60000}}
		notification := map[string]any{"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": map[string]any{"taskId": "t1", "status": "working"}}
		if era == session.EraModern {
			begun = map[string]any{"resultType": "task", "taskId": "t1", "status": "working", "ttlMs": 60000}
			notification = map[string]any{"jsonrpc": "2.0", "method": "notifications/tasks", "params": map[string]any{"taskId": "t1", "status": "working", "_meta": map[string]any{"io.modelcontextprotocol/subscriptionId": 9, "x": 1}}}
		}
		docs.Fail(sessiontest.Fault{Method: "tools/call", Result: begun})
		w.start(sessiontest.Entry("docs"), sessiontest.Entry("more"))
		c, got := w.listening(era)
		other, others := w.listening(era)
		if _, err := other.List(w.Context(), "tools"); err != nil {
			w.Fatal(err)
		}
		q := session.Request{Method: "tools/call", Params: fields(json.RawMessage(`{"name":"docs_slow","task":{}}`)), Client: json.RawMessage(`{"extensions":{"io.modelcontextprotocol/tasks":{}}}`)}
		raw, err := c.Do(w.Context(), q)
		id := w.gateway.taskIDs("", "docs").export("t1")
		if err != nil || !strings.Contains(string(raw), `"taskId":"`+id+`"`) {
			w.Fatalf("%s, %v", raw, err)
		}
		if era == session.EraModern {
			ctx, cancel := context.WithCancel(w.Context())
			over := make(chan struct{})
			go func() {
				defer close(over)
				q.Method, q.Params = "subscriptions/listen", fields(json.RawMessage(`{"notifications":{"taskIds":["`+id+`","other"]}}`))
				_, _ = c.Do(ctx, q)
			}()
			defer func() { cancel(); <-over }()
			synctest.Wait()
			if last := w.last("docs", "subscriptions/listen"); string(last["notifications"]) != `{"taskIds":["t1"]}` {
				w.Errorf("the server was asked for %s", last["notifications"])
			}
			q.Method, q.Client = "subscriptions/listen", nil
			if _, err := other.Do(w.Context(), q); err == nil || !strings.Contains(err.Error(), "-32021") {
				w.Errorf("a listen without the extension: %v", err)
			}
		}
		docs.Broadcast(notification)
		synctest.Wait()
		all := strings.Join(got.take(), " ")
		if !strings.Contains(all, `"taskId":"`+id+`"`) || strings.Contains(all, "subscriptionId\":9") {
			w.Errorf("received %s", all)
		}
		if era == session.EraModern && !strings.Contains(all, `"x":1`) {
			w.Errorf("received %s", all)
		}
		if all := others.take(); len(all) != 0 {
			w.Errorf("another client received %s", all)
		}
	})
}

// A client that does not read delays only its own task notifications.
func TestTaskNotificationsBesideASilentClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		docs := w.Serve("docs", session.EraLegacy)
		docs.SetList(catalog.Tools, tool("slow"))
		docs.Capabilities["tasks"] = map[string]any{"requests": map[string]any{"tools": map[string]any{"call": map[string]any{}}}}
		w.start(sessiontest.Entry("docs"))
		begin := func(c *session.Session, id string) {
			docs.Fail(sessiontest.Fault{Method: "tools/call", Times: 1, Result: map[string]any{"task": map[string]any{"taskId": id, "status": "working", "ttl": 60000}}})
			if raw, err := w.do(c, "tools/call", `{"name":"slow","task":{}}`); err != nil {
				t.Fatalf("%s, %v", raw, err)
			}
		}
		silent := &stopping{stop: make(chan struct{}), ended: make(chan struct{})}
		c := w.clientOver(session.EraLegacy, nil, func(r io.ReadCloser) io.ReadCloser {
			silent.ReadCloser = r
			return silent
		})
		defer close(silent.ended)
		begin(c, "silent")
		other, got := w.listening(session.EraLegacy)
		begin(other, "heard")
		close(silent.stop)
		for range 2 * maxQueued {
			docs.Broadcast(map[string]any{"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": map[string]any{"taskId": "silent", "status": "working"}})
		}
		docs.Broadcast(map[string]any{"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": map[string]any{"taskId": "heard", "status": "working"}})
		w.advance(time.Second)
		if all := got.take(); len(all) != 1 {
			t.Errorf("received %q", all)
		}
		w.gateway.queues.mu.Lock()
		defer w.gateway.queues.mu.Unlock()
		if n := len(w.gateway.queues.byKey); n != 1 {
			t.Errorf("notifications wait for %d clients", n)
		}
	})
}

// stopping reads until stop is closed, and nothing more until ended is closed.
type stopping struct {
	io.ReadCloser
	stop, ended chan struct{}
}

func (s *stopping) Read(p []byte) (int, error) {
	select {
	case <-s.stop:
		<-s.ended
		return 0, io.EOF
	default:
		return s.ReadCloser.Read(p)
	}
}
