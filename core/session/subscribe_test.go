package session_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

var all = session.Filter{Tools: true, Prompts: true, Resources: true, URIs: []string{"test://a", "test://b"}}

// eachEra runs a test against a server of each era, over pipes, in fake time.
func eachEra(t *testing.T, f func(t *testing.T, srv *sessiontest.Fake, s *session.Session)) {
	for _, era := range []session.Era{session.EraLegacy, session.EraModern} {
		t.Run(string(era), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer(era == session.EraLegacy, era == session.EraModern)
				s := over(t, srv, config.Server{}, session.Options{Era: era})
				f(t, srv, s)
			})
		})
	}
}

func mustSubscribe(t *testing.T, s *session.Session, f session.Filter) session.Ack {
	t.Helper()
	ack, err := s.Subscribe(t.Context(), f)
	if err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	return ack
}

func take(t *testing.T, s *session.Session) session.Dirty {
	t.Helper()
	synctest.Wait()
	return s.Signals().Take()
}

func TestSubscribeAndSignals(t *testing.T) {
	eachEra(t, func(t *testing.T, srv *sessiontest.Fake, s *session.Session) {
		ack := mustSubscribe(t, s, all)
		if len(ack.MissingURIs)+len(ack.MissingLists) > 0 || len(ack.Honoured.URIs) != 2 || !ack.Honoured.Tools {
			t.Errorf("ack %+v", ack)
		}
		start := time.Now()
		time.Sleep(time.Second)
		srv.Set("test://a", "1")
		time.Sleep(time.Second)
		srv.Set("test://a", "2")
		srv.NotifyListChanged(catalog.Tools)
		srv.NotifyListChanged(catalog.Templates)
		synctest.Wait()
		select {
		case <-s.Signals().C():
		default:
			t.Error("no wake-up")
		}
		b := s.Signals().Take()
		if sig := b.URIs["test://a"]; sig.Count != 2 || sig.First.Sub(start) != time.Second || sig.Parent != "" {
			t.Errorf("signal %+v", sig)
		}
		if len(b.URIs) != 1 || len(b.Lists) != 3 || b.Gap != "" || len(b.Dropped) != 0 {
			t.Errorf("batch %+v", b)
		}
		if b := take(t, s); len(b.URIs)+len(b.Lists) != 0 {
			t.Errorf("taken twice: %+v", b)
		}
	})
}

func TestSubscribeIsIncremental(t *testing.T) {
	eachEra(t, func(t *testing.T, srv *sessiontest.Fake, s *session.Session) {
		mustSubscribe(t, s, all)
		before := len(srv.Wire())
		mustSubscribe(t, s, all)
		if n := len(srv.Wire()); n != before {
			t.Errorf("repeating the call cost %d messages", n-before)
		}
		f := all
		f.URIs = []string{"test://b", "test://c", "test://c"}
		ack := mustSubscribe(t, s, f)
		synctest.Wait()
		if got := fmt.Sprint(srv.Subscribed()); got != "[test://b test://c]" {
			t.Errorf("subscribed %s", got)
		}
		switch s.Info().Era {
		case session.EraLegacy:
			if a, b := srv.Count("resources/subscribe"), srv.Count("resources/unsubscribe"); a != 3 || b != 1 {
				t.Errorf("%d subscribe, %d unsubscribe", a, b)
			}
			if b := take(t, s); b.Gap != "" {
				t.Errorf("gap %q", b.Gap)
			}
		case session.EraModern:
			if srv.Listens() != 1 || srv.Count("resources/subscribe") != 0 {
				t.Errorf("%d listens", srv.Listens())
			}
			if !ack.Interrupted {
				t.Error("a replaced listen on stdio is an interruption")
			}
		}
		srv.Set("test://a", "x")
		srv.Set("test://c", "x")
		if b := take(t, s); len(b.URIs) != 1 || b.URIs["test://c"].Count != 1 {
			t.Errorf("%+v", b)
		}
		mustSubscribe(t, s, session.Filter{})
		synctest.Wait()
		if len(srv.Subscribed()) != 0 || srv.Listens() != 0 {
			t.Errorf("left over: %v, %d listens", srv.Subscribed(), srv.Listens())
		}
	})
}

// The outcome of an aborted request is unknown. The next Subscribe reaches the wanted state, and
// keeps the responses to the other requests.
func TestAbortedSubscribe(t *testing.T) {
	const a, b = "test://a", "test://b"
	for name, tt := range map[string]struct {
		method             string
		from, aborted, end []string
	}{
		"subscribe, wanted no more":   {"resources/subscribe", nil, []string{a, b}, nil},
		"subscribe, still wanted":     {"resources/subscribe", nil, []string{a, b}, []string{a, b}},
		"unsubscribe, wanted again":   {"resources/unsubscribe", []string{a, b}, nil, []string{a, b}},
		"unsubscribe, wanted no more": {"resources/unsubscribe", []string{a, b}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer(true, false)
				s := over(t, srv, config.Server{}, session.Options{})
				mustSubscribe(t, s, session.Filter{URIs: tt.from})
				srv.Fail(sessiontest.Fault{Method: tt.method, URI: a, Delay: time.Minute, Old: true, Times: 1})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := s.Subscribe(ctx, session.Filter{URIs: tt.aborted}); !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("aborted: %v", err)
				}
				mustSubscribe(t, s, session.Filter{URIs: tt.end})
				if got := fmt.Sprint(srv.Subscribed()); got != fmt.Sprint(tt.end) {
					t.Errorf("subscribed %s, want %s", got, tt.end)
				}
				before := len(srv.Wire())
				mustSubscribe(t, s, session.Filter{URIs: tt.end})
				if n := len(srv.Wire()); n != before {
					t.Errorf("repeating the call cost %d messages", n-before)
				}
			})
		})
	}
}

// A server that confirms late may push before that.
func TestUnconfirmedSubscribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(true, false)
		s := over(t, srv, config.Server{}, session.Options{})
		srv.Fail(sessiontest.Fault{Method: "resources/subscribe", URI: "test://a", Delay: time.Hour, Old: true})
		if ack := mustSubscribe(t, s, all); !slices.Equal(ack.MissingURIs, []string{"test://a"}) {
			t.Errorf("ack %+v", ack)
		}
		mustSubscribe(t, s, session.Filter{})
		if got := srv.Subscribed(); len(got) != 0 {
			t.Errorf("left over: %v", got)
		}
	})
}

func TestRefusedURIs(t *testing.T) {
	many := session.Filter{Tools: true}
	for i := range 40 {
		many.URIs = append(many.URIs, fmt.Sprintf("test://x/%02d", i))
	}
	bad := []string{"test://x/07", "test://x/23"}
	eachEra(t, func(t *testing.T, srv *sessiontest.Fake, s *session.Session) {
		for _, named := range []bool{true, false} {
			srv.FailAck(sessiontest.AckFault{Reject: bad, Name: named})
			for _, u := range bad {
				srv.Fail(sessiontest.Fault{Method: "resources/subscribe", URI: u, Code: -32603, Message: "no"})
			}
			ack := mustSubscribe(t, s, many)
			missing := bad
			if !named && s.Info().Era == session.EraModern { // which of them are refused is unknown
				missing = many.URIs
			}
			if !slices.Equal(ack.MissingURIs, missing) || len(ack.Honoured.URIs) != 40-len(missing) || !ack.Honoured.Tools {
				t.Errorf("named=%v: missing %v, honoured %d", named, ack.MissingURIs, len(ack.Honoured.URIs))
			}
			mustSubscribe(t, s, session.Filter{})
		}
	})
}

func TestSubscribeUnsupported(t *testing.T) {
	eachEra(t, func(t *testing.T, srv *sessiontest.Fake, s *session.Session) {
		srv.Fail(sessiontest.Fault{Method: "resources/subscribe", Code: -32601, Message: "no"})
		srv.Fail(sessiontest.Fault{Method: "subscriptions/listen", Code: -32601, Message: "no"})
		ack, err := s.Subscribe(t.Context(), all)
		if !errors.Is(err, session.ErrUnsupported) || len(ack.MissingURIs) != 2 {
			t.Errorf("%+v, %v", ack, err)
		}
		if legacy := s.Info().Era == session.EraLegacy; ack.Honoured.Tools != legacy || (len(ack.MissingLists) == 0) != legacy {
			t.Errorf("lists: %+v", ack)
		}
	})
}

func TestSubscribeWithoutCapability(t *testing.T) {
	for _, era := range []session.Era{session.EraLegacy, session.EraModern} {
		synctest.Test(t, func(t *testing.T) {
			srv := newServer(era == session.EraLegacy, era == session.EraModern)
			srv.Capabilities = map[string]any{"resources": map[string]any{}, "tools": map[string]any{"listChanged": true}}
			s := over(t, srv, config.Server{}, session.Options{Era: era})
			ack, err := s.Subscribe(t.Context(), all)
			if !errors.Is(err, session.ErrUnsupported) || len(ack.MissingURIs) != 2 || !ack.Honoured.Tools {
				t.Errorf("%s: %+v, %v", era, ack, err)
			}
			if srv.Count("resources/subscribe") != 0 {
				t.Error("subscribed without the capability")
			}
			srv.NotifyListChanged(catalog.Tools)
			if b := take(t, s); len(b.Lists) != 1 {
				t.Errorf("%s: %+v", era, b)
			}
		})
	}
}

func TestAckFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(false, true)
		s := over(t, srv, config.Server{}, session.Options{Era: session.EraModern})
		srv.FailAck(sessiontest.AckFault{Hide: []string{"test://b"}, NoTools: true, Early: true})
		ack := mustSubscribe(t, s, all)
		if !slices.Equal(ack.MissingURIs, []string{"test://b"}) || !slices.Equal(ack.MissingLists, []catalog.Kind{catalog.Tools}) {
			t.Errorf("ack %+v", ack)
		}
		if b := take(t, s); b.Dropped["before_ack"] != 1 || len(b.URIs) != 0 {
			t.Errorf("%+v", b)
		}
		mustSubscribe(t, s, session.Filter{})

		srv.FailAck(sessiontest.AckFault{Never: true})
		start := time.Now()
		if _, err := s.Subscribe(t.Context(), all); err == nil || time.Since(start) != 10*time.Second {
			t.Errorf("never acknowledged: %v after %v", err, time.Since(start))
		}
		synctest.Wait()
		if srv.Listens() != 0 {
			t.Error("the listen was not cancelled")
		}

		srv.FailAck(sessiontest.AckFault{Hide: all.URIs})
		ack = mustSubscribe(t, s, session.Filter{URIs: all.URIs})
		if len(ack.MissingURIs) != 2 {
			t.Errorf("ack %+v", ack)
		}
		if b := take(t, s); b.Gap != "" {
			t.Errorf("an empty subset is no gap: %q", b.Gap)
		}
	})
}

func TestEndedListenIsAGap(t *testing.T) {
	for name, end := range map[string]func(*sessiontest.Fake){
		"graceful":  func(srv *sessiontest.Fake) { srv.EndListens(true) },
		"cancelled": func(srv *sessiontest.Fake) { srv.CancelListens() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer(false, true)
				s := over(t, srv, config.Server{}, session.Options{Era: session.EraModern})
				mustSubscribe(t, s, all)
				end(srv)
				if b := take(t, s); b.Gap == "" {
					t.Error("no gap")
				}
				start := time.Now()
				mustSubscribe(t, s, all)
				if d := time.Since(start); d < 900*time.Millisecond || d > 1100*time.Millisecond {
					t.Errorf("listened again after %v", d)
				}
				srv.Set("test://a", "x")
				if b := take(t, s); len(b.URIs) != 1 || b.Gap != "" {
					t.Errorf("%+v", b)
				}
			})
		})
	}
}

func TestSubscriptionIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(false, true)
		s := over(t, srv, config.Server{}, session.Options{Era: session.EraModern})
		mustSubscribe(t, s, all)
		srv.Broadcast(map[string]any{"jsonrpc": "2.0", "method": "notifications/resources/updated",
			"params": map[string]any{"uri": "test://a", "_meta": map[string]any{"io.modelcontextprotocol/subscriptionId": "other"}}})
		srv.Broadcast(map[string]any{"jsonrpc": "2.0", "method": "notifications/resources/updated",
			"params": map[string]any{"uri": "test://a", "_meta": map[string]any{"io.modelcontextprotocol/subscriptionId": 7}}})
		srv.Broadcast(map[string]any{"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
			"params": map[string]any{"notifications": "?", "_meta": map[string]any{"io.modelcontextprotocol/subscriptionId": "other"}}})
		if b := take(t, s); len(b.URIs) != 0 || b.Dropped["foreign_subscription"] != 3 {
			t.Errorf("%+v", b)
		}
		srv.Untagged = true
		srv.Set("test://a", "x")
		if b := take(t, s); len(b.URIs) != 1 || b.Dropped["untagged"] != 1 {
			t.Errorf("%+v", b)
		}
	})
}

func TestSubResources(t *testing.T) {
	eachEra(t, func(t *testing.T, srv *sessiontest.Fake, s *session.Session) {
		mustSubscribe(t, s, session.Filter{URIs: []string{"test://dir/", "test://a"}})
		srv.NotifyUpdated("test://dir/one?x=1")
		srv.NotifyUpdated("test://a/b/c")
		b := take(t, s)
		if b.URIs["test://dir/one?x=1"].Parent != "test://dir/" || b.URIs["test://a/b/c"].Parent != "test://a" {
			t.Errorf("%+v", b)
		}
		for i := range 1500 {
			srv.NotifyUpdated(fmt.Sprintf("test://a/%d", i))
		}
		b = take(t, s)
		if len(b.URIs) != 1001 || b.URIs["test://a"].Count != 500 {
			t.Errorf("%d URIs, parent %+v", len(b.URIs), b.URIs["test://a"])
		}
	})
}

func TestUnsubscribedAreDropped(t *testing.T) {
	eachEra(t, func(t *testing.T, srv *sessiontest.Fake, s *session.Session) {
		mustSubscribe(t, s, session.Filter{URIs: []string{"test://a"}})
		srv.Untagged = true
		for i := range 10_000 {
			srv.Broadcast(map[string]any{"jsonrpc": "2.0", "method": "notifications/resources/updated",
				"params": map[string]any{"uri": fmt.Sprintf("test://unsubscribed/%d", i)}})
		}
		srv.Broadcast(map[string]any{"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": map[string]any{"uri": 5}})
		b := take(t, s)
		want := 10_000
		if len(b.URIs) != 0 || b.Dropped["malformed"] != 1 || b.Dropped["unsubscribed"] != want || b.Dropped["untagged"] != 0 {
			t.Errorf("%d URIs, dropped %v", len(b.URIs), b.Dropped)
		}
	})
}

func TestOverflowIsAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(true, false)
		s := over(t, srv, config.Server{}, session.Options{Limits: session.Limits{MaxDirty: 2}})
		f := session.Filter{URIs: []string{"test://1", "test://2", "test://3"}}
		mustSubscribe(t, s, f)
		for _, u := range f.URIs {
			srv.NotifyUpdated(u)
		}
		if b := take(t, s); len(b.URIs) != 2 || b.Gap == "" || b.Dropped["overflow"] != 1 {
			t.Errorf("%+v", b)
		}
	})
}
