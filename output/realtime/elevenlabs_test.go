package realtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/mcptrack/mcptrack/output/realtime/realtimetest"
)

func monitor(o *SessionOptions) {
	o.Endpoint.URL, o.Endpoint.Dialect, o.Endpoint.Session = "ws://127.0.0.1", ElevenLabs, "conv_1"
}

// Updates without a confirmed arrival are sent again over the next connection.
func TestElevenLabsLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far := &realtimetest.Endpoint{Create: func(c *realtimetest.Conn, it realtimetest.ReceivedItem) {
			if it.Conn == 1 && strings.Contains(it.Texts[0], "lost") {
				_ = c.CloseNow()
			}
		}}
		r := begin(t, far, monitor)
		for i, uri := range []string{"file:///a", "file:///lost"} {
			r.Offer(update(uint64(i+1), uri, time.Now()))
			time.Sleep(time.Minute)
		}
		if got := texts(far.Items()); len(got) != 3 || len(r.injected()) != 2 {
			t.Errorf("%q, %d receipts", got, len(r.injected()))
		}
	})
}

// A monitored conversation gets commands, and the session ends with the conversation.
func TestElevenLabsMonitor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conns := make(chan *realtimetest.Conn, 1)
		far := &realtimetest.Endpoint{Create: func(c *realtimetest.Conn, _ realtimetest.ReceivedItem) { conns <- c }}
		r := begin(t, far, monitor)
		r.Offer(update(1, "file:///a", time.Now()))
		c := <-conns
		synctest.Wait()
		if got := r.far.Requests()[0].URL.String(); got != "/v1/convai/conversations/conv_1/monitor" || len(r.injected()) != 1 {
			t.Errorf("connected to %s, %d receipts", got, len(r.injected()))
		}
		_ = c.Close(websocket.StatusNormalClosure, "")
		if err := <-r.done; !errors.Is(err, ErrEnded) {
			t.Errorf("%v", err)
		}
		r.done <- nil
	})
}

// A refusal ends the session, whether it is an event or a close code.
func TestElevenLabsRefusal(t *testing.T) {
	for name, greet := range map[string]func(*realtimetest.Conn){
		"event": func(c *realtimetest.Conn) {
			c.Say(map[string]any{"type": "error", "error_event": map[string]any{"code": 1008, "error_type": "value_error", "message": "no such agent"}})
			_ = c.Close(websocket.StatusInternalError, "")
		},
		"close": func(c *realtimetest.Conn) { _ = c.Close(websocket.StatusPolicyViolation, "no such agent") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := begin(t, &realtimetest.Endpoint{Greet: greet}, monitor)
				err := <-r.done
				if refused, ok := errors.AsType[*RefusedError](err); !ok || !strings.Contains(refused.Message, "no such agent") {
					t.Errorf("%v", err)
				}
				r.done <- nil
			})
		})
	}
}

// The proxy recognizes a conversation by its path, sends nothing before it begins, and leaves the
// pings to the application.
func TestProxyOfElevenLabs(t *testing.T) {
	conns := make(chan *realtimetest.Conn, 1)
	far := &realtimetest.Endpoint{Greet: func(c *realtimetest.Conn) { conns <- c }}
	x := startProxy(t, far, func(o *ProxyOptions) { o.Upstream.URL = strings.TrimSuffix(o.Upstream.URL, "/v1/realtime") })
	app := x.connect("/v1/convai/conversation?agent_id=agent_1", nil)
	ctx, cancel := x.bound()
	defer cancel()
	x.Offer(update(1, "file:///early", time.Now()))
	write := func(text string) {
		if err := app.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	// An update that was sent before this would be rejected, which fails the test.
	write(`{"type":"conversation_initiation_client_data","dynamic_variables":{"name":"Ada"}}`)
	var got []string
	read := func() {
		_, b, err := app.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, eventType(b))
	}
	read()
	c := <-conns
	c.Probe(1)
	read()
	write(`{"type":"pong","event_id":1}`)
	if !far.Await(ctx, func() bool { return far.Pongs() == 1 && len(far.Items()) == 1 }) {
		t.Errorf("items %+v, %d pongs", far.Items(), far.Pongs())
	}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	go func() { _, _, _ = app.Read(reading) }() // a client that reads
	x.settle(1)
	if x.added != 1 || x.failed != 0 || !slices.Equal(got, []string{"conversation_initiation_metadata", "ping"}) {
		t.Errorf("%d added, %d failed, the application got %q", x.added, x.failed, got)
	}
}

// The client event of each dialect for one update.
func TestDialects(t *testing.T) {
	at := time.Date(2026, 11, 6, 10, 0, 0, 0, time.UTC)
	const text = "Resource file:///a updated for MCP server docs at 2026-11-06T10:00:00.000Z"
	for _, c := range []struct {
		dialect       Dialect
		session, want string
		url           string
	}{
		{"", "", `"content":[{"type":"input_text","text":"` + text + `"}]`, "wss://api.openai.com/v1/realtime"},
		{OpenAI, "", `"content":[{"type":"input_text","text":"` + text + `"}]`, "wss://api.openai.com/v1/realtime"},
		{GPTLive, "sess_1", `"delegation_id":null,"content":"` + text + `"`, "wss://api.openai.com/v1/live/sessions/sess_1/attach"},
		{ElevenLabs, "", `{"type":"contextual_update","text":"` + text + `"}`, "wss://api.elevenlabs.io/v1/convai/conversation"},
		{ElevenLabs, "c", `{"command_type":"contextual_update","parameters":{"contextual_update":"` + text + `"}}`, "wss://api.elevenlabs.io/v1/convai/conversations/c/monitor"},
	} {
		var out strings.Builder
		d := DryRun{W: &out, Dialect: c.dialect, Session: c.session}
		if ok, err := d.Write(update(1, "file:///a", at)); err != nil || !ok || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: %v %v %s", c.dialect, ok, err, &out)
		}
		e := Endpoint{Dialect: c.dialect, Session: c.session}
		if got := e.Address(); got != c.url {
			t.Errorf("%s: %s", c.dialect, got)
		}
		if variable, header := c.dialect.Key(); variable == "" || header == "" {
			t.Errorf("%s: the key is in %q, %q", c.dialect, variable, header)
		}
	}
	for _, e := range []Endpoint{{Dialect: "klingon"}, {Session: "x"}, {Dialect: ElevenLabs, Session: "../x"}} {
		if err := e.Check(); err == nil {
			t.Errorf("%s with session %q is valid", fmt.Sprint(e.Dialect), e.Session)
		}
	}
}
