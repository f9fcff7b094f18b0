package commands

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/commands/internal/cli/clitest"
)

// On a terminal a server says what it serves and what to do next, after the line with its address. In
// a pipe and with -q it prints only that line. The token is never printed.
func TestServersSayWhatTheyServe(t *testing.T) {
	dir := t.TempDir()
	const secret = "a-token-of-forty-characters-that-is-secret"
	token, notes := filepath.Join(dir, "it's a token"), filepath.Join(dir, "notes")
	for name, content := range map[string]string{token: secret, filepath.Join(notes, "a.md"): "one", filepath.Join(notes, "b.md"): "two"} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	header := ` --header "Authorization: Bearer $(cat '` + strings.ReplaceAll(token, "'", `'\''`) + `')"`
	for name, tt := range map[string]struct {
		args []string
		want []string // the lines after the address; URL stands for it
	}{
		"vault":     {[]string{"vault", notes}, []string{"2 notes of " + notes + " at URL", "add it to Claude Code: claude mcp add --transport http vault URL"}},
		"gateway":   {[]string{"gateway", "--all", "--token-file", token}, []string{"0 tools, 0 prompts, 2 resources of 1 server", "add it to Claude Code: claude mcp add --transport http mcptrack URL" + header}},
		"serve-sse": {[]string{"serve-sse", "--all"}, []string{"dashboard: URL/", "following 1 of 1 server"}},
		"serve-sse with a token": {[]string{"serve-sse", "--all", "--token-file", token},
			[]string{"dashboard: URL/; log in with the token in " + token, "following 1 of 1 server"}},
		"inject": {[]string{"inject", "--all", "--upstream", "ws://127.0.0.1:1", "--listen", "127.0.0.1:0"}, []string{"injecting updates of notes into every session that connects"}},
	} {
		for _, where := range []string{"terminal", "quiet", "pipe"} {
			t.Run(name+" "+where, func(t *testing.T) {
				args := slices.Clone(tt.args)
				if args[0] != "inject" {
					args = append(args, "--addr", "127.0.0.1:0")
				}
				if where == "quiet" {
					args = append(args, "-q")
				}
				b := clitest.New(t, Main, "XDG_STATE_HOME="+t.TempDir())
				r, w := io.Pipe()
				b.Server.SetQuietly("note://a", "one")
				b.Server.SetQuietly("note://b", "two")
				b.Err, b.ErrTTY = w, where != "pipe"
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				done := make(chan int, 1)
				go func() {
					done <- Main(ctx, &b.Env, args)
					_ = w.Close()
				}()
				var all []string
				url := ""
				for lines := bufio.NewScanner(r); lines.Scan(); {
					all = append(all, lines.Text())
					if after, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
						if url != "" {
							t.Errorf("a second address: %s", after)
						}
						url, all = after, nil
					}
					if url != "" && (where != "terminal" || len(all) == len(tt.want)) {
						cancel()
					}
				}
				<-done
				if url == "" {
					t.Fatalf("no address:\n%s", strings.Join(all, "\n"))
				}
				got := strings.Join(all, "\n")
				if where == "quiet" && got != "" {
					t.Errorf("not quiet:\n%s", got)
				}
				if strings.Contains(got, secret) {
					t.Errorf("the token is printed:\n%s", got)
				}
				for _, line := range tt.want {
					line = strings.ReplaceAll(line, "URL", url)
					if slices.Contains(all, line) != (where == "terminal") {
						t.Errorf("%q is printed: %t, in:\n%s", line, where != "terminal", got)
					}
				}
			})
		}
	}
}
