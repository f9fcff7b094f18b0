package commands

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/commands/internal/cli/clitest"
)

// Error messages never contain the names of system calls and Go functions.
func TestErrorsAreInPlainWords(t *testing.T) {
	dir := t.TempDir()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	taken := ln.Addr().String()
	defer func() { _ = ln.Close() }()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := free.Addr().String()
	_ = free.Close()
	file := filepath.Join(dir, "file")
	unreachable := filepath.Join(dir, "servers.json")
	for path, text := range map[string]string{
		file: "text", unreachable: `{"mcpServers": {"docs": {"url": "http://` + closed + `/mcp", "trackResources": true}}}`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	raw := regexp.MustCompile(`(?i)\b(dial|listen) tcp|\bbind:|\bconnect: |\b(l?stat|open|read|mkdir|lookup) (/|[a-z0-9.]+:? no such)|strconv\.|context (deadline|canceled)|template:|time: |x509: |json: |%!|\bEOF\b|http: |nats: |interface|failed to send`)
	for _, args := range [][]string{
		{"status", "http://" + closed},
		{"status", "http://no.such.host.invalid:1"},
		{"status", "http://127.0.0.1:99999"},
		{"status", "https://" + taken[:strings.LastIndex(taken, ":")] + ":1"},
		{"list", "--config", unreachable, "--json", "--connect-timeout", "5s"},
		{"list", "--config", filepath.Join(dir, "none.json")},
		{"list", "--config", dir},
		{"validate", filepath.Join(file, "below")},
		{"read", "docs", "x:y", "--config", unreachable, "--out", filepath.Join(dir, "none", "out"), "--connect-timeout", "5s"},
		{"call", "docs", "t", "--args-json", `{"a":tru}`, "--config", unreachable},
		{"call", "docs", "t", "--args-json", "@" + filepath.Join(dir, "none"), "--config", unreachable},
		{"serve-sse", "--demo", "--addr", taken, "--data-dir", filepath.Join(dir, "data")},
		{"serve-sse", "--demo", "--addr", "127.0.0.1:99999", "--data-dir", filepath.Join(dir, "data")},
		{"serve-sse", "--demo", "--addr", "127.0.0.1:0", "--data-dir", filepath.Join(file, "data")},
		{"serve-sse", "--demo", "--addr", "127.0.0.1:0", "--token-file", filepath.Join(dir, "none")},
		{"serve-sse", "--demo", "--addr", "127.0.0.1:0", "--tls-cert", file, "--tls-key", filepath.Join(dir, "none")},
		{"serve-sse", "--demo", "--addr", "127.0.0.1:0", "--nats", "nats://" + closed},
		{"serve-sse", "--demo", "--addr", "127.0.0.1:0", "--nats", "nats://" + closed, "--nats-credentials", filepath.Join(dir, "none")},
		{"replay", "--data-dir", filepath.Join(dir, "none")},
		{"replay", "--data-dir", filepath.Join(dir, "data"), "--since", "x"},
		{"replay", "--nats", "nats://" + closed},
		{"inject", "--dry-run", "--from", "http://" + closed, "--timeout", "1s"},
		{"inject", "--model", "m", "--url", "ws://" + closed, "--stdin", "--timeout", "1s", "--log-level", "info"},
		{"vault", filepath.Join(dir, "none")},
		{"vault", dir, "--addr", taken},
		{"gateway", "--config", unreachable, "--addr", taken},
		{"watch", "--count", "x"},
		{"watch", "--timeout", "x"},
		{"list", "--config", unreachable, "-o", "template={{.x"},
		{"list", "--config", unreachable, "-o", "template={{.id.x}}", "--connect-timeout", "5s"},
		{"prompt", "docs", "p", "--config", unreachable, "--connect-timeout", "5s"},
	} {
		var out, errs clitest.Buffer
		env := &cli.Env{In: strings.NewReader("{}\n"), Out: &out, Err: &errs, LookupEnv: func(string) (string, bool) { return "", false }, Executable: "/bin/false"}
		code := Main(t.Context(), env, args)
		if found := raw.FindString(errs.String() + out.String()); found != "" || code == cli.ExitOK && args[0] != "inject" {
			t.Errorf("mcptrack %q (exit %d) says %q:\n%s%s", args, code, found, errs.String(), out.String())
		}
	}
}
