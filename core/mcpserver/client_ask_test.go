package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// newAskingServer returns a server whose tool asks its client, on the stream of the call if
// that is wanted, and returns what it got.
func newAskingServer(t *testing.T, onStreamOfCall bool) *testServer {
	t.Helper()
	s := mcpserver.New(mcpserver.Options{CallTool: func(ctx context.Context, r *mcpserver.Request) (json.RawMessage, error) {
		if r.Client == nil {
			return content("nobody to ask"), nil
		}
		via := r
		if !onStreamOfCall {
			via = nil
		}
		got, err := r.Client.Ask(ctx, via, "roots/list", json.RawMessage(`{"a":1}`))
		if errors.Is(err, mcpserver.ErrUnreachable) {
			return content("unreachable"), nil
		}
		if err != nil {
			return content(fmt.Sprintf("refused: %v", err)), nil
		}
		return content("got " + strings.ReplaceAll(string(got), `"`, "'")), nil
	}})
	t.Cleanup(s.Close)
	return &testServer{Server: s}
}

func TestAskOverStdio(t *testing.T) {
	t.Parallel()
	w := newAskingServer(t, true).pipe(t)
	w.initialize()
	const ask = `{"jsonrpc":"2.0","id":%d,"method":"roots/list","params":{"a":1}}`
	for i, c := range []struct{ answer, want string }{
		{`"result":{"roots":[]}`, `got {'roots':[]}`},
		{`"error":{"code":-1,"message":"no"}`, `refused: no (-1)`},
		{`"error":7`, `malformed`},
	} {
		w.send(`{"jsonrpc":"2.0","id":"call","method":"tools/call","params":{"name":"x"}}`)
		w.expect(ask, i+1)
		w.send(`{"jsonrpc":"2.0","id":99,"result":{}}`) // not asked
		w.send(`{"jsonrpc":"2.0","id":%d,%s}`, i+1, c.answer)
		w.send(`{"jsonrpc":"2.0","id":%d,%s}`, i+1, c.answer) // twice
		if got := w.next(); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s", c.answer, got)
		}
	}
	// One who has closed its end can answer no more, but gets its answers.
	w.send(`{"jsonrpc":"2.0","id":"last","method":"tools/call","params":{"name":"x"}}`)
	w.expect(ask, 4)
	w.in.Close()
	if got := w.next(); !strings.Contains(got, "unreachable") {
		t.Errorf("%s", got)
	}
}

// Over HTTP a client is asked on the stream of its call, or on its GET stream.
func TestAskOverHTTP(t *testing.T) {
	t.Parallel()
	for _, onStreamOfCall := range []bool{true, false} {
		h := newAskingServer(t, onStreamOfCall)
		s := &endpoint{testServer: h, t: t, url: h.over(t).URL}
		headers := s.initialize()
		call := `{"jsonrpc":"2.0","id":"call","method":"tools/call","params":{"name":"x"}}`
		if !onStreamOfCall { // without a GET stream there is no way
			if _, body := s.post(headers, "%s", call); !strings.Contains(body, "unreachable") {
				t.Errorf("%s", body)
			}
		}
		const ask = `{"jsonrpc":"2.0","id":%s,"method":"roots/list","params":{"a":1}}`
		if onStreamOfCall {
			e := s.stream("POST", headers, call)
			e.expect(ask, "1")
			s.post(headers, `{"jsonrpc":"2.0","id":1,"result":{"by":"post"}}`)
			if got := e.next(); !strings.Contains(got, "'by':'post'") {
				t.Errorf("%s", got)
			}
			continue
		}
		get := s.stream("GET", headers, "")
		answered := make(chan string, 1)
		go func() {
			_, body := s.post(headers, "%s", call)
			answered <- body
		}()
		get.expect(ask, "2")
		s.post(headers, `{"jsonrpc":"2.0","id":2,"result":{"by":"get"}}`)
		if got := <-answered; !strings.Contains(got, "'by':'get'") {
			t.Errorf("%s", got)
		}
	}
}

func TestAskModernClient(t *testing.T) {
	t.Parallel()
	w := newAskingServer(t, true).pipe(t)
	w.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x",` + metaModern + `}}`)
	if got := w.next(); !strings.Contains(got, "nobody to ask") {
		t.Errorf("%s", got)
	}
}
