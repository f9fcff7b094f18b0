package realtime

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/mcptrack/mcptrack/output/realtime/realtimetest"
)

func live(o *SessionOptions) {
	o.Endpoint.URL = "ws://127.0.0.1/openai/v1"
	o.Endpoint.Dialect, o.Endpoint.Session = GPTLive, "sess_123"
}

// A sideband of a GPT-Live session appends silent context: as many messages as fit into one append.
func TestLiveSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, &realtimetest.Endpoint{}, live)
		synctest.Wait()
		long := "file:///" + strings.Repeat("long-path/", 200)
		for i := range uint64(20) {
			r.Offer(update(i+1, fmt.Sprintf("file:///%d", i), time.Now()))
		}
		r.Offer(update(21, long, time.Now()))
		time.Sleep(time.Second)
		if path := r.far.Requests()[0].URL.Path; path != "/openai/v1/live/sessions/sess_123/attach" {
			t.Errorf("attached to %s", path)
		}
		lines := texts(r.far.Items())
		if len(r.injected()) != 21 || len(lines) != 21 || len(r.far.Items()) > 15 {
			t.Errorf("%d receipts, %d lines in %d appends", len(r.injected()), len(lines), len(r.far.Items()))
		}
		if last := lines[len(lines)-1]; !strings.HasPrefix(last, "Resource file:///long-path/") || !strings.Contains(last, "… updated for MCP server docs at ") {
			t.Errorf("the long one is %q", last)
		}
		if r.far.Replies() != 0 {
			t.Error("a response was asked for")
		}
	})
}

// An error that names our event concerns only that event: rejections are final, other errors are
// retried. The session ends with session.closed.
func TestLiveErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		var conn *realtimetest.Conn
		r := begin(t, &realtimetest.Endpoint{Create: func(c *realtimetest.Conn, it realtimetest.ReceivedItem) {
			conn = c
			switch tries++; {
			case strings.Contains(it.Texts[0], "bad"):
				c.FailLive(it.EventID, "invalid_request_error", "content_too_long")
			case tries == 1:
				c.FailLive(it.EventID, "server_error", "")
			default:
				c.Appended(it)
			}
		}}, live)
		synctest.Wait()
		r.Offer(update(1, "file:///a", time.Now()))
		time.Sleep(time.Minute)
		r.Offer(update(2, "file:///bad", time.Now()))
		time.Sleep(time.Minute)
		if len(r.injected()) != 1 || len(r.failed()) != 1 || tries != 3 {
			t.Errorf("receipts %+v, failures %+v, %d appends", r.injected(), r.failed(), tries)
		}
		conn.Say(map[string]any{"type": "session.closed", "usage": map[string]any{}})
		if err := <-r.done; !errors.Is(err, ErrEnded) {
			t.Errorf("after session.closed: %v", err)
		}
		r.done <- nil
	})
}

// The proxy uses the dialect of the session once the session has started, and the application sees
// nothing about events that it did not send.
func TestProxyOfALiveSession(t *testing.T) {
	started := make(chan *realtimetest.Conn, 1)
	early := 0
	var far *realtimetest.Endpoint
	far = &realtimetest.Endpoint{
		Message: func(c *realtimetest.Conn, _ websocket.MessageType, b []byte) {
			if strings.Contains(string(b), "session.start") {
				early = len(far.Items())
				c.Say(map[string]any{"type": "session.started", "session": map[string]any{"id": "sess_1"}})
				started <- c
			}
		},
		Create: func(c *realtimetest.Conn, it realtimetest.ReceivedItem) {
			if strings.Contains(strings.Join(it.Texts, " "), "bad") {
				c.FailLive(it.EventID, "invalid_request_error", "x")
				return
			}
			c.Appended(it)
		},
	}
	x := startProxy(t, far, func(o *ProxyOptions) { o.Upstream.URL = strings.TrimSuffix(o.Upstream.URL, "/v1/realtime") })
	c := x.connect("/v1/live/sessions", nil)
	defer func() { _ = c.CloseNow() }()
	ctx, cancel := x.bound()
	defer cancel()
	x.readUntil(c, "session.created")
	x.Offer(update(1, "file:///early", time.Now()))
	if err := c.Write(ctx, websocket.MessageText, []byte(`{"type":"session.start","session":{"model":"gpt-live-1"}}`)); err != nil {
		t.Fatal(err)
	}
	up := <-started
	if early != 0 {
		t.Errorf("%d items were sent before the session had started", early)
	}
	x.Offer(update(2, "file:///bad", time.Now()))
	x.settle(2)
	up.Say(map[string]any{"type": "session.closed"})
	var got []string
	for {
		_, b, err := c.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		typ := eventType(b)
		if got = append(got, typ); typ == "session.closed" {
			break
		}
	}
	if want := "session.started session.closed"; strings.Join(got, " ") != want {
		t.Errorf("the application got %q, want %q", got, want)
	}
	if x.added != 1 || x.failed != 1 {
		t.Errorf("%d added, %d failed", x.added, x.failed)
	}
}
