//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/records"
)

// A serve-sse with --public-url gets the events of a gateway by webhook, also after it was
// killed: at the same path, which needs no token. Messages signed for the killed process are rejected.
func TestServeReceivesWebhooks(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdefghijklmnop"
	dir := t.TempDir()
	tokens, data, entries := filepath.Join(dir, "token"), filepath.Join(dir, "data"), filepath.Join(dir, "mcp-servers.json")
	if err := os.WriteFile(tokens, []byte("docs "+token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	gateway := startGateway(t, "--config", twoDemos(t), "--events", "--data-dir", filepath.Join(dir, "gateway"),
		"--durability", "interval", "--token-file", tokens, "--events-allow", "http://127.0.0.1:*")
	save(t, entries, `{"mcpServers": {"up": {"url": "`+gateway+`", "headers": {"Authorization": "Bearer `+token+`"}, "trackResources": true,
		"mode": "poll", "pollInterval": "1h", "events": {"delivery": "webhook"}}}}`)
	address, subscriptions := freeAddress(t), filepath.Join(dir, "gateway")
	var earlier hook // of the run that was killed
	for _, end := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		s := serveBeside(t, "--addr", address, "--public-url", "http://"+address, "--config", entries, "--data-dir", data, "--durability", "interval", "--token-file", tokens)
		var got string
		for deadline := time.Now().Add(60 * time.Second); !strings.Contains(got, `"cause":"event"`); {
			if time.Now().After(deadline) {
				t.Fatalf("no event by webhook: %s", got)
			}
			got = streamed(t, s.url, token, `"cause":"event"`)
		}
		h := hookOf(t, subscriptions)
		if end == syscall.SIGKILL {
			wantGuarded(t, h)
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
		t.Errorf("subscriptions remain after an orderly exit: %q", stored)
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

// hook is a subscription as the test's gateway stores it, including the secret.
type hook struct{ ID, Name, URL, Secret string }

// hookOf returns the subscription to updates of resources.
func hookOf(t *testing.T, dir string) hook {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		for _, raw := range storedWebhooks(t, dir) {
			var stored struct{ Plain hook }
			if json.Unmarshal(raw, &stored) == nil && stored.Plain.Name == "resource.updated" {
				return stored.Plain
			}
		}
	}
	t.Fatalf("there is no subscription: %q", storedWebhooks(t, dir))
	return hook{}
}

// storedWebhooks are the records about webhooks in a data directory, which another process may use.
func storedWebhooks(t *testing.T, dir string) (values [][]byte) {
	t.Helper()
	file, err := records.Open(filepath.Join(dir, "deliveries.json"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	file.Follow(ctx, func(c records.Changes) {
		for _, rec := range c.Records {
			values = append(values, rec.Value)
		}
		cancel()
	})
	return values
}

// message returns a valid delivery, which tests then corrupt.
func (h hook) message(t *testing.T, body string, at time.Time) *http.Request {
	t.Helper()
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(h.Secret, "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "m-1.%d.%s", at.Unix(), body)
	for name, value := range map[string]string{"Content-Type": "application/json", "webhook-id": "m-1", "webhook-timestamp": strconv.FormatInt(at.Unix(), 10),
		"webhook-signature": "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)), "X-MCP-Subscription-Id": h.ID} {
		q.Header.Set(name, value)
	}
	return q
}

const forged = `{"eventId":"m-1","name":"resource.updated","timestamp":"2026-11-22T10:00:00Z","data":{"server":"a","uri":"vault://nothing","cause":"notify"}}`

// wantGuarded checks that the path of the webhook, which needs no token, opens no other path, and no page
// can use it.
func wantGuarded(t *testing.T, h hook) {
	t.Helper()
	for _, c := range []struct {
		name   string
		change func(*http.Request)
		want   int
	}{
		{"as the server", func(*http.Request) {}, http.StatusNoContent},
		{"another body", func(q *http.Request) { q.Body, q.ContentLength = io.NopCloser(strings.NewReader("{}")), 2 }, http.StatusUnauthorized},
		{"of a page", func(q *http.Request) { q.Header.Set("Origin", "https://evil.example") }, http.StatusForbidden},
		{"without a token", func(q *http.Request) { q.URL.Path = "/api/status" }, http.StatusUnauthorized},
		{"around the token", func(q *http.Request) { q.URL.Path = "/hooks/../api/status" }, http.StatusUnauthorized},
	} {
		q := h.message(t, forged, time.Now())
		c.change(q)
		if body, code := answer(t, q, nil); code != c.want || strings.Contains(body, h.Secret) {
			t.Errorf("%s: %d %s, want %d", c.name, code, body, c.want)
		}
	}
}
