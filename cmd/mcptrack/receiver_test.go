//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The events of a gateway that delivers by webhook only reach a server with --public-url, and
// again after that was killed: with the same path, which needs no token. Nothing else does, and
// nothing that the killed one received.
func TestServeReceivesWebhooks(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdefghijklmnop"
	dir := t.TempDir()
	tokens, data, entries := filepath.Join(dir, "token"), filepath.Join(dir, "data"), filepath.Join(dir, "mcp-servers.json")
	if err := os.WriteFile(tokens, []byte("docs "+token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	gateway := startGateway(t, "--config", twoDemos(t), "--events", "--events-modes", "webhook", "--data-dir", filepath.Join(dir, "gateway"),
		"--durability", "os", "--token-file", tokens, "--events-allow", "http://127.0.0.1:*")
	save(t, entries, `{"mcpServers": {"up": {"url": "`+gateway+`", "headers": {"Authorization": "Bearer `+token+`"}, "trackResources": true,
		"mode": "poll", "pollInterval": "1h", "events": {"delivery": "webhook"}}}}`)
	address, subscriptions := freeAddress(t), filepath.Join(dir, "gateway")
	var earlier hook // of the run that was killed
	for _, end := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		s := serveBeside(t, "--addr", address, "--public-url", "http://"+address, "--config", entries, "--data-dir", data, "--durability", "os", "--token-file", tokens)
		var got string
		for deadline := time.Now().Add(60 * time.Second); !strings.Contains(got, `"cause":"event"`); {
			if time.Now().After(deadline) {
				t.Fatalf("no event by webhook: %s", got)
			}
			got = streamed(t, s.url, token, `"cause":"event"`)
		}
		h := hookOf(t, subscriptions)
		if end == syscall.SIGKILL {
			wantHostile(t, s, token, h)
			earlier = h
		} else if body, code := answer(t, earlier.message(t, forged, time.Now()), nil); code != http.StatusUnauthorized || h.URL != earlier.URL {
			t.Errorf("a message as of the run before: %d %s", code, body)
		}
		if body, code := ask(t, s.url+"/.well-known/mcp-webhook-receiver.json", nil); code != http.StatusOK || !strings.Contains(body, `"/hooks/"`) {
			t.Errorf("%d %s", code, body)
		}
		s.stop(end)
	}
	if stored := storedWebhooks(t, subscriptions); strings.Contains(string(bytes.Join(stored, nil)), "whsec_") {
		t.Errorf("subscriptions outlive an orderly end: %q", stored)
	}
}

// streamed reads the events of a server until one has a text, for 5 s at most.
func streamed(t *testing.T, url, token, text string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+token)
	p, err := http.DefaultClient.Do(q)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = p.Body.Close() }()
	var got strings.Builder
	for lines := bufio.NewScanner(p.Body); lines.Scan() && !strings.Contains(got.String(), text); {
		got.WriteString(lines.Text() + "\n")
	}
	return got.String()
}

// freeAddress returns an address on which nobody listened just now.
func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	return ln.Addr().String()
}
