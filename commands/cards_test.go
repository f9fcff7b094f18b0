package commands

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/commands/internal/cli/clitest"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
)

// init --from and list take domains and URLs beside names. A list connects to nothing but what the card
// leads to, and to private networks only if the user named that host himself.
func TestServerCards(t *testing.T) {
	t.Parallel()
	page := ""
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/server-card" && page != "" {
			fmt.Fprint(w, page)
			return
		}
		http.NotFound(w, q)
	}))
	defer host.Close()
	name := strings.TrimPrefix(host.URL, "http://")
	b := clitest.New(t, Main)
	var mu sync.Mutex // guards dialled
	var dialled []string
	dial := b.Dial
	b.Dial = func(ctx context.Context, srv config.Server, opts session.Options) (*session.Session, error) {
		guarded := ""
		if opts.DialContext != nil {
			guarded = " guarded"
			if _, err := opts.DialContext(ctx, "tcp", "10.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "not the server's own") {
				t.Errorf("a private address: %v", err)
			}
		}
		mu.Lock()
		dialled = append(dialled, srv.URL.Reveal()+guarded)
		mu.Unlock()
		return dial(ctx, srv, opts)
	}
	run := func(want int, args ...string) string {
		t.Helper()
		dialled = nil
		code, out := b.Run(t, args...)
		if code != want {
			t.Errorf("%v: exit code %d, want %d\n%s%s", args, code, want, out, &b.Stderr)
		}
		return out
	}
	contains := func(what, text, want string) {
		t.Helper()
		if !strings.Contains(text, want) {
			t.Errorf("%s lacks %q:\n%s", what, want, text)
		}
	}
	file := filepath.Join(t.TempDir(), "mcp-servers.json")

	// Without a card, the errors say what was tried; a URL with a path is a server itself.
	for _, args := range [][]string{{"list", name}, {"init", "--from", name, "--yes", file}} {
		run(cli.ExitRefused, args...)
		contains(fmt.Sprint(args), b.Stderr.String(), host.URL+" has no usable server card (tried /.well-known/ai-catalog.json: HTTP status 404; /server-card: HTTP status 404; ")
	}
	contains("list URL", run(0, "list", host.URL+"/mcp"), "127.0.0.1  ready")
	contains("list URL", fmt.Sprint(dialled), "["+host.URL+"/mcp]")
	run(0, "list", host.URL)
	contains("list of a URL that is a host", fmt.Sprint(dialled), "["+host.URL+"]")
	contains("list with a server of the config", run(0, "list", "servers", "notes", host.URL+"/mcp", "-o", "name"), "127.0.0.1\nnotes\n")
	run(cli.ExitUsage, "list", "https://me:pw@"+name)
	if strings.Contains(b.Stderr.String(), "pw") {
		t.Errorf("a password is shown: %s", &b.Stderr)
	}
	run(cli.ExitUsage, "init", "--from", "ftp://"+name, "--dry-run")
	run(cli.ExitUsage, "init", "--from", "docs", "--dry-run")

	// A card leads to its own host, and not to others.
	page = `{"name":"com.example/docs","description":"\u001b[31mred","remotes":[{"type":"streamable-http","url":"` + host.URL + `/mcp","headers":[
		{"name":"Authorization","value":"Bearer {token}","variables":{"token":{"isRequired":true,"isSecret":true,"description":"\u001b[31mYour token."}}}]},
		{"type":"streamable-http","url":"https://10.0.0.1/mcp"}]}`
	out := run(0, "init", "--from", name, "--yes", file)
	contains("init", out, name+"  "+host.URL+"/server-card  docs")
	contains("init", out, "Server cards ask for these values:\n  set MCP_127_0_0_1__TOKEN: token: ")
	contains("init", out, "Left out:\n  "+host.URL+"/server-card: https://10.0.0.1/mcp is a private address of another host")
	if strings.Contains(out, "\x1b") || len(dialled) > 0 {
		t.Errorf("init prints %q and connects to %v", out, dialled)
	}
	contains("list of what init wrote", run(cli.ExitUnreachable, "list", "--config", file), "docs    not configured")
	contains("list of a card", run(cli.ExitUnreachable, "list", name), "docs    not configured")
	page = `{"name":"com.example/docs","remotes":[{"type":"streamable-http","url":"` + host.URL + `/mcp"}]}`
	contains("list of a card", run(0, "list", name), "docs    ready")
	contains("list of a card", fmt.Sprint(dialled), "["+host.URL+"/mcp guarded]")
	out = run(0, "init", "--from", name, "--dry-run", "-o", "template={{range .sources}}{{.host}} {{.file}} {{.servers}}{{end}} {{.variables}} {{(index .config.servers 0).url}}")
	contains("init -o", out, name+" "+host.URL+"/server-card [docs] [] "+host.URL+"/mcp")
}
