package commands

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/login/logintest"
)

// freePort is one that nobody listens on.
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

// A client that was registered for another host, with that host's redirect URI and no
// other, works here.
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
			_, errs := b.run(exitOK, "login", "docs", "--timeout", "1m")
			if !strings.Contains(errs, "the client me must be registered with the redirect URI "+registered) {
				t.Error(errs)
			}
			b.run(exitOK, "list")
		})
	}
}

// A redirect URI that does not lead to this machine is refused with what to do; what the
// browser ends at can be pasted.
func TestRedirectElsewhere(t *testing.T) {
	const elsewhere = "cursor://anysphere.cursor-mcp/oauth/callback"
	b := newLoginBench(t, fmt.Sprintf(`, "oauth": {"clientId": "me", "redirectUri": %q}`, elsewhere))
	b.as.Redirects = map[string][]string{"me": {elsewhere}}
	_, errs := b.run(exitFailed, "login", "docs", "--timeout", "1m")
	if !strings.Contains(errs, "the redirect URI does not lead to this machine: "+elsewhere) || !strings.Contains(errs, "--no-browser") {
		t.Error(errs)
	}
	lines, out := io.Pipe()
	in, answer := io.Pipe()
	var said bytes.Buffer
	code := make(chan int, 1) // sent to once
	go func() {
		code <- Main(t.Context(), b.env(in, out, &said), []string{"--config", b.config, "login", "docs", "--no-browser", "--timeout", "1m"})
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
	if got := <-code; got != exitOK {
		t.Fatalf("exit %d: %s", got, &said)
	}
	b.run(exitOK, "list")
}

// A login that nothing came of is not tried again with the same registered client: the
// authorization server may have forgotten that.
func TestAbandonedLoginRegistersAnew(t *testing.T) {
	b := newLoginBench(t, "")
	for i, c := range []struct {
		exit, registered int
		args             []string
	}{{exitOK, 1, nil}, {exitOK, 1, nil}, {exitUsage, 1, []string{"--no-browser"}}, {exitOK, 2, nil}} { // nothing is pasted
		b.run(c.exit, append([]string{"login", "docs", "--timeout", "1m"}, c.args...)...)
		if n := b.as.Hits("as /register"); n != c.registered {
			t.Errorf("login %d: %d registrations, want %d", i, n, c.registered)
		}
	}
}
