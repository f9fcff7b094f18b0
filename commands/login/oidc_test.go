package login_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/mcptrack/mcptrack/commands"
	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/peertest"
)

// oidcPeer starts a real authorization server (npm oidc-provider) and an MCP server behind it, until the
// test ends. It returns the URL of the MCP server.
func oidcPeer(t *testing.T, seconds string) string {
	t.Helper()
	script := peertest.Script(t, "oidc.mjs", seconds)
	cmd := exec.Command(script[0], script[1:]...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var said struct{ URL string }
	if err := json.Unmarshal([]byte(line), &said); err != nil {
		t.Fatal(err)
	}
	return said.URL
}

// consent acts as the user in a real browser: it opens the URL, logs in, consents, and returns the text of
// the last page.
func consent(t *testing.T, address string) (string, error) {
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(peertest.Program(t, "chromium")), chromedp.NoSandbox, chromedp.Flag("disable-dev-shm-usage", true))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), opts...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(address)); err != nil {
		return "", err
	}
	ctx, cancel = context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.SendKeys(`input[name=login]`, "ada"), chromedp.SendKeys(`input[name=password]`, "lovelace\n")); err != nil {
		return "", err
	}
	for _, step := range []string{ // the page after the login asks for consent
		`[...document.querySelectorAll('button')].some(b => b.textContent.includes('Continue')) && (document.querySelector('button[type=submit]').click(), true)`,
		`[...document.querySelectorAll('h1')].some(h => h.textContent.includes('ogged in'))`,
	} {
		_, err := chromedp.Run(ctx, chromedp.Poll[bool](step))
		for err != nil && ctx.Err() == nil { // the page has changed meanwhile
			_, err = chromedp.Run(ctx, chromedp.Poll[bool](step))
		}
		if err != nil {
			return "", err
		}
	}
	return chromedp.Run(ctx, chromedp.Text(`body`))
}

// A user logs in at a real authorization server with a real browser. A running watch is Ready soon after,
// and stays Ready while tokens expire and refresh tokens rotate.
func TestRealAuthorizationServer(t *testing.T) {
	peertest.Program(t, "chromium")
	address := oidcPeer(t, "2")
	b := &loginBench{T: t, home: t.TempDir()}
	b.config = filepath.Join(b.home, "mcp.json")
	if err := os.WriteFile(b.config, fmt.Appendf(nil, `{"mcpServers": {"docs": {"url": %q, "trackTools": true}}}`, address), 0o600); err != nil {
		t.Fatal(err)
	}
	lines, out := io.Pipe()
	var errs bytes.Buffer
	watching, stop := context.WithCancel(t.Context())
	code := make(chan int, 1) // sent to once
	go func() {
		code <- commands.Main(watching, b.env(strings.NewReader(""), out, &errs), []string{"--config", b.config, "watch", "--json"})
		_ = out.Close()
	}()
	states := make(chan string, 100) // has room for all; closed when watch ends
	go func() {
		defer close(states)
		for printed := bufio.NewScanner(lines); printed.Scan(); {
			var e struct{ Type, State string }
			if json.Unmarshal(printed.Bytes(), &e) == nil && e.Type == "server.state" {
				states <- e.State
			}
		}
	}()
	await := func(want string) {
		t.Helper()
		for over := time.After(40 * time.Second); ; {
			select {
			case got, ok := <-states:
				if got == want {
					return
				} else if !ok {
					t.Fatalf("watch ended before %s: %s", want, &errs)
				}
			case <-over:
				t.Fatalf("no %s", want)
			}
		}
	}
	await("NeedsAuth")
	var o, e bytes.Buffer
	env := b.env(strings.NewReader(""), &o, &e)
	shown := make(chan string, 1) // sent to once
	env.OpenBrowser = func(address string) error {
		go func() {
			page, err := consent(t, address)
			if err != nil {
				t.Errorf("browser: %v", err)
			}
			shown <- page
		}()
		return nil
	}
	if got := commands.Main(t.Context(), env, []string{"--config", b.config, "login", "docs", "--json", "--timeout", "70s"}); got != cli.ExitOK {
		t.Fatalf("login: exit %d: %s", got, &e)
	}
	loggedIn := time.Now()
	if page := <-shown; !strings.Contains(page, "Logged in to docs") {
		t.Errorf("the browser shows %q", page)
	}
	var row authRow
	if err := json.Unmarshal(o.Bytes(), &row); err != nil || row.State != "loggedIn" || !row.Renewable || !strings.Contains(strings.Join(row.Scopes, " "), "notes") {
		t.Errorf("%v %s", err, &o)
	}
	await("Ready")
	t.Logf("ready %s after the login", time.Since(loggedIn))
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); time.Sleep(300 * time.Millisecond) { // real time: the lifetimes of two tokens of a real server
		if out, _ := b.run(cli.ExitOK, "call", "docs", "ping"); strings.TrimSpace(out) != "pong" {
			t.Errorf("%q", out)
		}
	}
	stop()
	if got := <-code; got != cli.ExitOK {
		t.Errorf("watch: exit %d: %s", got, &errs)
	}
	for state := range states {
		if state != "Stopping" {
			t.Errorf("meanwhile the server was %s", state)
		}
	}
	b.run(cli.ExitOK, "logout", "docs")
	b.run(cli.ExitUnreachable, "list")
}
