package mcpserver_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/mcpserver"
)

func seeds(f *testing.F) {
	for _, s := range []string{
		ping, toolList, call("echo", ","+metaModern), `[` + ping + `]`, `{}`, `[]`, `null`, `{"jsonrpc":"2.0"}`, "\x00", `{"id":1e999}`,
		`{"jsonrpc":"2.0","id":"\ud800","method":"ping"}`, `{"jsonrpc":"2.0","id":-0,"method":"tools/call","params":{"name":"echo","_meta":{"progressToken":{}}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"x"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"note:///a"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{` + metaModern + `,"notifications":{"resourceSubscriptions":["a",1]}}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"aaaaaaaa.0.-1"}}`,
		strings.Repeat(`{"a":`, 1000) + `1` + strings.Repeat(`}`, 1000),
	} {
		f.Add([]byte(s))
	}
}

// FuzzServeIO: for any input, every line of output is a message, with at most one response for an
// id, and the next request is answered.
func FuzzServeIO(f *testing.F) {
	seeds(f)
	h := newNoteServer(mcpserver.Options{MaxMessage: 1 << 16}, "a")
	f.Cleanup(h.Close)
	f.Fuzz(func(t *testing.T, input []byte) {
		if bytes.Contains(input, []byte(`"wait"`)) || bytes.Contains(input, []byte(`"proceed"`)) || bytes.Contains(input, []byte(`hold`)) {
			t.Skip("would wait")
		}
		var out bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		in := string(input) + "\n" + `{"jsonrpc":"2.0","id":"the last","method":"ping"}`
		if err := h.ServeIO(ctx, strings.NewReader(in), &out); err != nil {
			t.Fatal(err)
		}
		last := 0
		for lines := bufio.NewScanner(&out); lines.Scan(); {
			var m struct {
				JSONRPC string
				ID      json.RawMessage
				Method  string
				Result  json.RawMessage
				Error   *struct{ Code int }
			}
			if err := json.Unmarshal(lines.Bytes(), &m); err != nil || m.JSONRPC != "2.0" {
				t.Fatalf("%q: %v", lines.Text(), err)
			}
			if n := btoi(m.Result != nil) + btoi(m.Error != nil) + btoi(m.Method != ""); n != 1 {
				t.Errorf("neither answer nor notification: %s", lines.Text())
			}
			if string(m.ID) == `"the last"` {
				last++
			}
		}
		if last != 1 && !bytes.Contains(input, []byte("the last")) {
			t.Errorf("%d answers to the last request", last)
		}
		if got := h.Subscriptions().Stats(); got.Subscribers != 0 {
			t.Errorf("left: %+v", got)
		}
	})
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// FuzzServeHTTP: any body and headers get a well-formed response.
func FuzzServeHTTP(f *testing.F) {
	for _, version := range []string{"", "2025-11-25", "2026-07-28"} {
		f.Add([]byte(toolList), version, "tools/list", "")
		f.Add([]byte(call("echo", ","+metaModern)), version, "tools/call", "echo")
		f.Add([]byte(call("echo", ","+metaModern)), version, "tools/call", "=?base64?ZWNobw==?=")
		f.Add([]byte(ping), version, "", "")
	}
	h := newNoteServer(mcpserver.Options{MaxMessage: 1 << 16, MaxSessions: 10}, "a")
	f.Cleanup(h.Close)
	f.Fuzz(func(t *testing.T, body []byte, version, method, name string) {
		if bytes.Contains(body, []byte(`"wait"`)) || bytes.Contains(body, []byte(`"proceed"`)) || bytes.Contains(body, []byte(`hold`)) {
			t.Skip("would wait")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if bytes.Contains(body, []byte("listen")) {
			cancel() // the client has already disconnected
		}
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", bytes.NewReader(body))
		r.Header = http.Header{"Content-Type": {"application/json"}, "Mcp-Protocol-Version": {version}, "Mcp-Method": {method}, "Mcp-Name": {name}}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		switch {
		case w.Code == http.StatusAccepted && w.Body.Len() == 0:
		case strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream"):
		case strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") && json.Valid(w.Body.Bytes()):
		case w.Code == http.StatusRequestEntityTooLarge:
		default:
			t.Errorf("%d %v: %s", w.Code, w.Header(), w.Body)
		}
	})
}
