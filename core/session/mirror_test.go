package session_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
)

// A tool that wants arguments repeated in headers gets them, also when it is called
// before anybody has listed it.
func TestArgumentsAreMirroredInHeaders(t *testing.T) {
	t.Parallel()
	for _, listFirst := range []bool{false, true} {
		srv := newServer(false, true)
		srv.SetList(catalog.Tools, json.RawMessage(`{"name":"geo","inputSchema":{"type":"object","properties":{
			"region":{"type":"string","x-mcp-header":"Region"},"level":{"type":"integer","x-mcp-header":"Level"},"other":{"type":"string"}}}}`),
			json.RawMessage(`{"name":"bad","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"a b\r\n"}}}}`))
		var mu sync.Mutex
		var calls []string
		ts := listenOn(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			var q struct {
				ID     json.RawMessage
				Method string
			}
			_ = json.Unmarshal(body, &q)
			if q.Method == "tools/call" {
				got := fmt.Sprintf("%q %q", r.Header.Values("Mcp-Param-Region"), r.Header.Values("Mcp-Param-Level"))
				mu.Lock()
				calls = append(calls, got)
				mu.Unlock()
				if got != `["=?base64?w6k=?="] ["3"]` {
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(http.StatusBadRequest)
					fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32020,"message":"header mismatch"}}`, q.ID)
					return
				}
			}
			srv.ServeHTTP(w, r)
		}))
		entry := httpEntry(ts.URL)
		entry.Protocol = config.ProtocolModern
		s := dial(t, entry, session.Options{})
		if listFirst {
			if _, err := s.List(t.Context(), catalog.Tools); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.CallTool(t.Context(), "geo", map[string]any{"region": "é", "level": 3, "other": "x"}); err != nil {
			t.Error(err)
		}
		if _, err := s.Do(t.Context(), session.Request{Method: "tools/call", Params: rawParams(t, `{"name":"geo","arguments":{"region":"é","level":3}}`)}); err != nil {
			t.Error(err)
		}
		if len(calls) != 2 {
			t.Errorf("%d calls: %s", len(calls), calls)
		}
		// A tool that says it wrongly is not called.
		_, err := s.CallTool(t.Context(), "bad", map[string]any{"a": "b"})
		if e, ok := errors.AsType[*session.InvalidToolError](err); !ok || !strings.Contains(e.Error(), "x-mcp-header") || len(calls) != 2 {
			t.Errorf("%v after %d calls", err, len(calls))
		}
		// What still does not fit is an error, tried once more in case the tools have changed.
		_, err = s.CallTool(t.Context(), "plain", nil)
		if e, ok := errors.AsType[*session.RPCError](err); !ok || e.Code != -32020 || len(calls) != 4 {
			t.Errorf("%v after %d calls", err, len(calls))
		}
		r := session.Probe(t.Context(), []config.Server{entry}, session.ProbeOptions{})[0]
		if r.Err != nil || len(r.Invalid) != 1 || r.Invalid["bad"] == "" {
			t.Errorf("%v, %v", r.Err, r.Invalid)
		}
	}
}
