package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// overEveryEventsTransport runs the test over stdio and Streamable HTTP, in both eras.
func overEveryEventsTransport(t *testing.T, srv func() *sessiontest.Fake, test func(t *testing.T, srv *sessiontest.Fake, s *session.Session)) {
	t.Helper()
	for _, modern := range []bool{false, true} {
		era := map[bool]string{false: "legacy", true: "modern"}[modern]
		t.Run("stdio "+era, func(t *testing.T) {
			s := srv()
			s.Legacy, s.Modern = !modern, modern
			test(t, s, over(t, s, config.Server{}, session.Options{}))
		})
		t.Run("http "+era, func(t *testing.T) {
			s := srv()
			s.Legacy, s.Modern = !modern, modern
			test(t, s, dial(t, httpEntry(listenOn(t, s).URL), session.Options{}))
		})
	}
}

func offering(feed *sessiontest.Feed) func() *sessiontest.Fake {
	return func() *sessiontest.Fake {
		s := sessiontest.New()
		s.Capabilities["extensions"] = map[string]any{mcp.ExtensionEvents: map[string]any{"listChanged": true}}
		s.Events = feed.Handle
		return s
	}
}

func TestEventsOverEveryTransport(t *testing.T) {
	t.Parallel()
	var feed *sessiontest.Feed
	overEveryEventsTransport(t, func() *sessiontest.Fake {
		feed = sessiontest.NewFeed("page.changed")
		return offering(feed)()
	}, func(t *testing.T, srv *sessiontest.Fake, s *session.Session) {
		if !s.Info().Capabilities.Events {
			t.Fatal("not offered")
		}
		types, err := s.ListEventTypes(t.Context())
		if err != nil || len(types) != 1 || types[0].Name != "page.changed" || !slices.Equal(types[0].Delivery, []mcp.DeliveryMode{"poll", "push"}) {
			t.Fatalf("%+v, %v", types, err)
		}
		page, err := s.PollEvents(t.Context(), session.EventQuery{Name: "page.changed"})
		if err != nil || len(page.Events) != 0 || page.Cursor != "0" || page.NextPoll.Milliseconds() != 1000 {
			t.Fatalf("%+v, %v", page, err)
		}
		feed.Emit("page.changed", map[string]any{"url": "a://1"})
		if page, err = s.PollEvents(t.Context(), session.EventQuery{Name: "page.changed", Cursor: page.Cursor, Arguments: json.RawMessage(`{"space":"X"}`)}); err != nil || len(page.Events) != 1 || page.Cursor != "1" {
			t.Fatalf("%+v, %v", page, err)
		}
		if o, err := session.DecodeEvent(page.Events[0]); err != nil || o.EventID != "e1" || string(o.Data) != `{"url":"a://1"}` {
			t.Errorf("%+v, %v", o, err)
		}
		_, params := lastCall(t, srv, "events/poll")
		if string(params["cursor"]) != `"0"` || string(params["arguments"]) != `{"space":"X"}` {
			t.Errorf("sent %s", params)
		}

		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		got := make(chan session.EventMessage, 100)
		ended := make(chan error, 1)
		go func() {
			ended <- s.StreamEvents(ctx, session.EventQuery{Name: "page.changed", Cursor: "0"}, func(m session.EventMessage) { got <- m })
		}()
		for i, want := range []string{mcp.NotificationEventsActive, mcp.NotificationEventsEvent, mcp.NotificationEventsEvent} {
			m := <-got
			news, err := m.Decode()
			if m.Method != want || err != nil || news.Cursor != fmt.Sprint(i) {
				t.Fatalf("message %d: %s %+v, %v", i, m.Method, news, err)
			}
			if i == 1 {
				feed.Emit("page.changed", map[string]any{"url": "a://2"})
			}
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
		eventually(t, "the server ends the stream", func() bool { return feed.Streams() == 0 })
		for _, w := range srv.Wire() {
			if name, sent := w.Header["Mcp-Name"]; sent && strings.HasPrefix(w.Method, "events/") {
				t.Errorf("%s has the header Mcp-Name: %s", w.Method, name)
			}
		}
	})
}

// MCP Events are declared to servers of both eras, unless the config says off.
func TestEventsAreDeclared(t *testing.T) {
	t.Parallel()
	for _, modern := range []bool{false, true} {
		for _, off := range []bool{false, true} {
			srv := newServer(!modern, modern)
			s := over(t, srv, config.Server{Tracking: config.Tracking{Events: config.Events{Off: off}}}, session.Options{})
			_ = s.Ping(t.Context())
			method := map[bool]string{false: "initialize", true: "server/discover"}[modern]
			_, params := lastCall(t, srv, method)
			want := map[bool]string{false: `{"extensions":{"io.modelcontextprotocol/events":{}}}`, true: `{}`}[off]
			var meta map[string]json.RawMessage
			_ = json.Unmarshal(params["_meta"], &meta)
			if got := string(params["capabilities"]) + string(meta[mcp.MetaClientCapabilities]); got != want {
				t.Errorf("modern %t, off %t: declared %s", modern, off, got)
			}
		}
	}
}

// Changes of the event types arrive on the channel; in the modern era, after a subscription.
func TestEventListChangesArrive(t *testing.T) {
	t.Parallel()
	overEveryEventsTransport(t, offering(sessiontest.NewFeed("a")), func(t *testing.T, srv *sessiontest.Fake, s *session.Session) {
		if strings.HasSuffix(t.Name(), "modern") {
			ack, err := s.Subscribe(t.Context(), session.Filter{Events: true})
			if _, params := lastCall(t, srv, "subscriptions/listen"); err != nil || !ack.Honoured.Events || !strings.Contains(string(params["notifications"]), `"eventsListChanged":true`) {
				t.Fatalf("sent %s, got %+v (%v)", params, ack, err)
			}
		}
		srv.NotifyEventsChanged()
		eventually(t, "the announcement arrives", func() bool {
			select {
			case <-s.EventTypesChanged():
				return true
			default:
				return false
			}
		})
	})
}

func TestEventTypesOfHostileServers(t *testing.T) {
	t.Parallel()
	good := sessiontest.EventType("good", "push")
	many := make([]any, 1001)
	var names []string
	for i := range many {
		names = append(names, fmt.Sprint("t", i))
		many[i] = sessiontest.EventType(names[i], "poll")
	}
	for name, c := range map[string]struct {
		result any
		want   string // the names, or the error
	}{
		"bad entries":     {map[string]any{"events": []any{7, nil, map[string]any{}, map[string]any{"name": "x", "delivery": []string{}}, map[string]any{"name": "y", "delivery": []string{"fax"}}, map[string]any{"name": strings.Repeat("n", 300), "delivery": []string{"poll"}}, good}}, "good"},
		"no schemas":      {map[string]any{"events": []any{map[string]any{"name": "z", "delivery": []string{"fax", "poll"}}}}, "z"},
		"too many":        {map[string]any{"events": many, "nextCursor": "more"}, strings.Join(names[:1000], " ")},
		"endless":         {map[string]any{"events": []any{good}, "nextCursor": "same"}, "good good"},
		"not a list":      {map[string]any{"events": 7}, `events/list: malformed result: "events" is not a list`},
		"nothing":         {map[string]any{}, `events/list: malformed result: no "events"`},
		"unknown results": {map[string]any{"resultType": "later"}, `events/list: events/list: unknown resultType "later"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := offering(nil)()
			srv.Events = func(*sessiontest.EventCall) (any, *sessiontest.EventError) { return c.result, nil }
			types, err := over(t, srv, config.Server{}, session.Options{}).ListEventTypes(t.Context())
			var got []string
			for _, one := range types {
				got = append(got, one.Name)
			}
			if err != nil {
				got = []string{err.Error()}
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("got %q, want %q", s, c.want)
			}
		})
	}
}

// A server with a new cursor on every page is stopped after the page limit.
func TestEventPagesAreCounted(t *testing.T) {
	t.Parallel()
	srv := offering(nil)()
	n := 0
	srv.Events = func(*sessiontest.EventCall) (any, *sessiontest.EventError) {
		n++
		return map[string]any{"events": []any{}, "nextCursor": fmt.Sprint(n)}, nil
	}
	_, err := over(t, srv, config.Server{}, session.Options{}).ListEventTypes(t.Context())
	if err != nil || n != 100 {
		t.Errorf("%v after %d pages", err, n)
	}
}

func TestDecodeEvent(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		`{"eventId":"1","name":"a","timestamp":"2026-11-22T10:00:00Z","data":{},"cursor":null,"more":7}`: true,
		`{"eventId":"1","name":"a","timestamp":7,"data":{"x":[1]},"cursor":7}`:                           true,
		`{"eventId":1,"name":"a","data":{}}`:                                                             false,
		`{"eventId":"","name":"a","data":{}}`:                                                            false,
		`{"eventId":"1","data":{}}`:                                                                      false,
		`{"eventId":"1","name":"a"}`:                                                                     false,
		`{"eventId":"1","name":"a","data":[]}`:                                                           false,
		`{"eventId":"1","name":"a","data":null}`:                                                         false,
		`[]`:                                                                                             false,
		`{"eventId":"` + strings.Repeat("x", 9000) + `","name":"a","data":{}}`:                           false,
	} {
		if o, err := session.DecodeEvent(json.RawMessage(text)); (err == nil) != ok || o.Cursor != "" {
			t.Errorf("%.100s: %+v, %v", text, o, err)
		}
	}
}

// A failure is recognised by its code or by its message.
func TestEventFailuresOfBothNumberings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code    int
		message string
		want    mcp.EventFailure
	}{
		{-32023, "x", mcp.EventNotFound}, {-32011, "x", mcp.EventNotFound}, {-32024, "", mcp.EventForbidden}, {-32012, "", mcp.EventForbidden},
		{-32025, "", mcp.EventResourceExhausted}, {-32013, "", mcp.EventResourceExhausted}, {-32026, "", mcp.EventUnsupported}, {-32014, "", mcp.EventUnsupported},
		{-32027, "", mcp.EventCallbackEndpointError}, {-32015, "", mcp.EventCallbackEndpointError}, {-32000, "forbidden", mcp.EventForbidden}, {-32602, "InvalidParams", ""},
	} {
		if got := session.EventFailure(fmt.Errorf("events/poll: %w", &session.RPCError{Code: c.code, Message: c.message})); got != c.want {
			t.Errorf("%d %q: %q, want %q", c.code, c.message, got, c.want)
		}
	}
	if got := session.EventFailure(errors.New("NotFound")); got != "" {
		t.Errorf("an error that is not a response: %q", got)
	}
}
