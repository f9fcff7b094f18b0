package gateway

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/output/web"
	"github.com/mcptrack/mcptrack/output/webhook"
)

// If the tokens have more than one name, a client of the gateway sees only its own webhook subscriptions.
// Otherwise it sees all webhooks, including the config's.
func TestGatewayStatusShowsOwnWebhooks(t *testing.T) {
	const a, b, old = "token-of-a-0123456789", "token-of-b-0123456789", "old-token-of-a-012345"
	for name, tt := range map[string]struct {
		tokens string
		sees   map[string][]string // by token
	}{
		"several names": {"a " + a + "\nb " + b + "\n", map[string][]string{a: {"a.example"}, b: {"b.example"}, "": {}, "wrong-0123456789-wrong": {}}},
		"one name":      {"a " + a + "\na " + old + "\n", map[string][]string{a: {"a.example", "b.example", "config.example"}, old: {"a.example", "b.example", "config.example"}}},
		"one token":     {a + "\n", map[string][]string{a: {"a.example", "b.example", "config.example"}}},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "tokens")
			if err := os.WriteFile(file, []byte(tt.tokens), 0o600); err != nil {
				t.Fatal(err)
			}
			tokens, err := web.FollowTokens(file, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			all, err := webhook.ParseURLs([]string{"https://**"})
			if err != nil {
				t.Fatal(err)
			}
			w := &service{options: options{events: eventsFlags{on: true, JournalFlags: cli.JournalFlags{Dir: t.TempDir()}, unverified: all},
				set: func(string) bool { return false }, TrackFlags: cli.TrackFlags{NoFollow: true}},
				env: &cli.Env{LookupEnv: func(string) (string, bool) { return "", false }}, g: &cli.Globals{}, cfg: &config.Config{}, log: slog.New(slog.DiscardHandler), clients: &clients{tokens: tokens}}
			if w.record, err = w.events.open(t.Context(), w.env, w.log, false, tokens); err != nil {
				t.Fatal(err)
			}
			e := w.record
			defer e.close()
			if err := w.create(t.Context()); err != nil {
				t.Fatal(err)
			}
			defer w.clients.close()
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			defer running.Wait()
			defer cancel()
			running.Go(func() { _ = e.fixed.Run(ctx) })
			running.Go(func() { _ = e.subscribed.Run(ctx) })
			e.apply(&config.Config{Webhooks: []config.Webhook{{URL: config.NewSecret("https://config.example/hook"), Format: config.WebhookStandard}}})
			for end := time.Now().Add(time.Minute); len(e.fixed.Endpoints()) == 0; <-time.After(time.Millisecond) { // Run, in another goroutine, applies the config
				if time.Now().After(end) {
					t.Fatal("the webhook of the config is not used")
				}
			}
			for _, client := range []string{"a", "b"} {
				params, err := json.Marshal(map[string]any{"name": "resource.updated", "delivery": map[string]any{
					"mode": "webhook", "url": "https://" + client + ".example/hook", "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := e.subscribed.Handle(t.Context(), &mcpserver.Request{Method: mcp.MethodSubscribeEvents, Params: params, Identity: client}); err != nil {
					t.Fatal(err)
				}
			}
			routes := e.routes("test", w.engine, w.received, w.whole)
			for token, want := range tt.sees {
				r := httptest.NewRequest(http.MethodGet, "/", nil)
				if token != "" {
					r.Header.Set("Authorization", "Bearer "+token)
				}
				var status struct {
					Webhooks     []struct{ Host string }
					MoreWebhooks int
				}
				answer := httptest.NewRecorder()
				routes["GET /api/status"].ServeHTTP(answer, r)
				if err := json.Unmarshal(answer.Body.Bytes(), &status); err != nil {
					t.Fatal(err)
				}
				hosts := []string{}
				for _, w := range status.Webhooks {
					hosts = append(hosts, w.Host)
				}
				slices.Sort(hosts)
				if !slices.Equal(hosts, want) || status.MoreWebhooks != 0 {
					t.Errorf("with %q: %q and %d more, want %q", token, hosts, status.MoreWebhooks, want)
				}
				for _, route := range []string{"GET /metrics", "GET /api/servers"} {
					answer := httptest.NewRecorder()
					routes[route].ServeHTTP(answer, r)
					if text := answer.Body.String(); answer.Code != http.StatusOK || strings.Contains(text, ".example") || strings.Contains(text, "sub_") {
						t.Errorf("%s: %d %s", route, answer.Code, text)
					}
				}
			}
		})
	}
}
