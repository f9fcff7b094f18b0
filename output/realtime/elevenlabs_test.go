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

func agentSession(o *SessionOptions) {
	o.Endpoint.URL, o.Endpoint.Dialect = "ws://127.0.0.1", ElevenLabs
	o.Endpoint.Query = map[string][]string{"agent_id": {"agent_1"}}
}

// A conversation that we open begins with the client's initiation data. Updates wait for it to begin,
// pings are answered, and updates without a confirmed arrival are sent again in the next
// conversation.
func TestElevenLabsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far := &realtimetest.Endpoint{Greet: func(c *realtimetest.Conn) { c.Probe(7) }}
		far.Create = func(c *realtimetest.Conn, it realtimetest.ReceivedItem) {
			if it.Conn == 1 && strings.Contains(it.Texts[0], "lost") {
				_ = c.CloseNow()
			}
		}
		r := begin(t, far, agentSession)
		r.Offer(update(1, "file:///a", time.Now()))
		r.Offer(update(2, "file:///b", time.Now()))
		time.Sleep(time.Second)
		if got := r.far.Requests()[0].URL.String(); got != "/v1/convai/conversation?agent_id=agent_1" {
			t.Errorf("connected to %s", got)
		}
		if items := far.Items(); len(texts(items)) != 2 || len(r.injected()) != 2 || far.Pongs() != 1 { // in one message or two
			t.Errorf("items %+v, %d receipts, %d pongs", items, len(r.injected()), far.Pongs())
		}
		r.Offer(update(3, "file:///lost", time.Now()))
		time.Sleep(time.Minute)
		if got := texts(far.Items()); len(got) != 4 || len(r.injected()) != 3 || far.Pongs() != 2 {
			t.Errorf("%q, %d receipts, %d pongs", got, len(r.injected()), far.Pongs())
		}
	})
}

// A monitored conversation gets commands, and the session ends with the conversation.
func TestElevenLabsMonitor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conns := make(chan *realtimetest.Conn, 1)
		far := &realtimetest.Endpoint{Create: func(c *realtimetest.Conn, _ realtimetest.ReceivedItem) { conns <- c }}
		r := begin(t, far, func(o *SessionOptions) {
			agentSession(o)
			o.Endpoint.Query, o.Endpoint.Session = nil, "conv_1"
		})
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
				r := begin(t, &realtimetest.Endpoint{Greet: greet}, agentSession)
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
	for x.Stats().Injected == 0 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	if s := x.Stats(); s.Injected != 1 || s.Failed != 0 || !slices.Equal(got, []string{"conversation_initiation_metadata", "ping"}) {
		t.Errorf("%+v, the application got %q", s, got)
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
