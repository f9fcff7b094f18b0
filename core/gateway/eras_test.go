package gateway

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// dualServer speaks both eras, and says so if named is set.
func dualServer(named bool) *sessiontest.Fake {
	s := sessiontest.New()
	s.NamesLegacy = named
	s.SetList(catalog.Tools, tool("ask"))
	return s
}

// eraOf tells in which era a server got the last call of a tool.
func (w *fixture) eraOf(id string) session.Era {
	w.Helper()
	if strings.Contains(string(w.last(id, "tools/call")["_meta"]), "protocolVersion") {
		return session.EraModern
	}
	return session.EraLegacy
}

// capable connects a legacy client that can be asked something.
func (w *fixture) capable() *session.Session {
	w.Helper()
	return w.clientOf(session.EraLegacy, &session.ClientSide{Capabilities: json.RawMessage(`{"sampling":{}}`)})
}

// Clients of either era are served in theirs by a server that speaks both, whichever of them
// it is tracked in.
func TestServersOfBothEras(t *testing.T) {
	for name, set := range map[string]func(*sessiontest.Fake){
		"tracked in the modern era":             func(*sessiontest.Fake) {},
		"tracked in the modern era, says so":    func(s *sessiontest.Fake) { s.NamesLegacy = true },
		"tracked in the legacy era, for pushes": func(s *sessiontest.Fake) { s.NamesLegacy = true; s.FailAck(sessiontest.AckFault{NoTools: true}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t)
				w.opts.Dial = w.Dial
				docs := dualServer(false)
				set(docs)
				w.Add("docs", docs)
				w.start(sessiontest.Entry("docs"))
				w.advance(5 * time.Second)
				modern, legacy := w.client(session.EraModern), w.capable()
				for range 2 {
					if _, err := w.do(modern, "tools/call", `{"name":"ask"}`); err != nil || w.eraOf("docs") != session.EraModern {
						t.Errorf("a modern client is served in the era %s, %v", w.eraOf("docs"), err)
					}
					if _, err := w.do(legacy, "tools/call", `{"name":"ask"}`); err != nil || w.eraOf("docs") != session.EraLegacy {
						t.Errorf("a legacy client is served in the era %s, %v", w.eraOf("docs"), err)
					}
				}
				if got := string(w.last("docs", "initialize")["capabilities"]); got != `{"sampling":{}}` {
					t.Errorf("initialize with %s", got)
				}
				// The server's own answers reach modern clients unchanged.
				docs.Fail(sessiontest.Fault{Method: "tools/call", Code: -32021, Message: "no", Data: map[string]any{"requiredCapabilities": map[string]any{"sampling": map[string]any{}}}})
				_, err := w.do(modern, "tools/call", `{"name":"ask"}`)
				if e, ok := errors.AsType[*session.RPCError](err); !ok || e.Code != -32021 || !strings.Contains(string(e.Data), "sampling") {
					t.Errorf("%v", err)
				}
				dials := len(w.Dialled("docs"))
				for range 3 {
					_, _ = w.do(w.client(session.EraModern), "tools/call", `{"name":"ask"}`)
				}
				if n := len(w.Dialled("docs")); n != dials {
					t.Errorf("%d sessions for three more modern clients", n-dials)
				}
			})
		})
	}
}

// A server that turns the legacy era down is asked once, by the first client that could use it.
func TestModernServersAreAskedOnceForTheLegacyEra(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.opts.Dial = w.Dial
		docs := w.Serve("docs", session.EraModern)
		docs.SetList(catalog.Tools, tool("ask"))
		w.start(sessiontest.Entry("docs"))
		for range 3 {
			c := w.capable()
			for range 2 {
				if _, err := w.do(c, "tools/call", `{"name":"ask"}`); err != nil {
					t.Error(err)
				}
			}
		}
		if n := docs.Count("initialize"); n != 1 {
			t.Errorf("%d initialize", n)
		}
		if n := len(w.Dialled("docs")); n != 2 {
			t.Errorf("%d sessions", n)
		}
	})
}

// When the process of the session that modern clients share ends, the next request gets another.
func TestSharedModernSessionIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.opts.Dial = w.Dial
		docs := dualServer(true)
		docs.FailAck(sessiontest.AckFault{NoTools: true})
		w.Add("docs", docs)
		w.start(sessiontest.Entry("docs"))
		w.advance(5 * time.Second)
		c := w.client(session.EraModern)
		for range 2 {
			if raw, err := w.do(c, "tools/call", `{"name":"ask"}`); err != nil || w.eraOf("docs") != session.EraModern {
				t.Fatalf("%s, %v, era %s", raw, err, w.eraOf("docs"))
			}
			docs.Disconnect()
			w.advance(5 * time.Second)
		}
	})
}
