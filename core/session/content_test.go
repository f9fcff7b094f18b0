package session_test

import (
	"encoding/json"
	"errors"
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
			"cut emoji":          {"contents": json.RawMessage(`[{"uri":"u","mimeType":"text/plain","text":"h\ud83d"}]`)},
			"other cut emoji":    {"contents": json.RawMessage(`[{"uri":"u","mimeType":"text/plain","text":"h\ud83e"}]`)},
			"cut emoji in a uri": {"contents": json.RawMessage(`[{"uri":"u\ud83d","text":"h"}]`)},
			"cut in another":     {"contents": json.RawMessage(`[{"uri":"u\ud83e","text":"h"}]`)},
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
