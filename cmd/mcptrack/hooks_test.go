//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const hookSecret = "a-secret-of-the-repository"

// sendHook sends a message as GitHub does, through a proxy with a public name.
func sendHook(t *testing.T, to, secret, id, body string) int {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, to, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	_, code := answer(t, q, map[string]string{"Host": "hooks.example", "Content-Type": "application/json", "X-GitHub-Event": "push",
		"X-GitHub-Delivery": id, "X-Hub-Signature-256": "sha256=" + hex.EncodeToString(mac.Sum(nil))})
	return code
}

// All commands that listen receive the hooks of the config, without a token and for any host. A message
// makes the tracker read what the hook touches, although the server announces nothing; a forged or
// repeated one does not.
func TestHooks(t *testing.T) {
	t.Parallel()
	const token = "a-token-of-sixteen-or-more"
	for _, command := range []string{"serve-sse", "gateway", "daemon"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			dir, err := os.MkdirTemp("", "h") // its path is short enough for a socket
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			file, tokens, data := filepath.Join(dir, "mcp-servers.json"), filepath.Join(dir, "token"), filepath.Join(dir, "data")
			save(t, tokens, token)
			notes := filepath.Join(dir, "notes")
			if err := os.Mkdir(notes, 0o755); err != nil {
				t.Fatal(err)
			}
			save(t, filepath.Join(notes, "a.md"), "# A")
			write := func(hooks string) {
				save(t, file, fmt.Sprintf(`{"mcpServers": {"notes": {"command": %q, "args": ["vault", %q, "--stdio"], "trackResources": true, "mode": "poll", "pollInterval": "24h"}}, "hooks": [%s]}`, mcptrackPath(t), notes, hooks))
			}
			write(`{"id": "repo", "verify": "github", "secret": "` + hookSecret + `", "touches": [{"server": "notes", "uri": "vault://note/*"}]}`)
			args := map[string][]string{
				"serve-sse": {"serve-sse", "--addr", "127.0.0.1:0", "--config", file, "--durability", "interval"},
				"gateway":   {"gateway", "--addr", "127.0.0.1:0", "--config", file, "--events", "--durability", "interval"},
				"daemon":    {"daemon", "--http", "127.0.0.1:0"},
			}[command]
			cmd := mcptrackCommand(context.Background(), append(args, "--token-file", tokens, "--data-dir", data)...)
			cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+dir, "MCPTRACK_SOCKET="+filepath.Join(dir, "s"))
			s := serveCommand(t, cmd)
			base, _ := url.Parse(s.url)
			hooks := base.Scheme + "://" + base.Host + "/hooks/"
			authorized := map[string]string{"Authorization": "Bearer " + token}
			if command == "daemon" { // it knows the configs of its clients
				if text, code := initialize(t, s.url+"notes?"+url.Values{"config": {file}, "folder": {dir}}.Encode(), authorized); code != 200 {
					t.Fatalf("%d %s", code, text)
				}
			}
			logged := func(is ...string) (lines []string) {
				out, _ := mcptrackCommand(t.Context(), "replay", "--data-dir", data, "--since", "1h").Output() // fails while there is no log
				for line := range strings.Lines(string(out)) {
					all := true
					for _, text := range is {
						all = all && strings.Contains(line, text)
					}
					if all {
						lines = append(lines, line)
					}
				}
				return lines
			}
			waitFor(t, "the server is followed", func() bool { return len(logged(`"subscription.active"`, `"poll"`)) > 0 })
			const body = `{"ref":"refs/heads/main"}`
			if code := sendHook(t, hooks+"repo", "not-the-secret-of-it", "0", body); code != 401 {
				t.Errorf("forged: %d", code)
			}
			if code := sendHook(t, hooks+"other", hookSecret, "0", body); code != 404 {
				t.Errorf("another hook: %d", code)
			}
			if n := len(logged(`"hook.received"`)) + len(logged(`"cause":"hook"`)); n > 0 {
				t.Errorf("a forged message had %d effects", n)
			}
			for range 2 {
				if code := sendHook(t, hooks+"repo", hookSecret, "72d3162e", body); code != 202 {
					t.Errorf("valid: %d", code)
				}
			}
			waitFor(t, "the message is stored", func() bool { return len(logged(`"hook.received"`)) > 0 })
			received := logged(`"hook.received"`)
			var e struct {
				ID, HookID, DeliveryID string
				Size                   int
			}
			if len(received) != 1 || json.Unmarshal([]byte(received[0]), &e) != nil || e.HookID != "repo" || e.DeliveryID != "72d3162e" || e.Size != len(body) {
				t.Errorf("%q", received)
			}
			switch command {
			case "serve-sse":
				if got, code := ask(t, hooks[:len(hooks)-len("/hooks/")]+"/api/hooks/repo/body?event="+e.ID, authorized); code != 200 || got != body {
					t.Errorf("%d %q", code, got)
				}
				fallthrough
			case "gateway":
				status, _ := ask(t, base.Scheme+"://"+base.Host+"/api/status", authorized)
				if !strings.Contains(status, `"hooks":[{"id":"repo","verify":"github","messages":{"accepted":1,"forged":1,"replayed":1}`) || strings.Contains(status, hookSecret) {
					t.Error(status)
				}
				metrics, _ := ask(t, base.Scheme+"://"+base.Host+"/metrics", authorized)
				if !strings.Contains(metrics, `mcptrack_hook_messages_total{hook="repo",outcome="forged"} 1`) {
					t.Error("the forged message is not counted")
				}
			}
			save(t, filepath.Join(notes, "a.md"), "# A\n\nmore")
			tries := 0
			waitFor(t, "the resource is read", func() bool { // the vault may see the change later
				tries++
				sendHook(t, hooks+"repo", hookSecret, fmt.Sprint("change ", tries), fmt.Sprint(body, tries))
				return len(logged(`"resource.updated"`, `"cause":"hook"`, "vault://note/a.md")) > 0
			})
			// A change to the config takes effect without a restart.
			write(`{"id": "mail", "verify": "github", "secret": "` + hookSecret + `"}`)
			waitFor(t, "the new hook receives", func() bool { return sendHook(t, hooks+"mail", hookSecret, "1", body+" ") == 202 })
			if code := sendHook(t, hooks+"repo", hookSecret, "2", body+" "); code != 404 {
				t.Errorf("a removed hook: %d", code)
			}
			s.stop(syscall.SIGTERM)
			if files, err := filepath.Glob(filepath.Join(data, "*")); err == nil {
				for _, name := range files {
					if text, err := os.ReadFile(name); err == nil && bytes.Contains(text, []byte(hookSecret)) {
						t.Errorf("%s has the secret", name)
					}
				}
			}
		})
	}
}
