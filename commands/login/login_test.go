package login_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/commands"
	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/login/logintest"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// authRow is what auth --json prints of a server.
type authRow struct {
	State, Store, ExpiresAt string
	Scopes                  []string
	Renewable               bool
}

// loginBench is a config with one server that wants a login.
type loginBench struct {
	*testing.T
	as     *logintest.Issuer
	server *sessiontest.Fake
	config string
	home   string
}

func newLoginBench(t *testing.T, oauth string) *loginBench {
	t.Helper()
	b := &loginBench{T: t, as: logintest.New(t), server: sessiontest.New(), home: t.TempDir()}
	b.as.Handler = b.server
	t.Cleanup(b.server.Disconnect)
	b.server.SetQuietly("note:///a", "one")
	b.config = filepath.Join(b.home, "mcp.json")
	text := fmt.Sprintf(`{"mcpServers": {"docs": {"url": %q, "type": "http", "trackResources": true%s}}}`, b.as.Resource, oauth)
	if err := os.WriteFile(b.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return b
}

// env returns the environment of one command. Its browser follows redirects.
func (b *loginBench) env(in io.Reader, out, errs io.Writer) *cli.Env {
	vars := map[string]string{"HOME": b.home, "XDG_CONFIG_HOME": filepath.Join(b.home, "config"), "XDG_CACHE_HOME": filepath.Join(b.home, "cache"), cli.TokenStoreKey: "file"}
	return &cli.Env{In: in, Out: out, Err: errs, Version: "test", LookupEnv: func(k string) (string, bool) { v, ok := vars[k]; return v, ok },
		OpenBrowser: func(address string) error {
			go func() {
				p, err := http.Get(address)
				if err != nil {
					b.Error(err)
					return
				}
				page, _ := io.ReadAll(p.Body)
				_ = p.Body.Close()
				if p.StatusCode != http.StatusOK || !strings.Contains(string(page), "Logged in to docs") {
					b.Errorf("the browser shows %s: %s", p.Status, page)
				}
			}()
			return nil
		}}
}

// run runs a command to its end.
func (b *loginBench) run(wantExit int, args ...string) (out, errs string) {
	b.Helper()
	var o, e bytes.Buffer
	if got := commands.Main(b.Context(), b.env(strings.NewReader(""), &o, &e), append([]string{"--config", b.config}, args...)); got != wantExit {
		b.Fatalf("%q: exit %d, want %d:\n%s\n%s", args, got, wantExit, &o, &e)
	}
	return o.String(), e.String()
}

// The failure of a server that requires a login names the command to run. After the login everything works
// and auth shows it; after logout nothing works.
func TestLoginAuthLogout(t *testing.T) {
	b := newLoginBench(t, "")
	b.as.Scopes = []string{"read"} // named in the challenge only
	out, errs := b.run(cli.ExitUnreachable, "list", "--json")
	if !strings.Contains(out, "needs a login (HTTP 401): run mcptrack login docs") {
		t.Errorf("%s\n%s", out, errs)
	}
	if out, _ = b.run(cli.ExitOK, "login", "--list", "--json"); !strings.Contains(out, `"state": "none"`) && !strings.Contains(out, `"state":"none"`) {
		t.Error(out)
	}
	_, errs = b.run(cli.ExitOK, "login", "docs")
	if !strings.Contains(errs, "logged in to docs at "+b.as.URL) {
		t.Error(errs)
	}
	if out, _ = b.run(cli.ExitOK, "read", "docs", "note:///a"); out != "one" {
		t.Errorf("%q", out)
	}
	out, _ = b.run(cli.ExitOK, "login", "--list", "--renew", "--json")
	var rows []authRow
	if err := json.Unmarshal([]byte(out), &rows); err != nil || len(rows) != 1 || rows[0].State != "loggedIn" || !rows[0].Renewable || rows[0].Store != "file" || rows[0].ExpiresAt == "" || !slices.Equal(rows[0].Scopes, []string{"read"}) {
		t.Errorf("%v %s", err, out)
	}
	if strings.Contains(out, "at-") || strings.Contains(out, "rt-") {
		t.Errorf("a token is shown: %s", out)
	}
	if out, _ = b.run(cli.ExitOK, "login", "--list"); !strings.Contains(out, "logged in") || !strings.Contains(out, "automatic") {
		t.Error(out)
	}
	b.run(cli.ExitOK, "login", "--all")
	b.run(cli.ExitOK, "login", "--out", "docs")
	b.run(cli.ExitUnreachable, "list")
	if b.as.Stray() != nil {
		t.Errorf("tokens went to %q", b.as.Stray())
	}
}

// auth --renew fails for a login whose renewal was refused before, and for an expired login that cannot be
// renewed.
func TestRenewOfARefusedLogin(t *testing.T) {
	b := newLoginBench(t, "")
	b.run(cli.ExitOK, "login", "docs")
	b.as.Revoke()
	for range 2 {
		out, errs := b.run(cli.ExitRefused, "login", "--list", "--renew", "--json")
		if !strings.Contains(out, `"refused"`) || strings.Count(out, "invalid_grant") != 1 || !strings.Contains(errs, "docs: ") || !strings.Contains(errs, "run mcptrack login docs") {
			t.Errorf("%s\n%s", out, errs)
		}
	}
	b.run(cli.ExitOK, "login", "--list") // which only shows it
}

// --no-browser writes one line and reads one line.
func TestLoginWithoutABrowser(t *testing.T) {
	b := newLoginBench(t, "")
	lines, out := io.Pipe()
	in, answer := io.Pipe()
	var errs bytes.Buffer
	code := make(chan int, 1) // sent to once
	go func() {
		code <- commands.Main(t.Context(), b.env(in, out, &errs), []string{"--config", b.config, "login", "docs", "--no-browser"})
		_ = out.Close()
	}()
	printed := bufio.NewScanner(lines)
	printed.Scan()
	if _, err := fmt.Fprintln(answer, logintest.Browse(t, printed.Text())); err != nil {
		t.Fatal(err)
	}
	if printed.Scan() {
		t.Errorf("stdout has more: %q", printed.Text())
	}
	if got := <-code; got != cli.ExitOK {
		t.Fatalf("exit %d: %s", got, &errs)
	}
	b.run(cli.ExitOK, "list")
}

// The pasted URL must be an answer to this login.
func TestPastedByMistake(t *testing.T) {
	b := newLoginBench(t, "")
	for in, want := range map[string]string{
		"":      "stdin has no line",
		"yes\n": "not the URL that the browser was redirected to",
		"http://127.0.0.1:1/callback?code=x&state=stolen\n": `its "state" is not the one that mcptrack sent`,
	} {
		var out, errs bytes.Buffer
		code := commands.Main(t.Context(), b.env(strings.NewReader(in), &out, &errs), []string{"--config", b.config, "login", "docs", "--no-browser"})
		if code == cli.ExitOK || !strings.Contains(errs.String(), want) {
			t.Errorf("%q: exit %d: %s", in, code, &errs)
		}
	}
}

// A running watch reports NeedsAuth once and Ready soon after the login, and nothing while tokens expire.
// Other servers are not affected.
func TestWatchPicksUpTheLogin(t *testing.T) {
	b := newLoginBench(t, "")
	other := sessiontest.New()
	other.SetQuietly("note:///b", "one")
	web := serveHTTP(t, other)
	text := fmt.Sprintf(`{"mcpServers": {"docs": {"url": %q, "type": "http", "trackResources": true}, "other": {"url": %q, "type": "http", "trackResources": true}}}`, b.as.Resource, web)
	if err := os.WriteFile(b.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	lines, out := io.Pipe()
	var errs bytes.Buffer
	code := make(chan int, 1) // sent to once
	go func() {
		code <- commands.Main(t.Context(), b.env(strings.NewReader(""), out, &errs), []string{"--config", b.config, "watch", "--json", "--count", "1", "--timeout", "1m", "--log-level", "error"})
		_ = out.Close()
	}()
	var states []string
	var loggedIn time.Time
	for printed := bufio.NewScanner(lines); printed.Scan(); {
		var e struct{ Type, ServerID, State, Error, ResourceURI string }
		if err := json.Unmarshal(printed.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		if e.Type == "server.state" {
			states = append(states, e.ServerID+" "+e.State)
		}
		if e.State == "NeedsAuth" {
			if !strings.Contains(e.Error, "mcptrack login docs") {
				t.Error(e.Error)
			}
			b.run(cli.ExitOK, "login", "docs")
			loggedIn = time.Now()
		}
		if e.ServerID == "docs" && e.Type == "subscription.active" {
			t.Logf("ready %s after the login", time.Since(loggedIn))
			b.as.Expire()
			b.server.Set("note:///a", "two")
		}
	}
	if got := <-code; got != cli.ExitOK {
		t.Fatalf("exit %d: %s", got, &errs)
	}
	all := strings.Join(states, ", ")
	if strings.Count(all, "docs NeedsAuth") != 1 || strings.Count(all, "other Ready") != 1 || !strings.Contains(all, "docs Ready") || strings.Contains(all, "other Backoff") {
		t.Error(all)
	}
}

func TestLoginUsage(t *testing.T) {
	b := newLoginBench(t, "")
	for _, args := range [][]string{{"login"}, {"login", "--all", "docs"}, {"login", "docs", "--port", "70000"}, {"login", "docs", "--token-store", "pocket"},
		{"login", "--out"}, {"logout", "--all", "docs"}, {"login", "docs", "mail"}, {"login", "--list", "--out"}, {"login", "docs", "--renew"}, {"login", "nobody"}} {
		b.run(cli.ExitUsage, args...)
	}
}

// serveHTTP serves a handler until the test ends, and returns its URL.
func serveHTTP(t *testing.T, s *sessiontest.Fake) string {
	t.Helper()
	web := logintest.Serve(t, s)
	t.Cleanup(s.Disconnect)
	return web
}

// freePort returns a port that nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// A client that was registered for another host, with only that host's redirect URI, works here.
func TestLoginAsTheClientOfAHost(t *testing.T) {
	for name, c := range map[string]struct{ registered, oauth string }{
		"Claude Code": {"http://localhost:PORT/callback", `"oauth": {"clientId": "me", "callbackPort": PORT}`},
		"Kiro":        {"http://localhost:PORT/oauth/callback", `"oauth": {"clientId": "me", "redirectUri": "http://localhost:PORT/oauth/callback"}`},
		"opencode":    {"http://127.0.0.1:PORT/mcp/oauth/callback", `"oauth": {"clientId": "me", "redirectUri": "http://127.0.0.1:PORT/mcp/oauth/callback"}`},
	} {
		t.Run(name, func(t *testing.T) {
			port := freePort(t)
			b := newLoginBench(t, ", "+strings.ReplaceAll(c.oauth, "PORT", port))
			registered := strings.ReplaceAll(c.registered, "PORT", port)
			b.as.Redirects = map[string][]string{"me": {registered}}
			_, errs := b.run(cli.ExitOK, "login", "docs", "--timeout", "1m")
			if !strings.Contains(errs, "the client me must be registered with the redirect URI "+registered) {
				t.Error(errs)
			}
			b.run(cli.ExitOK, "list")
		})
	}
}

// A redirect URI that does not lead to this machine is an error with a hint; with --no-browser the
// redirected URL can be pasted.
func TestRedirectElsewhere(t *testing.T) {
	const elsewhere = "cursor://anysphere.cursor-mcp/oauth/callback"
	b := newLoginBench(t, fmt.Sprintf(`, "oauth": {"clientId": "me", "redirectUri": %q}`, elsewhere))
	b.as.Redirects = map[string][]string{"me": {elsewhere}}
	_, errs := b.run(cli.ExitFailed, "login", "docs", "--timeout", "1m")
	if !strings.Contains(errs, "the redirect URI does not point to this machine: "+elsewhere) || !strings.Contains(errs, "--no-browser") {
		t.Error(errs)
	}
	lines, out := io.Pipe()
	in, answer := io.Pipe()
	var said bytes.Buffer
	code := make(chan int, 1) // sent to once
	go func() {
		code <- commands.Main(t.Context(), b.env(in, out, &said), []string{"--config", b.config, "login", "docs", "--no-browser", "--timeout", "1m"})
		_ = out.Close()
	}()
	printed := bufio.NewScanner(lines)
	printed.Scan()
	back := logintest.Browse(t, printed.Text())
	if !strings.HasPrefix(back, elsewhere+"?") {
		t.Errorf("it ends at %s", back)
	}
	if _, err := fmt.Fprintln(answer, back); err != nil {
		t.Fatal(err)
	}
	if got := <-code; got != cli.ExitOK {
		t.Fatalf("exit %d: %s", got, &said)
	}
	b.run(cli.ExitOK, "list")
}

// A login after an abandoned one registers a new client: the authorization server may have forgotten the
// old client.
func TestAbandonedLoginRegistersAnew(t *testing.T) {
	b := newLoginBench(t, "")
	for i, c := range []struct {
		exit, registered int
		args             []string
	}{{cli.ExitOK, 1, nil}, {cli.ExitOK, 1, nil}, {cli.ExitUsage, 1, []string{"--no-browser"}}, {cli.ExitOK, 2, nil}} { // nothing is pasted
		b.run(c.exit, append([]string{"login", "docs", "--timeout", "1m"}, c.args...)...)
		if n := b.as.Hits("as /register"); n != c.registered {
			t.Errorf("login %d: %d registrations, want %d", i, n, c.registered)
		}
	}
}
