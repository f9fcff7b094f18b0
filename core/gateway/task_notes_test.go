package gateway

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// listening connects a client that keeps what it is sent.
func (w *fixture) listening(era session.Era) (*session.Session, *messages) {
	w.Helper()
	got := &messages{}
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	w.running.Go(func() {
		_ = w.gateway.Server().ServeIO(context.Background(), in, out)
		_ = out.Close()
	})
	s, err := session.OverIO(w.Context(), fromServer, toServer, config.Server{Protocol: config.Protocol(era)}, session.Options{Client: &session.ClientSide{Message: got.add}})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = s.Close() })
	return s, got
}

// What a server says of a task reaches the client that began it, or that listens to it,
// under the id that it knows, and no other client.
func TestTaskNotifications(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		docs := w.Serve("docs", era)
		docs.SetList(catalog.Tools, tool("slow"))
		docs.Capabilities["tasks"] = map[string]any{"list": map[string]any{}, "requests": map[string]any{"tools": map[string]any{"call": map[string]any{}}}}
		docs.Capabilities["extensions"] = map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}}
		w.Serve("more", era)
		begun := map[string]any{"task": map[string]any{"taskId": "t1", "status": "working", "ttl": 60000}}
		said := map[string]any{"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": map[string]any{"taskId": "t1", "status": "working"}}
		if era == session.EraModern {
			begun = map[string]any{"resultType": "task", "taskId": "t1", "status": "working", "ttlMs": 60000}
			said = map[string]any{"jsonrpc": "2.0", "method": "notifications/tasks", "params": map[string]any{"taskId": "t1", "status": "working", "_meta": map[string]any{"io.modelcontextprotocol/subscriptionId": "mcptrack-9", "x": 1}}}
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
		docs.Broadcast(said)
		synctest.Wait()
		all := strings.Join(got.take(), " ")
		if !strings.Contains(all, `"taskId":"`+id+`"`) || strings.Contains(all, "mcptrack-9") {
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

// A client that does not read holds back nobody else's notifications of tasks.
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
		in, toServer := io.Pipe()
		fromServer, out := io.Pipe()
		silent := make(chan struct{}) // closed when the client stops reading
		w.running.Go(func() {
			_ = w.gateway.Server().ServeIO(context.Background(), in, out)
			_ = out.Close()
		})
		stops := &stopping{Reader: fromServer, stop: silent, ended: make(chan struct{})}
		c, err := session.OverIO(w.Context(), stops, toServer, config.Server{Protocol: config.ProtocolLegacy}, session.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			close(stops.ended)
			_ = fromServer.Close()
			_ = c.Close()
		}()
		begin(c, "silent")
		other, got := w.listening(session.EraLegacy)
		begin(other, "heard")
		close(silent)
		for range 2 * maxQueuedMessages {
			docs.Broadcast(map[string]any{"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": map[string]any{"taskId": "silent", "status": "working"}})
		}
		docs.Broadcast(map[string]any{"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": map[string]any{"taskId": "heard", "status": "working"}})
		w.advance(time.Second)
		if all := got.take(); len(all) != 1 {
			t.Errorf("received %q", all)
		}
		w.gateway.notes.mu.Lock()
		defer w.gateway.notes.mu.Unlock()
		if n := len(w.gateway.notes.byClient); n != 1 {
			t.Errorf("notifications wait for %d clients", n)
		}
	})
}

// stopping reads until stop is closed, and then nothing more until ended is.
type stopping struct {
	io.Reader
	stop, ended chan struct{}
}

func (s *stopping) Read(p []byte) (int, error) {
	select {
	case <-s.stop:
		<-s.ended
		return 0, io.EOF
	default:
		return s.Reader.Read(p)
	}
}

func (s *stopping) Close() error { return nil }
