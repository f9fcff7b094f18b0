package session_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// posted is a message that a scripted server received by POST.
type posted struct {
	Method string
	ID     json.RawMessage
	Params struct{ ProtocolVersion, Cursor string }
}

// scripted is a legacy server over HTTP whose responses a test changes. It keeps no stream.
func scripted(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, m posted) bool) config.Server {
	t.Helper()
	ts := listenOn(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m posted
		if body, _ := io.ReadAll(r.Body); r.Method != http.MethodPost || json.Unmarshal(body, &m) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		if answer(w, r, m) {
			return
		}
		switch m.Method {
		case "initialize":
			w.Header().Set("Mcp-Session-Id", "s")
			reply(w, "application/json", `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-03-26","capabilities":{"tools":{},"resources":{}},"serverInfo":{"name":"s","version":"1"}}}`, m.ID)
		case "tools/list":
			reply(w, "application/json", `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"one","inputSchema":{"type":"object"}}]}}`, m.ID)
		case "ping":
			reply(w, "application/json", `{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
		case "notifications/initialized":
			w.WriteHeader(http.StatusAccepted)
		default:
			reply(w, "application/json", `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID)
		}
	}))
	return httpEntry(ts.URL + "/mcp")
}

func reply(w http.ResponseWriter, contentType, format string, args ...any) {
	w.Header()["Content-Type"] = []string{contentType}
	fmt.Fprintf(w, format, args...)
}

const twoMessages = `[{"jsonrpc":"2.0","method":"notifications/tools/list_changed"},{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"one","inputSchema":{"type":"object"}}]}}]`

// What servers send that the specification forbids or that few send is received.
func TestUnusualResponsesAreRead(t *testing.T) {
	for name, answer := range map[string]func(w http.ResponseWriter, r *http.Request, m posted) bool{
		"a byte order mark": func(w http.ResponseWriter, _ *http.Request, m posted) bool {
			if m.Method == "tools/list" {
				reply(w, "application/json", "\ufeff"+`{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"one","inputSchema":{"type":"object"}}]}}`, m.ID)
			}
			return m.Method == "tools/list"
		},
		"a batch": func(w http.ResponseWriter, _ *http.Request, m posted) bool {
			if m.Method == "tools/list" {
				reply(w, "Application/JSON; charset=utf-8", twoMessages, m.ID)
			}
			return m.Method == "tools/list"
		},
		"a batch in an event": func(w http.ResponseWriter, _ *http.Request, m posted) bool {
			if m.Method == "tools/list" {
				reply(w, "Text/Event-Stream", "data: "+twoMessages+"\n\n", m.ID)
			}
			return m.Method == "tools/list"
		},
		"only integer ids": func(w http.ResponseWriter, _ *http.Request, m posted) bool {
			var id int
			return m.ID != nil && json.Unmarshal(m.ID, &id) != nil // and never answers
		},
		"a redirect that adds a slash": func(w http.ResponseWriter, r *http.Request, _ posted) bool {
			if r.URL.Path == "/mcp" {
				http.Redirect(w, r, "/mcp/", http.StatusTemporaryRedirect)
			}
			return r.URL.Path == "/mcp"
		},
		"notifications/initialized is refused": func(w http.ResponseWriter, _ *http.Request, m posted) bool {
			if m.Method == "notifications/initialized" {
				http.Error(w, "no", http.StatusBadRequest)
			}
			return m.Method == "notifications/initialized"
		},
		"an older version is requested with -32602": func(w http.ResponseWriter, _ *http.Request, m posted) bool {
			if m.Method != "initialize" || m.Params.ProtocolVersion == "2024-11-05" {
				return false
			}
			w.WriteHeader(http.StatusBadRequest)
			reply(w, "application/json", `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"Unsupported protocol version","data":{"supported":["2024-11-05"],"requested":"x"}}}`, m.ID)
			return true
		},
		"errors of methods have HTTP statuses": func(w http.ResponseWriter, _ *http.Request, m posted) bool {
			if strings.HasPrefix(m.Method, "resources/") {
				w.WriteHeader(http.StatusNotFound)
				reply(w, "application/json", `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID)
			}
			return strings.HasPrefix(m.Method, "resources/")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entry := scripted(t, answer)
			entry.Fallback = true
			s := dial(t, entry, session.Options{})
			if _, err := s.Subscribe(t.Context(), session.Filter{Tools: true}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.List(t.Context(), catalog.Resources); !errors.Is(err, session.ErrUnsupported) {
				t.Errorf("resources: %v", err)
			}
			if l, err := s.List(t.Context(), catalog.Tools); err != nil || fmt.Sprint(l.Keys()) != "[one]" {
				t.Errorf("tools: %v, %v", l.Keys(), err)
			}
			if s.Err() != nil || s.Info().Transport != config.TransportHTTP {
				t.Errorf("over %s: %v", s.Info().Transport, s.Err())
			}
			if _, told := s.Signals().Take().Lists[catalog.Tools]; strings.Contains(name, "batch") != told {
				t.Errorf("the change of tools was signalled: %v", told)
			}
		})
	}
}

// A redirect to another origin is not followed, and one in a circle ends.
func TestOtherRedirectsAreErrors(t *testing.T) {
	elsewhere := listenOn(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("another origin was asked") }))
	for name, to := range map[string]string{"another origin": elsewhere.URL + "/mcp", "a circle": "/mcp", "a file": "file:///etc/passwd"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entry := scripted(t, func(w http.ResponseWriter, r *http.Request, _ posted) bool {
				http.Redirect(w, r, to+"?"+strings.Repeat("x", 1-len(r.URL.RawQuery)), http.StatusPermanentRedirect)
				return true
			})
			entry.Protocol = config.ProtocolLegacy
			if _, err := session.Dial(t.Context(), entry, session.Options{}); err == nil || !strings.Contains(err.Error(), "redirects") {
				t.Error(err)
			}
		})
	}
}

// A session is lost if the server says so about all requests, not if it rejects one.
func TestUnknownSessionsEnd(t *testing.T) {
	for i, body := range []string{
		`{"jsonrpc":"2.0","id":%s,"error":{"code":-32001,"message":"Session not found"}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: no valid session ID%.0s"}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Server not initialized%.0s"}}`,
		`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"Invalid request parameters"}}`,
	} {
		status := []int{404, 400, 400, 200}[i]
		lost := false // only the test's goroutine makes requests
		s := dial(t, scripted(t, func(w http.ResponseWriter, _ *http.Request, m posted) bool {
			if lost {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				reply(w, "application/json", body, m.ID)
			}
			return lost
		}), session.Options{OneShot: true})
		lost = true
		_ = s.Ping(t.Context())
		eventually(t, "the session ends after "+body, func() bool { return s.Err() != nil })
	}
	s := dial(t, scripted(t, func(w http.ResponseWriter, _ *http.Request, m posted) bool {
		if m.Method == "ping" {
			reply(w, "application/json", `{"jsonrpc":"2.0","id":%s,"error":{"code":-32600,"message":"no ping"}}`, m.ID)
		}
		return m.Method == "ping"
	}), session.Options{})
	if err := s.Ping(t.Context()); err != nil || s.Err() != nil {
		t.Errorf("a server without ping: %v, %v", err, s.Err())
	}
}

// Before 2026-07-28, an empty cursor ends a list; a wrong one keeps what was read.
func TestCursorsThatEndALegacyList(t *testing.T) {
	for _, cursor := range []string{`""`, `"same"`, `7`, `null`} {
		s := dial(t, scripted(t, func(w http.ResponseWriter, _ *http.Request, m posted) bool {
			if m.Method == "tools/list" {
				reply(w, "application/json", `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"t%s","inputSchema":{"type":"object"}}],"nextCursor":%s}}`, m.ID, m.Params.Cursor, cursor)
			}
			return m.Method == "tools/list"
		}), session.Options{})
		want := "[t]"
		if cursor == `"same"` {
			want = "[t tsame]"
		}
		if l, err := s.List(t.Context(), catalog.Tools); err != nil || fmt.Sprint(l.Keys()) != want {
			t.Errorf("%s: %v, %v", cursor, l.Keys(), err)
		}
	}
}

// An error page is shown as its status, even if it is JSON that looks like an error.
func TestErrorPagesAreNoServerErrors(t *testing.T) {
	s := scripted(t, func(w http.ResponseWriter, _ *http.Request, _ posted) bool {
		w.WriteHeader(http.StatusNotFound)
		reply(w, "application/json", `{"error":"not found"}`)
		return true
	})
	_, err := session.Dial(t.Context(), s, session.Options{})
	if _, rpc := errors.AsType[*session.RPCError](err); err == nil || rpc || strings.Contains(err.Error(), fmt.Sprint(mcp.CodeInternal)) {
		t.Error(err)
	}
}

// An update that spells the URI differently is for the resource that is tracked. The first update of
// another resource is reported.
func TestUpdatesInAnotherSpelling(t *testing.T) {
	eachEra(t, func(t *testing.T, srv *sessiontest.Fake, s *session.Session) {
		mustSubscribe(t, s, session.Filter{URIs: []string{"file:///caf%C3%A9 a.md", "https://Example.com"}})
		for _, uri := range []string{"file:///café%20a.md", "https://example.com:443/", "file:///other.md", "file:///more.md"} {
			srv.Broadcast(map[string]any{"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": map[string]any{"uri": uri}})
		}
		b := take(t, s)
		if len(b.URIs) != 2 || b.URIs["file:///caf%C3%A9 a.md"].Count != 1 || b.URIs["https://Example.com"].Count != 1 || b.Unknown != "file:///other.md" {
			t.Errorf("%+v", b)
		}
	})
}
