package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/internal/subscriptions"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// echoEvents answers with the method, and streams two messages until it ends. The name "bad" is an
// error.
func echoEvents(ended chan<- string) mcpserver.Events {
	return mcpserver.Events{
		Handle: func(_ context.Context, r *mcpserver.Request) (json.RawMessage, error) {
			return object(`{"method":%q,"identity":%q}`, r.Method, r.Identity), nil
		},
		Stream: func(ctx context.Context, r *mcpserver.Request, id json.RawMessage, send func(...[]byte) error) (json.RawMessage, error) {
			if r.Name() == "bad" {
				return nil, &mcpserver.Error{Code: -32023, Message: "NotFound"}
			}
			if r.Name() == "panic" {
				panic("secret")
			}
			if err := send(object(`{"jsonrpc":"2.0","method":"one","params":{"id":%s}}`, id), object(`{"jsonrpc":"2.0","method":"two"}`)); err != nil {
				return nil, err
			}
			<-ctx.Done()
			ended <- r.Name()
			return object(`{"_meta":{"x":%s}}`, id), nil
		},
	}
}

// Both eras declare events in both places, and handle their methods.
func TestEventsAreDeclared(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, mcpserver.Options{Events: echoEvents(nil)}, "a")
	h.Describe(mcpserver.Description{Extensions: map[string]json.RawMessage{"io.example/other": json.RawMessage(`{}`)}})
	w := h.pipe(t)
	w.send(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{%s}}`, metaModern)
	w.send(`{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`)
	for range 2 {
		var got struct {
			Result struct {
				Capabilities struct {
					Events     map[string]bool
					Extensions map[string]map[string]bool
				}
			}
		}
		if err := json.Unmarshal([]byte(w.next()), &got); err != nil {
			t.Fatal(err)
		}
		c := got.Result.Capabilities
		if !c.Events["listChanged"] || !c.Extensions[mcp.ExtensionEvents]["listChanged"] || c.Extensions["io.example/other"] == nil {
			t.Errorf("%+v", c)
		}
	}
	for _, method := range []string{"events/list", "events/poll", "events/subscribe", "events/unsubscribe"} {
		w.send(`{"jsonrpc":"2.0","id":3,"method":%q}`, method)
		w.expect(`{"jsonrpc":"2.0","id":3,"result":{"method":%q,"identity":""}}`, method)
	}
}

// A stream on stdio: its id keeps its type, a client that cancels it gets no result, and a client
// whose input ends does.
func TestEventStreamOverStdio(t *testing.T) {
	t.Parallel()
	ended := make(chan string, 2)
	h := newTestServer(t, mcpserver.Options{Events: echoEvents(ended), MaxInFlight: 1}, "a")
	w := h.pipe(t)
	for i, id := range []string{`7`, `"7"`} {
		w.send(`{"jsonrpc":"2.0","id":%s,"method":"events/stream","params":{"name":"%d",%s}}`, id, i, metaModern)
		w.expect(`{"jsonrpc":"2.0","method":"one","params":{"id":%s}}`, id)
		w.expect(`{"jsonrpc":"2.0","method":"two"}`)
	}
	w.send(`{"jsonrpc":"2.0","id":8,"method":"events/stream","params":{"name":"bad",%s}}`, metaModern)
	w.expect(`{"jsonrpc":"2.0","id":8,"error":{"code":-32023,"message":"NotFound"}}`)
	w.send(`{"jsonrpc":"2.0","id":8,"method":"events/stream","params":{"name":"panic",%s}}`, metaModern)
	if got := w.next(); code(got) != mcp.CodeInternal || strings.Contains(got, "secret") {
		t.Error(got)
	}
	// Streams take no slot of the requests.
	w.send(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"echo",%s}}`, metaModern)
	if got := w.next(); code(got) != 0 {
		t.Error(got)
	}
	w.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
	if got := within(t, ended, "the cancelled stream"); got != "0" {
		t.Errorf("%q ended", got)
	}
	_ = w.in.Close()
	if got := w.next(); !strings.Contains(got, `"id":"7"`) || !strings.Contains(got, `"resultType":"complete"`) || !strings.Contains(got, `"x":"7"`) {
		t.Error(got)
	}
	if got := w.next(); got != "" {
		t.Errorf("after the result: %s", got)
	}
}

// A stream over HTTP ends with its client in both eras, with a cancellation in the legacy era, and
// with its result when the server closes.
func TestEventStreamOverHTTP(t *testing.T) {
	t.Parallel()
	ended := make(chan string, 4)
	s := newEndpoint(t, mcpserver.Options{Events: echoEvents(ended)}, "a")
	session := s.initialize()
	body := `{"jsonrpc":"2.0","id":%q,"method":"events/stream","params":{"name":%q,` + metaModern + `}}`
	plain := `{"jsonrpc":"2.0","id":%q,"method":"events/stream","params":{"name":%q}}`
	open := func(ctx context.Context, h header, body string) *bufio.Scanner {
		t.Helper()
		resp := s.ask(ctx, "POST", h, body)
		t.Cleanup(func() { _ = resp.Body.Close() })
		if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatalf("%d %v", resp.StatusCode, resp.Header)
		}
		in := bufio.NewScanner(resp.Body)
		for _, want := range []string{"one", "two"} {
			for in.Scan() && !strings.HasPrefix(in.Text(), "data:") {
			}
			if !strings.Contains(in.Text(), want) {
				t.Fatalf("%q instead of %s", in.Text(), want)
			}
		}
		return in
	}
	for _, c := range []struct {
		h    header
		body string
	}{{modern("events/stream"), body}, {session, plain}} {
		ctx, leave := context.WithCancel(t.Context())
		open(ctx, c.h, fmt.Sprintf(c.body, "gone", "gone"))
		leave()
		within(t, ended, "the stream of a client that left")
		resp := s.ask(t.Context(), "POST", c.h, fmt.Sprintf(c.body, "bad", "bad"))
		if ct := resp.Header.Get("Content-Type"); ct != "application/json" {
			t.Errorf("a bad subscription is answered with %s", ct)
		}
		_ = resp.Body.Close()
	}
	in := open(t.Context(), session, fmt.Sprintf(plain, "cancelled", "cancelled"))
	_ = s.ask(t.Context(), "POST", session, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"cancelled"}}`).Body.Close()
	within(t, ended, "the cancelled stream")
	for in.Scan() {
		if strings.HasPrefix(in.Text(), "data:") {
			t.Errorf("after the cancellation: %s", in.Text())
		}
	}
	in = open(t.Context(), modern("events/stream"), fmt.Sprintf(body, "last", "last"))
	go s.Close()
	last := ""
	for in.Scan() {
		if strings.HasPrefix(in.Text(), "data:") {
			last = in.Text()
		}
	}
	if !strings.Contains(last, `"id":"last"`) || !strings.Contains(last, `"result"`) {
		t.Errorf("the last message is %s", last)
	}
}

// Clients that requested it are notified of changed event types, in both eras.
func TestEventListChanged(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, mcpserver.Options{Events: echoEvents(nil)}, "a")
	w := h.pipe(t)
	w.send(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"eventsListChanged":true},%s}}`, metaModern)
	w.expect(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"%ssubscriptionId":1},"notifications":{"eventsListChanged":true}}}`, metaName)
	old := h.pipe(t)
	old.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`)
	old.next()
	old.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	old.next()
	h.Subscriptions().ListChanged(subscriptions.Lists{Events: true})
	w.expect(`{"jsonrpc":"2.0","method":"notifications/events/list_changed","params":{"_meta":{"%ssubscriptionId":1}}}`, metaName)
	old.expect(`{"jsonrpc":"2.0","method":"notifications/events/list_changed","params":{}}`)
}
