package session_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

func entry(kv ...any) map[string]any {
	m := map[string]any{}
	for i := 0; i < len(kv); i += 2 {
		m[kv[i].(string)] = kv[i+1]
	}
	return m
}

func TestContentDigest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(true, true)
		s := over(t, srv, config.Server{}, session.Options{})
		read := func(result map[string]any) *session.Content {
			t.Helper()
			srv.Fail(sessiontest.Fault{Method: "resources/read", Result: result, Times: 1})
			c, err := s.Read(t.Context(), "test://a")
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		of := func(entries ...map[string]any) map[string]any {
			return map[string]any{"contents": append([]map[string]any{}, entries...)}
		}
		base := read(of(entry("uri", "u", "mimeType", "text/plain", "text", "héllo")))
		if text, ok := base.Text(); !ok || text != "héllo" || base.Size != 6 || base.MimeType != "text/plain" {
			t.Errorf("%+v", base)
		}
		same := map[string]map[string]any{
			"volatile members": {"contents": []any{entry("text", "héllo", "uri", "u", "mimeType", "text/plain")},
				"_meta": entry("n", 1), "ttlMs": 5, "cacheScope": "private", "resultType": "complete"},
		}
		for name, result := range same {
			if c := read(result); c.Digest != base.Digest {
				t.Errorf("%s change the digest", name)
			}
		}
		seen := map[catalog.Digest]string{base.Digest: "base"}
		for name, result := range map[string]map[string]any{
			"other text":         of(entry("uri", "u", "mimeType", "text/plain", "text", "hello")),
			"other uri":          of(entry("uri", "v", "mimeType", "text/plain", "text", "héllo")),
			"other mime":         of(entry("uri", "u", "mimeType", "text/html", "text", "héllo")),
			"extra member":       of(entry("uri", "u", "mimeType", "text/plain", "text", "héllo", "x", 1)),
			"entry meta":         of(entry("uri", "u", "mimeType", "text/plain", "text", "héllo", "_meta", entry("rev", 2))),
			"two entries":        of(entry("uri", "u", "mimeType", "text/plain", "text", "hé"), entry("uri", "u", "mimeType", "text/plain", "text", "llo")),
			"blob":               of(entry("uri", "u", "mimeType", "text/plain", "blob", "aMOpbGxv")),
			"none":               of(),
			"no mime":            of(entry("uri", "u", "text", "héllo")),
			"mime in the middle": of(entry("uri", "umimeType", "text", "héllo")),
		} {
			c := read(result)
			if other, dup := seen[c.Digest]; dup {
				t.Errorf("%s and %s have the same digest", name, other)
			}
			seen[c.Digest] = name
			if name == "blob" {
				if _, ok := c.Text(); ok || c.Size != 6 {
					t.Errorf("blob: %+v", c)
				}
			}
		}
	})
}

func TestReadErrors(t *testing.T) {
	eachEra(t, func(t *testing.T, srv *sessiontest.Fake, s *session.Session) {
		if _, err := s.Read(t.Context(), "test://none"); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("missing: %v", err)
		}
		for _, f := range []sessiontest.Fault{
			{Result: map[string]any{"resultType": "input_required", "contents": []any{}}},
			{Result: map[string]any{"resultType": "strange", "contents": []any{}}},
			{Result: map[string]any{}},
			{Result: []int{1}},
			{Result: map[string]any{"contents": "x"}},
		} {
			f.Method, f.Times = "resources/read", 1
			srv.Fail(f)
			c, err := s.Read(t.Context(), "test://a")
			if err == nil || errors.Is(err, session.ErrNotFound) {
				t.Errorf("%v: %v, %v", f.Result, c, err)
			}
			if _, ok := errors.AsType[*session.InputRequiredError](err); ok != contains(err.Error(), "input") {
				t.Errorf("%v: %v", f.Result, err)
			}
		}
		if _, err := s.Read(t.Context(), "test://a"); err != nil {
			t.Error(err)
		}
	})
}

func TestCallAndPrompt(t *testing.T) {
	eachEra(t, func(t *testing.T, srv *sessiontest.Fake, s *session.Session) {
		raw, err := s.CallTool(t.Context(), "echo", map[string]any{"n": 1})
		if err != nil || !contains(string(raw), "echo map[n:1]") {
			t.Errorf("%s, %v", raw, err)
		}
		if raw, err = s.GetPrompt(t.Context(), "p", map[string]string{"a": "b"}); err != nil || !contains(string(raw), `"p"`) {
			t.Errorf("%s, %v", raw, err)
		}
		srv.Fail(sessiontest.Fault{Method: "tools/call", Code: -32602, Message: "unknown tool", Data: map[string]any{"x": 1}})
		_, err = s.CallTool(t.Context(), "none", nil)
		if e, ok := errors.AsType[*session.RPCError](err); !ok || e.Code != -32602 || string(e.Data) != `{"x":1}` {
			t.Errorf("%v", err)
		}
	})
}

func contains(s, part string) bool { return strings.Contains(s, part) }

func TestList(t *testing.T) {
	for _, era := range []session.Era{session.EraLegacy, session.EraModern} {
		t.Run(string(era), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer(era == session.EraLegacy, era == session.EraModern)
				srv.PageSize = 2
				srv.EmptyCursor = era == session.EraModern
				s := over(t, srv, config.Server{}, session.Options{Era: era})
				l, err := s.List(t.Context(), catalog.Resources)
				if err != nil || fmt.Sprint(l.Keys()) != "[test://a test://b test://c]" {
					t.Errorf("resources %v, %v", l.Keys(), err)
				}
				tools, err := s.List(t.Context(), catalog.Tools)
				if err != nil || len(tools) != 1 || !contains(string(tools[0].Raw), `"x-extra":9007199254740993`) {
					t.Errorf("tools %v, %v", tools, err)
				}
			})
		})
	}
}

func TestListOfUndeclaredKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(true, false)
		srv.Capabilities = map[string]any{"resources": map[string]any{}}
		srv.Fail(sessiontest.Fault{Method: "resources/templates/list", Code: -32601, Message: "no"})
		s := over(t, srv, config.Server{}, session.Options{})
		for _, k := range []catalog.Kind{catalog.Tools, catalog.Prompts, catalog.Templates} {
			if l, err := s.List(t.Context(), k); err != nil || len(l) != 0 {
				t.Errorf("%s: %v, %v", k, l, err)
			}
		}
		if n := srv.Count("tools/list") + srv.Count("prompts/list"); n != 0 {
			t.Errorf("%d requests for undeclared kinds", n)
		}
	})
}

func TestListsEndAtTheLimits(t *testing.T) {
	for _, tt := range []struct {
		name     string
		set      func(*sessiontest.Fake)
		limit    string
		requests int
	}{
		{"repeated cursor", func(s *sessiontest.Fake) { s.RepeatedCursor = true }, "its cursor repeats", 2},
		{"endless pages", func(s *sessiontest.Fake) { s.EndlessPages = true }, "5 pages", 5},
		{"too many items", func(s *sessiontest.Fake) {
			for i := range 50 {
				s.SetQuietly(fmt.Sprintf("test://%d", i), "")
			}
			s.PageSize = 9
		}, "20 items", 3},
		{"too many bytes", func(s *sessiontest.Fake) {
			for i := range 10 {
				s.SetQuietly(fmt.Sprintf("test://%d/%s", i, strings.Repeat("x", 4<<10)), "")
			}
			s.PageSize = 4
		}, "65536 bytes", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				srv := newServer(true, true)
				tt.set(srv)
				s := over(t, srv, config.Server{}, session.Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Limits: session.Limits{MaxPages: 5, MaxItems: 20, MaxList: 64 << 10}})
				list, err := s.List(t.Context(), catalog.Resources)
				if err != nil || len(list) == 0 || !strings.Contains(log.String(), tt.limit) || srv.Count("resources/list") != tt.requests {
					t.Errorf("%d items after %d requests, %v, and a warning %q; want one that names %q after %d requests", len(list), srv.Count("resources/list"), err, &log, tt.limit, tt.requests)
				}
			})
		})
	}
}

func TestListFailingPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(true, true)
		srv.PageSize = 1
		srv.Fail(sessiontest.Fault{Method: "resources/list", Page: 3, Code: -32603, Message: "boom\x1b[31m"})
		s := over(t, srv, config.Server{}, session.Options{})
		l, err := s.List(t.Context(), catalog.Resources)
		if err == nil || l != nil || contains(err.Error(), "\x1b") {
			t.Errorf("%v, %q", l, err)
		}
	})
}

func TestMalformedItemsAreSkippedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(true, true)
		srv.SetList(catalog.Tools, map[string]any{"name": "good"}, map[string]any{"title": "no name"}, map[string]any{"name": 5}, []int{1},
			map[string]any{"name": strings.Repeat("x", 8<<10+1)})
		s := over(t, srv, config.Server{}, session.Options{})
		l, err := s.List(t.Context(), catalog.Tools)
		if err != nil || fmt.Sprint(l.Keys()) != "[good]" {
			t.Errorf("%v, %v", l.Keys(), err)
		}
		if n := s.Signals().Take().Dropped[session.DroppedItems]; n != 4 {
			t.Errorf("%d counted", n)
		}
	})
}
