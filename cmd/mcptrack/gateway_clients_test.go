//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcptrack/mcptrack/core/mcpserver/mcpservertest"
)

// look is what look.mjs prints.
type look struct {
	Tools, Prompts, Resources, Templates []map[string]any
	Answers                              []map[string]any
}

func lookAt(t *testing.T, era string, requests []map[string]any, target ...string) look {
	t.Helper()
	return lookFrom(t, nil, era, requests, target...)
}

// lookFrom is like lookAt, with another environment unless env is nil.
func lookFrom(t *testing.T, env []string, era string, requests []map[string]any, target ...string) look {
	t.Helper()
	q, err := json.Marshal(requests)
	if err != nil {
		t.Fatal(err)
	}
	var saw look
	unmarshalPeer(t, peerScriptFrom(t, env, "look.mjs", append([]string{era, string(q)}, target...)...), &saw)
	for _, list := range [][]map[string]any{saw.Tools, saw.Prompts, saw.Resources, saw.Templates} {
		slices.SortFunc(list, func(a, b map[string]any) int { return strings.Compare(keyOf(a), keyOf(b)) })
	}
	for _, tool := range saw.Tools {
		delete(tool, "execution") // the SDK omits it in the modern era
	}
	for _, a := range saw.Answers {
		if progress, _ := a["progress"].([]any); len(progress) > 1 {
			a["progress"] = progress[:1] // the SDK drops progress that it reads with the result
		}
		if result, ok := a["result"].(map[string]any); ok { // the servers describe themselves differently
			for _, of := range []string{"_meta", "resultType", "ttlMs", "cacheScope"} {
				delete(result, of)
			}
		}
	}
	return saw
}

func keyOf(item map[string]any) string {
	for _, k := range []string{"uri", "uriTemplate", "name"} {
		if s, ok := item[k].(string); ok {
			return s
		}
	}
	return ""
}

// A gateway in front of a real server returns what the server itself returns, item by item, over both
// transports and to clients of both eras.
func TestRealGatewayAnswersLikeItsServer(t *testing.T) {
	type request = map[string]any
	with := func(args ...any) map[string]any {
		m := map[string]any{}
		for i := 0; i < len(args); i += 2 {
			m[args[i].(string)] = args[i+1]
		}
		return m
	}
	everything := []request{
		{"tool": "echo", "arguments": with("message", "<ünï & code>\n")},
		{"tool": "get-sum", "arguments": with("a", 1.5, "b", -3)},
		{"tool": "get-sum", "arguments": with("a", "no number")},
		{"tool": "get-tiny-image"},
		{"tool": "get-structured-content", "arguments": with("location", "New York")},
		{"tool": "get-annotated-message", "arguments": with("messageType", "error", "includeImage", true)},
		{"tool": "get-resource-links", "arguments": with("count", 3)},
		{"tool": "trigger-long-running-operation", "arguments": with("duration", 1, "steps", 4)},
		{"prompt": "simple-prompt"},
		{"prompt": "args-prompt", "arguments": with("city", "Paris", "state", "Texas")},
		{"prompt": "args-prompt"},
		{"read": "demo://resource/static/document/features.md"},
		{"read": "demo://resource/none"},
		{"complete": with("ref", with("type", "ref/prompt", "name", "completable-prompt"), "argument", with("name", "department", "value", "E"))},
		{"complete": with("ref", with("type", "ref/resource", "uri", "demo://resource/dynamic/text/{resourceId}"), "argument", with("name", "resourceId", "value", "1"))},
	}
	gosdk := []request{
		{"tool": "test_simple_text"}, {"tool": "test_image_content"}, {"tool": "test_audio_content"},
		{"tool": "test_x_mcp_header", "arguments": with("region", "us-west1", "level", 3)},
		{"tool": "test_embedded_resource"}, {"tool": "test_multiple_content_types"}, {"tool": "test_error_handling"},
		{"prompt": "test_simple_prompt"}, {"prompt": "test_prompt_with_arguments", "arguments": with("arg1", "a", "arg2", "b")},
		{"prompt": "test_prompt_with_embedded_resource", "arguments": with("resourceUri", "test://static-text")},
		{"prompt": "test_prompt_with_image"},
		{"read": "test://static-text"}, {"read": "test://static-binary"}, {"read": "test://template/7/data"},
	}
	for _, c := range []struct {
		peer     string
		era      string // that the peer speaks with its client when asked directly
		requests []request
	}{
		{"everything-stdio", "legacy", everything}, {"gosdk-http", "legacy", gosdk}, {"gosdk-stateless", "modern", gosdk},
	} {
		t.Run(c.peer, func(t *testing.T) {
			t.Parallel()
			p := startPeer(t, c.peer)
			var entry peerEntry
			unmarshalPeer(t, []byte(p.Config), &entry)
			entry.OnConnect = nil // what is compared must not change
			direct := []string{entry.URL}
			if entry.URL == "" {
				direct = append([]string{entry.Command}, entry.Args...)
			}
			want := lookAt(t, c.era, c.requests, direct...)
			if len(want.Tools) == 0 || len(want.Resources) == 0 {
				t.Fatalf("the peer shows little: %+v", want)
			}
			file := filepath.Join(t.TempDir(), "mcp-servers.json")
			save(t, file, config(fmt.Sprintf("%q: %s", c.peer, marshalPeer(t, entry))))
			url := startGateway(t, "--config", file)
			stdio := []string{mcptrackPath(t), "gateway", "--stdio", "--wait", peerStarts, "--config", file}
			for name, by := range map[string]struct {
				era    string
				target []string
			}{
				"legacy http": {"legacy", []string{url}}, "modern http": {"modern", []string{url}}, "stdio": {"modern", stdio},
			} {
				t.Run(name, func(t *testing.T) {
					if diff := cmp.Diff(want, lookAt(t, by.era, c.requests, by.target...)); diff != "" {
						t.Errorf("direct (-), through the gateway (+)\n%s", diff)
					}
				})
			}
		})
	}
}

// front is a reverse proxy in front of a server that restarts. Requests wait until the server is up.
type front struct {
	proxy *httputil.ReverseProxy
	url   string

	mu    sync.Mutex
	there chan struct{} // closed while the server is there
	at    *url.URL
}

func newFront(t *testing.T) *front {
	t.Helper()
	f := &front{there: make(chan struct{})}
	f.proxy = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			f.mu.Lock()
			defer f.mu.Unlock()
			r.SetURL(f.at)
			r.Out.URL.Path = f.at.Path
		},
		FlushInterval: -1, Transport: &http.Transport{DisableKeepAlives: true},
		ErrorLog:     log.New(io.Discard, "", 0),
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		there := f.there
		f.mu.Unlock()
		select {
		case <-there:
			f.proxy.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() {
		ts.CloseClientConnections()
		ts.Close()
	})
	f.url = ts.URL
	return f
}

func (f *front) open(t *testing.T, to string) {
	t.Helper()
	at, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at = at
	close(f.there)
}

func (f *front) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.there = make(chan struct{})
}

// Clients that cannot start a new session keep theirs, with its subscriptions, across restarts of the gateway
// or the vault, and get no notification without a change.
func TestRealClientsSurviveARestart(t *testing.T) {
	t.Parallel()
	notes := t.TempDir()
	note(t, filepath.Join(notes, "a.md"), "# A")
	for _, c := range []struct {
		library, command string
		signal           syscall.Signal
	}{
		{"sdk", "gateway", syscall.SIGKILL}, {"sdk", "vault", syscall.SIGTERM}, {"client", "gateway", syscall.SIGTERM},
	} {
		t.Run(c.library+" "+c.command+" "+c.signal.String(), func(t *testing.T) {
			t.Parallel()
			state, token := t.TempDir(), filepath.Join(t.TempDir(), "token")
			const secret = "a-token-of-sixteen-or-more"
			save(t, token, secret)
			args := []string{"vault", notes}
			uri, changed := "vault://note/a.md", func() { note(t, filepath.Join(notes, "a.md"), "# "+time.Now().String()) }
			if c.command == "gateway" {
				file := filepath.Join(t.TempDir(), "mcp-servers.json")
				save(t, file, config(`"a": `+demoEntry(t, markOf(t), `, "trackResources": true`)))
				args = []string{"gateway", "--config", file, "--wait", "1m"} // else it may listen before the tools are there
				uri, changed = "vault://note/clock.md", func() {}            // by itself
			}
			f := newFront(t)
			start := func() *serving {
				cmd := mcptrackCommand(context.Background(), append(args, "--addr", "127.0.0.1:0", "--token-file", token)...)
				cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+state)
				s := serveCommand(t, cmd)
				f.open(t, s.url)
				return s
			}
			s := start()
			client := mcpservertest.Drive(t, nodeCommand(context.Background(), t, "driven.mjs", c.library, f.url, secret))
			do := func(method, params string) {
				t.Helper()
				if _, failed := client.Do(method, params); failed != "" {
					t.Errorf("%s: %s", method, failed)
				}
			}
			do("tools/list", "{}")
			do("resources/subscribe", `{"uri":`+strconv.Quote(uri)+`}`)
			changed()
			client.Await("resources/updated " + uri)
			for range 2 {
				f.close()
				s.stop(c.signal)
				s = start()
				do("tools/list", "{}")
				do("resources/read", `{"uri":`+strconv.Quote(uri)+`}`)
				changed()
				client.Await("resources/updated " + uri)
			}
			// A gateway may listen before its servers have listed their tools, on a busy machine.
			if c.command == "vault" && slices.Contains(client.Notifications, "tools/list_changed") {
				t.Errorf("the tools have not changed, but it heard of %q", slices.Compact(client.Notifications))
			}
			do("terminate", "{}")
			f.close()
			s.stop(c.signal)
			s = start()
			if _, status := initialize(t, s.url, map[string]string{"Authorization": "Bearer " + secret, "Mcp-Session-Id": client.Session}); status != http.StatusOK {
				t.Errorf("a new session: %d", status)
			}
			q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
			if err != nil {
				t.Fatal(err)
			}
			q.Header.Set("Content-Type", "application/json")
			if body, status := answer(t, q, map[string]string{"Authorization": "Bearer " + secret, "Mcp-Session-Id": client.Session}); status != http.StatusNotFound {
				t.Errorf("the session that its client has ended: %d %s", status, body)
			}
		})
	}
}

// Unmodified npm clients find the change tools, ask what changed, wait, cancel the wait and continue, with
// and without MCP Events, over HTTP and stdio.
func TestRealGatewayChangeTools(t *testing.T) {
	t.Parallel()
	config := twoDemos(t)
	url := startGateway(t, "--config", config, "--change-tools", "--events", "--data-dir", t.TempDir(), "--durability", "interval")
	over := map[string][]string{"HTTP": {url}, "standard streams": {mcptrackPath(t), "gateway", "--stdio", "--config", config, "--change-tools"}}
	var running sync.WaitGroup
	for transport, target := range over {
		for _, client := range []string{"ts", "ai"} {
			running.Go(func() {
				out := string(peerScript(t, "change_tools.mjs", append([]string{client}, target...)...))
				seen := map[string]string{}
				for line := range strings.Lines(out) {
					what, doc, _ := strings.Cut(line, " ")
					seen[what] = doc
				}
				for what, want := range map[string]string{"tools": `"wait_for_changes"`, "since": `"text":"`, "waited": `"kind":"resource"`, "again": `"uri":"mcptrack://server/a/vault://`} {
					if !strings.Contains(seen[what], want) {
						t.Errorf("%s over %s: no %s in %s: %s", client, transport, want, what, seen[what])
					}
				}
				if strings.Contains(seen["again"], `"server":"b"`) {
					t.Errorf("%s over %s: changes of another server: %s", client, transport, seen["again"])
				}
				if client != "ts" {
					return
				}
				if seen["cancelled"] == "" || !strings.Contains(seen["instructions"], "changes_since") {
					t.Errorf("over %s: %s", transport, out)
				}
				if transport == "HTTP" {
					return
				}
				var ended struct {
					Changes []any
					Cursor  string
				}
				if err := json.Unmarshal([]byte(seen["over"]), &ended); err != nil || len(ended.Changes) > 0 || ended.Cursor == "" || !strings.Contains(seen["progress"], `"total":5500`) {
					t.Errorf("%v: %s %s", err, seen["over"], seen["progress"])
				}
			})
		}
	}
	running.Wait()
}

// The official TypeScript client lists, polls and streams the events of a gateway in both eras. Poll and
// stream use the same event IDs.
func TestRealGatewayEventsTypeScript(t *testing.T) {
	t.Parallel()
	url := startGateway(t, "--config", twoDemos(t), "--events", "--data-dir", t.TempDir(), "--durability", "interval")
	for _, era := range []string{"auto", "legacy"} {
		out := string(peerScript(t, "events_client.mjs", url, era))
		var streamed, polled []string
		for line := range strings.Lines(out) {
			what, doc, _ := strings.Cut(line, " ")
			var v struct {
				EventID, Cursor string
				Truncated       bool
				Data            struct{ Server, URI string }
				Events          []struct{ EventID, Name string }
				Extensions      map[string]any
			}
			_ = json.Unmarshal([]byte(doc), &v)
			switch what {
			case "capabilities":
				if v.Extensions["io.modelcontextprotocol/events"] == nil {
					t.Errorf("%s: %s", era, line)
				}
			case "list":
				if len(v.Events) != 4 || v.Events[2].Name != "resource.updated" {
					t.Errorf("%s: %s", era, line)
				}
			case "poll":
				if len(v.Events) != 0 || v.Cursor == "" || v.Truncated {
					t.Errorf("%s: %s", era, line)
				}
			case "notifications/events/event":
				streamed = append(streamed, v.EventID)
				of := strings.HasPrefix(v.Data.URI, "mcptrack://server/"+v.Data.Server+"/") || strings.Contains(v.Data.URI, "/inbox/") // only one of them may have a message now
				if !of || v.Cursor != v.EventID {
					t.Errorf("%s: %s", era, line)
				}
			case "again":
				for _, e := range v.Events {
					polled = append(polled, e.EventID)
				}
			}
		}
		if len(streamed) < 2 || !slices.Equal(streamed[:2], polled) || !strings.Contains(out, "notifications/events/active") {
			t.Errorf("%s: streamed %v, polled %v\n%s", era, streamed, polled, out)
		}
	}
}

// The AI SDK subscribes a webhook, gets events with its subscription ID before and after a refresh, gets
// events signed with both secrets after it rotates the secret, and unsubscribes.
func TestRealGatewayEventsAISDK(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdefghijklmnop"
	file, data := filepath.Join(t.TempDir(), "token"), t.TempDir()
	if err := os.WriteFile(file, []byte("chat "+token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	url := startGateway(t, "--config", twoDemos(t), "--events", "--data-dir", data, "--durability", "interval", "--token-file", file, "--events-allow", "http://127.0.0.1:*")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := nodeCommand(ctx, t, "ai_events.mjs", url)
	cmd.Env = append(os.Environ(), "TOKEN="+token)
	raw, err := cmd.CombinedOutput()
	out := string(raw)
	if err != nil || strings.Count(out, "\nanswered 204 event") < 2 || !strings.Contains(out, "subscribed sub_") || !strings.Contains(out, "\nunsubscribed") {
		t.Fatalf("%v\n%s", err, out)
	}
	before, rest, _ := strings.Cut(out, "\nrotating\n")
	_, after, rotated := strings.Cut(rest, "rotated\n")
	if strings.Contains(before, "answered 40") || regexp.MustCompile(`answered 40. \w+ 2`).MatchString(after) { // one of before, with one signature, may still come
		t.Errorf("the client refused a message\n%s", out)
	}
	if !rotated || strings.Contains(before, "event 2") || !strings.Contains(after, "answered 204 event 2") {
		t.Errorf("after another secret, messages are not signed with both\n%s", out)
	}
	s, code := ask(t, strings.TrimSuffix(url, "/mcp")+"/metrics", map[string]string{"Authorization": "Bearer " + token})
	if code != 200 || !strings.Contains(s, `mcptrack_webhook_attempts_total{outcome="taken",source="subscription"} `) || strings.Contains(s, `{outcome="taken",source="subscription"} 0`) {
		t.Errorf("%d", code)
	}
	if stored := storedWebhooks(t, data); strings.Contains(string(bytes.Join(stored, nil)), "whsec_") {
		t.Errorf("a subscription that ended is stored: %q", stored)
	}
}
