//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// Calls over HTTP repeat arguments in headers at the first try, however they are given. Tools
// that say so wrongly are not called, and lists mark them.
func TestCallsRepeatArgumentsInHeaders(t *testing.T) {
	t.Parallel()
	server := sessiontest.New()
	server.SetList("tools",
		json.RawMessage(`{"name":"geo","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}`),
		json.RawMessage(`{"name":"bad","invalid":"mine","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"a b"}}}}`))
	var mu sync.Mutex
	var calls []string
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if strings.Contains(string(body), `"tools/call"`) {
			mu.Lock()
			calls = append(calls, strings.Join(r.Header.Values("Mcp-Param-Region"), ","))
			mu.Unlock()
		}
		server.ServeHTTP(w, r)
	}))
	t.Cleanup(upstream.Close)
	conf := filepath.Join(t.TempDir(), "mcp-servers.json")
	save(t, conf, config(`"docs": {"type": "http", "url": "`+upstream.URL+`"}`))
	runFor(t, 0, "--config", conf, "call", "docs", "geo", "--args-json", `{"region":"eu"}`)
	runFor(t, 0, "--config", conf, "call", "docs", "geo", "--arg", "region=us")
	runFor(t, 0, "--config", conf, "call", "docs", "geo")
	_, errs := runFor(t, 5, "--config", conf, "call", "docs", "bad", "--args-json", `{"a":"b"}`)
	if !strings.Contains(errs, `tool "bad" is invalid`) {
		t.Errorf("said %s", errs)
	}
	mu.Lock()
	if got := strings.Join(calls, " "); got != "eu us " {
		t.Errorf("calls with %q", got)
	}
	mu.Unlock()
	if out, _ := runFor(t, 0, "--config", conf, "list", "tools"); !strings.Contains(out, "INVALID (") {
		t.Errorf("listed:\n%s", out)
	}
	out, _ := runFor(t, 0, "--config", conf, "list", "tools", "--json")
	var tools []struct{ Name, Invalid string }
	if err := json.Unmarshal([]byte(out), &tools); err != nil || len(tools) != 2 || !strings.Contains(tools[0].Invalid, "header") || tools[1].Invalid != "" {
		t.Errorf("%v, %s", err, out)
	}
}
