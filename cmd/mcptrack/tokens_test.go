//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const tokenA, tokenB = "token-a-0123456789-abcdefgh", "token-b-0123456789-abcdefgh"

// newTokenFile returns the path of a new token file.
func newTokenFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	save(t, path, text)
	return path
}

// opened is a client's stream.
type opened struct {
	what  string
	ended chan struct{} // closed after the stream has ended
}

func (o *opened) over() bool {
	select {
	case <-o.ended:
		return true
	default:
		return false
	}
}

// openStream sends a request and waits for the first bytes of its stream.
func openStream(t *testing.T, method, url, token, body string, header map[string]string) *opened {
	t.Helper()
	o := &opened{what: fmt.Sprint(method, " ", header["Mcp-Method"], " ", url, " with ", token), ended: make(chan struct{})}
	p := send(t, method, url, token, body, header)
	if _, err := p.Body.Read(make([]byte, 1)); err != nil || p.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", o.what, p.Status, err)
	}
	go func() {
		defer close(o.ended)
		_, _ = io.Copy(io.Discard, p.Body)
		_ = p.Body.Close()
	}()
	return o
}

func send(t *testing.T, method, url, token, body string, header map[string]string) *http.Response {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+token)
	q.Header.Set("Accept", "application/json, text/event-stream")
	if body != "" {
		q.Header.Set("Content-Type", "application/json")
	}
	for name, value := range header {
		q.Header.Set(name, value)
	}
	p, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// openMCP opens every kind of stream that an MCP endpoint has.
func openMCP(t *testing.T, url, token string, events bool) (all []*opened) {
	t.Helper()
	begun := send(t, "POST", url, token, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, nil)
	answer, _ := io.ReadAll(begun.Body)
	_ = begun.Body.Close()
	session := map[string]string{"Mcp-Session-Id": begun.Header.Get("Mcp-Session-Id")}
	if session["Mcp-Session-Id"] == "" {
		t.Fatalf("%s: %s", begun.Status, answer)
	}
	// A GET stream has no first byte before something happens, so its end shows it.
	get := &opened{what: "the GET stream of " + token, ended: make(chan struct{})}
	p := send(t, "GET", url, token, "", session)
	go func() {
		defer close(get.ended)
		_, _ = io.Copy(io.Discard, p.Body)
		_ = p.Body.Close()
	}()
	all = append(all, get)
	if p.StatusCode != http.StatusOK {
		t.Fatalf("the GET stream: %s", p.Status)
	}
	modern := func(method, params string) *opened {
		return openStream(t, "POST", url, token, fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, method, params),
			map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method})
	}
	all = append(all, modern("subscriptions/listen", `"notifications":{"toolsListChanged":true},`))
	if events {
		all = append(all, modern("events/stream", `"name":"resource.updated",`),
			openStream(t, "POST", url, token, `{"jsonrpc":"2.0","id":3,"method":"events/stream","params":{"name":"resource.updated"}}`, session))
	}
	return all
}

// awaitEnd waits until all of some streams have ended, and checks that none of the others has.
func awaitEnd(t *testing.T, gone, stay []*opened) {
	t.Helper()
	for _, o := range gone {
		select {
		case <-o.ended:
		case <-time.After(30 * time.Second):
			t.Errorf("%s is still open", o.what)
		}
	}
	for _, o := range stay {
		if o.over() {
			t.Errorf("%s has ended", o.what)
		}
	}
}

// checkTokens checks which of the two tokens a server accepts.
func checkTokens(t *testing.T, url string, a, b bool) {
	t.Helper()
	for token, want := range map[string]bool{tokenA: a, tokenB: b} {
		p := send(t, "GET", url, token, "", nil)
		_ = p.Body.Close()
		if accepted := p.StatusCode != http.StatusUnauthorized; accepted != want {
			t.Errorf("%s is accepted: %v", token, accepted)
		}
	}
}

// If a token is removed, its streams at a gateway end, and its webhooks get "terminated" and end. Other
// clients are not affected.
func TestRemovedTokenOfAGateway(t *testing.T) {
	t.Parallel()
	var terminated [2]atomic.Int64
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		signed, err := standardwebhooks.NewWebhook(webhookSecret)
		if err == nil {
			err = signed.Verify(body, q.Header)
		}
		if err != nil {
			t.Errorf("the signature: %v", err)
		}
		if bytes.Contains(body, []byte(`"terminated"`)) {
			var m struct {
				Type  string
				Error struct{ Message string }
			}
			if json.Unmarshal(body, &m) != nil || m.Type != "terminated" {
				t.Errorf("%s", body)
			}
			terminated[q.URL.Path[1]-'a'].Add(1)
		}
	}))
	defer hook.Close()
	f := newTokenFile(t, "a "+tokenA+"\nb "+tokenB+"\n")
	s := serveCommand(t, mcptrackCommand(context.Background(), "gateway", "--demo", "--addr", "127.0.0.1:0", "--token-file", f, "--events", "--events-allow", "http://127.0.0.1:*"))
	ofA, ofB := openMCP(t, s.url, tokenA, true), openMCP(t, s.url, tokenB, true)
	subscribeWebhook(t, s.url, tokenA, hook.URL+"/a")
	subscribeWebhook(t, s.url, tokenB, hook.URL+"/b")
	save(t, f, "b "+tokenB+"\n")
	awaitEnd(t, ofA, ofB)
	waitFor(t, "the webhook of the removed token gets \"terminated\"", func() bool { return terminated[0].Load() > 0 })
	checkTokens(t, s.url, false, true)
	if terminated[0].Load() != 1 || terminated[1].Load() != 0 {
		t.Errorf("terminated was sent %d times for the removed token, %d times for the other one", terminated[0].Load(), terminated[1].Load())
	}
}

// If a token is removed, its streams at serve-sse and vault end. SIGHUP rereads the tokens where it reloads the
// config.
func TestRemovedTokenOfServeSSEAndVault(t *testing.T) {
	t.Parallel()
	f := newTokenFile(t, "a "+tokenA+"\nb "+tokenB+"\n")
	sse := serveBeside(t, "--config", demoFile(t), "--data-dir", t.TempDir(), "--token-file", f)
	dir := t.TempDir()
	save(t, filepath.Join(dir, "note.md"), "a")
	vault := serveCommand(t, mcptrackCommand(context.Background(), "vault", dir, "--addr", "127.0.0.1:0", "--token-file", f))
	open := func(token string) []*opened {
		return append(openMCP(t, vault.url, token, false), openStream(t, "GET", sse.url+"/events?since=earliest", token, "", nil),
			openStream(t, "GET", sse.url+"/api/mcp/resource-events?since=earliest", token, "", nil))
	}
	ofA, ofB := open(tokenA), open(tokenB)
	save(t, f, "b "+tokenB+"\n")
	if err := sse.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, ofA, ofB)
	checkTokens(t, vault.url, false, true)
	checkTokens(t, sse.url+"/api/status", false, true)
}
