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
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/sqlitelog"
)

// A serve-sse with --public-url gets the events of a gateway that delivers only by webhook, also after it was
// killed: at the same path, which needs no token. Messages signed for the killed process are rejected.
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

// storedWebhooks are the records about webhooks in the log of a data directory, which another
// process may use; none if there is no log yet.
func storedWebhooks(t *testing.T, dir string) (values [][]byte) {
	t.Helper()
	log, err := sqlitelog.Open(t.Context(), sqlitelog.Options{Dir: dir, Existing: true})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	log.Records("webhooks").Follow(ctx, func(c journal.Changes) {
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

// wantHostile sends invalid deliveries and checks that they are rejected while the process keeps serving
// others.
func wantHostile(t *testing.T, s *serving, token string, h hook) {
	t.Helper()
	path := strings.TrimPrefix(h.URL, s.url)
	for _, c := range []struct {
		name, method, path, body string
		change                   func(*http.Request)
		want                     int
	}{
		{name: "as the server", want: http.StatusNoContent},
		{name: "again", want: http.StatusNoContent},
		{name: "no body", change: func(q *http.Request) { q.Body, q.ContentLength = http.NoBody, 0 }, want: http.StatusUnauthorized},
		{name: "another body", change: func(q *http.Request) { q.Body, q.ContentLength = io.NopCloser(strings.NewReader("{}")), 2 }, want: http.StatusUnauthorized},
		{name: "no signature", change: func(q *http.Request) { q.Header.Del("webhook-signature") }, want: http.StatusBadRequest},
		{name: "wrong signature", change: func(q *http.Request) { q.Header.Set("webhook-signature", "v1,AAAA") }, want: http.StatusUnauthorized},
		{name: "text", change: func(q *http.Request) { q.Header.Set("Content-Type", "text/plain") }, want: http.StatusUnsupportedMediaType},
		{name: "no such path", change: func(q *http.Request) { q.URL.Path = "/hooks/" + strings.Repeat("0", 32) }, want: http.StatusNotFound},
		{name: "no path", change: func(q *http.Request) { q.URL.Path = "/hooks/" }, want: http.StatusNotFound},
		{name: "put", change: func(q *http.Request) { q.Method = http.MethodPut }, want: http.StatusMethodNotAllowed},
		{name: "get", change: func(q *http.Request) { q.Method, q.Body, q.ContentLength = http.MethodGet, nil, 0 }, want: http.StatusMethodNotAllowed},
		{name: "of a page", change: func(q *http.Request) { q.Header.Set("Origin", "https://evil.example") }, want: http.StatusForbidden},
		{name: "without a token", change: func(q *http.Request) { q.URL.Path = "/api/status" }, want: http.StatusUnauthorized},
		{name: "around the token", change: func(q *http.Request) { q.URL.Path = "/hooks/../api/status" }, want: http.StatusUnauthorized},
	} {
		q := h.message(t, forged, time.Now())
		if c.change != nil {
			c.change(q)
		}
		if body, code := answer(t, q, nil); code != c.want || strings.Contains(body, h.Secret) {
			t.Errorf("%s: %d %s, want %d", c.name, code, body, c.want)
		}
	}
	for _, at := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
		if body, code := answer(t, h.message(t, forged, time.Now().Add(at)), nil); code != http.StatusUnauthorized {
			t.Errorf("of %v: %d %s", at, code, body)
		}
	}
	q := h.message(t, forged, time.Now())
	q.Body, q.ContentLength = io.NopCloser(endless(" ")), -1
	if p, err := http.DefaultClient.Do(q); err == nil { // else the connection was closed before the answer was read
		_ = p.Body.Close()
		if p.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("a body without an end: %s", p.Status)
		}
	}
	before := resident(t, s.cmd.Process.Pid)
	head := "POST " + path + " HTTP/1.1\r\nHost: " + strings.TrimPrefix(s.url, "http://") + "\r\nContent-Type: application/json\r\nContent-Length: 262144\r\n" +
		"webhook-id: m\r\nwebhook-timestamp: 1\r\nwebhook-signature: v1,AAAA\r\n\r\n" + strings.Repeat(" ", 262143)
	var flood []net.Conn
	for range 400 { // bodies of which the last byte never comes
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = io.WriteString(c, head) // the server may not read all of it
		flood = append(flood, c)
	}
	if body, code := ask(t, s.url+"/api/status", map[string]string{"Authorization": "Bearer " + token}); code != http.StatusOK {
		t.Errorf("in a flood: %d %s", code, body)
	}
	most := 64 << 20
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		most *= 3 // of which the race detector needs most
	}
	if grown := resident(t, s.cmd.Process.Pid) - before; grown > most {
		t.Errorf("a flood of %d MiB makes it %d MiB larger", len(flood)*len(head)>>20, grown>>20)
	}
	for _, c := range flood {
		_ = c.Close()
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		body, code := answer(t, h.message(t, forged, time.Now()), nil)
		if code == http.StatusNoContent {
			break
		}
		if code != http.StatusServiceUnavailable || time.Now().After(deadline) {
			t.Fatalf("after a flood: %d %s", code, body)
		}
	}
}
