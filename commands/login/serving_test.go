package login_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/commands"
	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
)

// serving runs a command that listens until the test ends, and returns its URL.
func (b *loginBench) serving(args ...string) string {
	b.Helper()
	ctx, stop := context.WithCancel(b.Context())
	lines, errs := io.Pipe()
	code := make(chan int, 1) // sent to once
	go func() {
		code <- commands.Main(ctx, b.env(strings.NewReader(""), io.Discard, errs), append([]string{"--config", b.config}, args...))
		_ = errs.Close()
	}()
	listening := make(chan string, 1) // sent to once, then closed
	go func() {
		defer close(listening)
		for printed := bufio.NewScanner(lines); printed.Scan(); {
			b.Log(printed.Text())
			if url, ok := strings.CutPrefix(printed.Text(), "listening on "); ok {
				listening <- url
			}
		}
	}()
	b.Cleanup(func() {
		stop()
		if got := <-code; got != cli.ExitOK {
			b.Errorf("%q: exit %d", args, got)
		}
		for range listening { // until the log ends
		}
	})
	url, ok := <-listening
	if !ok {
		b.Fatalf("%q does not listen", args)
	}
	return url
}

// until waits until the condition holds; it logs how long that took.
func (b *loginBench) until(what string, holds func() bool) {
	b.Helper()
	began := time.Now()
	for ; !holds(); time.Sleep(20 * time.Millisecond) { // the command runs in real time, over TCP
		if time.Since(began) > time.Minute {
			b.Fatalf("not %s after a minute", what)
		}
	}
	b.Logf("%s after %s", what, time.Since(began).Round(10*time.Millisecond))
}

// Clients of a gateway do not log in: the gateway uses its own login, even one that is made while it runs,
// and its clients only need the gateway's token.
func TestGatewayLogsInForItsClients(t *testing.T) {
	b := newLoginBench(t, "")
	token := filepath.Join(b.home, "token")
	if err := os.WriteFile(token, []byte("token-of-the-gateway"), 0o600); err != nil {
		t.Fatal(err)
	}
	url := b.serving("gateway", "--addr", "127.0.0.1:0", "--token-file", token)
	p, err := http.Post(url, "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = p.Body.Close()
	if challenge := p.Header.Get("WWW-Authenticate"); p.StatusCode != http.StatusUnauthorized || strings.Contains(challenge, "resource_metadata") {
		t.Errorf("without the token: %s, %q", p.Status, challenge)
	}
	front := config.Server{ID: "gateway", Enabled: true, Transport: config.TransportHTTP, URL: config.NewSecret(url), RequestTimeout: time.Minute,
		Headers: map[string]config.Secret{"Authorization": config.NewSecret("Bearer token-of-the-gateway")}}
	client, err := session.Dial(t.Context(), front, session.Options{ConnectTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	resources := func() string {
		list, err := client.List(t.Context(), catalog.Resources)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(slices.Collect(func(yield func(string) bool) {
			for _, it := range list {
				if !yield(it.Key) {
					return
				}
			}
		}))
	}
	if got := resources(); got != "[]" {
		t.Errorf("before the login it serves %s", got)
	}
	if b.as.Hits("as /register") != 0 {
		t.Error("the gateway began a login by itself")
	}
	b.run(cli.ExitOK, "login", "docs")
	b.until("served", func() bool { return resources() == "[note:///a]" })
	read := func() (string, error) {
		got, err := client.Read(t.Context(), "note:///a")
		if err != nil {
			return "", err
		}
		text, _ := got.Text()
		return text, nil
	}
	for range 2 {
		if text, err := read(); text != "one" || err != nil {
			t.Fatalf("%q, %v", text, err)
		}
		b.as.Expire() // the gateway renews it
	}
	b.run(cli.ExitOK, "logout", "docs")
	b.until("refused", func() bool { _, err := read(); return err != nil })
	b.run(cli.ExitOK, "login", "docs")
	b.until("served again", func() bool { text, err := read(); return text == "one" && err == nil })
	if b.as.Stray() != nil {
		t.Errorf("tokens went to %q", b.as.Stray())
	}
}

// status and the API of the dashboard say that a server needs a login, why, and which command to run.
// After the login the server is Ready.
func TestStatusOfALogin(t *testing.T) {
	b := newLoginBench(t, "")
	url := b.serving("serve-sse", "--addr", "127.0.0.1:0", "--data-dir", filepath.Join(b.home, "events"))
	get := func() (s struct{ State, Error string }) {
		p, err := http.Get(url + "/api/servers")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = p.Body.Close() }()
		all := []struct{ State, Error string }{}
		if err := json.NewDecoder(p.Body).Decode(&all); err != nil {
			t.Fatal(err)
		}
		if len(all) > 0 {
			s = all[0]
		}
		return s
	}
	const reason = "needs a login (HTTP 401): run mcptrack login docs"
	b.until("NeedsAuth", func() bool { return get().State == "NeedsAuth" })
	if got := get().Error; !strings.HasSuffix(got, reason) {
		t.Errorf("%q", got)
	}
	if out, _ := b.run(cli.ExitOK, "status", url); !strings.Contains(out, "needs login") || !strings.Contains(out, reason) {
		t.Error(out)
	}
	b.run(cli.ExitOK, "login", "docs")
	b.until("Ready", func() bool { return get().State == "Ready" })
	if out, _ := b.run(cli.ExitOK, "status", url); !strings.Contains(out, " ready ") || strings.Contains(out, "login") {
		t.Error(out)
	}
	if testing.Short() {
		return // what follows takes 15 s, until the tracker notices that the server is gone
	}
	b.as.Revoke() // the next renewal is refused, which is why a login is needed again
	b.server.Disconnect()
	b.until("NeedsAuth again", func() bool { return get().State == "NeedsAuth" })
	if got := get().Error; !strings.Contains(got, "invalid_grant (the refresh token is not valid)") || !strings.HasSuffix(got, "run mcptrack login docs") {
		t.Errorf("%q", got)
	}
}
