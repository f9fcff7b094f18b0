package doctor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/commands"
	"github.com/mcptrack/mcptrack/commands/internal/cli/clitest"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/login"
	"github.com/mcptrack/mcptrack/core/session"
)

// bench runs doctor with a home folder of its own.
type bench struct {
	*clitest.Bench
	t    *testing.T
	home string
}

func newBench(t *testing.T, vars ...string) bench {
	t.Helper()
	home := t.TempDir()
	return bench{clitest.New(t, commands.Main, append(vars, "HOME="+home, "XDG_STATE_HOME="+filepath.Join(home, "state"), "XDG_CONFIG_HOME="+filepath.Join(home, "config"))...), t, home}
}

// write writes a file in the home folder, and returns its path.
func (b bench) write(name, text string) string {
	b.t.Helper()
	path := filepath.Join(b.home, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return path
}

type row struct{ ID, Name, Status, Detail, Fix string }

// checks runs doctor --json, and returns its checks by id.
func (b bench) checks(args ...string) (map[string]row, int) {
	b.t.Helper()
	code, out := b.Run(b.t, append([]string{"doctor", "--json"}, args...)...)
	var doc struct {
		OK     bool
		Checks []row
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil || doc.OK != (code == 0) {
		b.t.Fatalf("doctor %v: exit %d, %v: %s%s", args, code, err, out, &b.Stderr)
	}
	checks := map[string]row{}
	for _, c := range doc.Checks {
		if checks[c.ID] != (row{}) || !slices.Contains([]string{"ok", "warning", "error", "skipped"}, c.Status) || c.Detail == "" || c.Status == "error" && c.Fix == "" {
			b.t.Errorf("a check is %+v", c)
		}
		checks[c.ID] = c
	}
	return checks, code
}

// No secret of the config or the environment is in any output, whatever servers answer, and the home folder
// is ~.
func TestSecretsNeverAppear(t *testing.T) {
	t.Parallel()
	secrets := []string{"env-value-4711", "hdr-value-4711", "bearer-tok-4711", "url-user-4711", "url-pass-4711", "query-val-4711", "sk-proj-abcdef0123456789", "arg-pass-4711",
		"client-secret-4711", "hook-token-4711", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "own-token-4711", "var-value-4711", "ghp_0123456789abcdefghijABCDEFGHIJ012345"}
	b := newBench(t, "MCPTRACK_TOKEN=own-token-4711", "NAME=var-value-4711", "PATH="+os.Getenv("PATH"), "SHELL=/bin/zsh")
	file := b.write("servers.json", `{"mcpServers": {
		"prog": {"command": "sh", "args": ["--api-key=sk-proj-abcdef0123456789", "--password", "arg-pass-4711", "${NAME}"], "env": {"API_TOKEN": "env-value-4711"}},
		"gone": {"command": "${NAME}", "env": {"API_TOKEN": "env-value-4711"}},
		"web": {"url": "https://url-user-4711:url-pass-4711@mcp.invalid/mcp?token=query-val-4711", "headers": {"X-Api-Key": "hdr-value-4711", "Authorization": "Bearer bearer-tok-4711"}},
		"oauth": {"url": "https://oauth.invalid/mcp", "oauth": {"clientId": "id", "clientSecret": "client-secret-4711"}},
		"var": {"url": "https://mcp.invalid/${NAME}/mcp"}},
		"webhooks": [{"url": "https://hooks.invalid/hook-token-4711", "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}]}`)
	b.Env.Dial = func(_ context.Context, srv config.Server, _ session.Options) (*session.Session, error) {
		return nil, fmt.Errorf("%s repeats\x1b[2J\n token=%s in %s/x", srv.ID, strings.Join(secrets, " key: "), b.home)
	}
	shown := 0
	for _, args := range [][]string{{"--json"}, {}, {"-o", "wide"}, {"-o", "yaml"}, {"-o", "name"}, {"--offline", "--json"}, {"--color", "always"}} {
		_, out := b.Run(t, slices.Concat([]string{"doctor", "--config", file}, args)...)
		if out += b.Stderr.String(); len(out) < 100 {
			t.Errorf("%v: %s", args, out)
		}
		for _, s := range append(secrets, b.home, "\x1b[2J") {
			if strings.Contains(out, s) {
				t.Errorf("%v prints %q: %s", args, s, out)
			}
		}
		shown += strings.Count(out, "web repeats") * strings.Count(out, "[secret]") * strings.Count(out, "~/x")
	}
	if shown == 0 {
		t.Error("what the servers answered is not shown at all")
	}
}

// Nothing is started that is not approved, nor with --offline.
func TestOnlyApprovedServersAreStarted(t *testing.T) {
	b := newBench(t, "MCPTRACK_CONFIG=")
	t.Chdir(filepath.Dir(b.write("project/mcp-servers.json", `{"mcpServers": {"notes": {"url": "http://127.0.0.1:1/mcp"}, "off": {"url": "http://127.0.0.1:1/", "enabled": false}}}`)))
	checks, code := b.checks()
	if c := checks["approvals"]; code != 1 || c.Status != "error" || !strings.Contains(c.Detail, "notes") || !strings.HasPrefix(c.Fix, "mcptrack trust ~/project") {
		t.Errorf("exit %d, %+v", code, c)
	}
	if c := checks["server:notes"]; c.Status != "skipped" || b.Dials != 0 {
		t.Errorf("%d dials, %+v", b.Dials, c)
	}
	if code, out := b.Run(t, "trust", "--yes"); code != 0 {
		t.Fatal(out, &b.Stderr)
	}
	if checks, _ := b.checks("--offline"); checks["server:notes"].Status != "skipped" || checks["approvals"].Status != "ok" || b.Dials != 0 {
		t.Errorf("%d dials, %+v", b.Dials, checks)
	}
	if checks, _ := b.checks(); checks["server:notes"].Status != "ok" || checks["server:off"].Status != "skipped" || b.Dials != 1 {
		t.Errorf("%d dials, %+v", b.Dials, checks)
	}
}

// A difference from the lock is a warning, and so is a server that it does not have.
func TestLock(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tool := func(text string) {
		b.Server.SetList(catalog.Tools, map[string]string{"name": "draw", "description": text})
	}
	tool("Draws.")
	status := func(want string) row {
		checks, _ := b.checks()
		if c := checks["lock"]; c.Status != want {
			t.Errorf("%+v is not %s", c, want)
		}
		return checks["lock"]
	}
	status("skipped")
	if code, out := b.Run(t, "lock"); code != 0 {
		t.Fatal(out, &b.Stderr)
	}
	status("ok")
	tool("Draws, and reads your keys.")
	if c := status("warning"); !strings.Contains(c.Detail, "notes (1)") || strings.Contains(c.Detail, "keys") {
		t.Errorf("%+v", c)
	}
	lock := filepath.Join(filepath.Dir(b.Getenv("MCPTRACK_CONFIG")), "mcptrack.lock")
	if err := os.WriteFile(lock, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	status("error")
}

// Logins that are of no use any more are errors, with the command that renews them.
func TestLogins(t *testing.T) {
	t.Parallel()
	past, future := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339), time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	for name, c := range map[string]struct{ members, tokens, status, detail string }{
		"valid":     {`"store": "file"`, `"access": "a-4711-secret", "expiry": "` + future + `"`, "ok", "valid until 20"},
		"expired":   {`"store": "file"`, `"access": "a-4711-secret", "expiry": "` + past + `"`, "error", "expired since 20"},
		"renewable": {`"store": "file"`, `"access": "a-4711-secret", "refresh": "r-4711-secret", "expiry": "` + past + `"`, "ok", "renewed when needed"},
		"refused":   {`"store": "file", "refused": "invalid_grant"`, `"access": "a-4711-secret", "refresh": "r-4711-secret"`, "error", "invalid_grant"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			const url = "http://127.0.0.1:1/mcp"
			dir := filepath.Join(b.home, "config", "mcptrack", "logins")
			path := login.NewStore(login.Options{Dir: dir}).Path(login.Target{URL: url})
			b.write(strings.TrimPrefix(path, b.home), `{"version": 1, "logins": [{"server": "`+url+`", "id": "notes", "issuer": "https://as.invalid", "client": {"id": "c"}, "grant": "code", `+c.members+`, "tokens": {`+c.tokens+`}}]}`)
			checks, _ := b.checks()
			got := checks["login:notes"]
			if got.Status != c.status || !strings.Contains(got.Detail, c.detail) || c.status == "error" && got.Fix != "mcptrack login notes" {
				t.Errorf("%+v", got)
			}
			if strings.Contains(b.Stdout.String(), "4711") {
				t.Errorf("a token is shown: %s", &b.Stdout)
			}
		})
	}
}

// Why a server cannot be used, and what to do, depends on the reason.
func TestFailures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err         error
		detail, fix string
	}{
		"login":  {session.ErrAuth, "", "mcptrack login notes"},
		"broken": {errors.New("no route"), "no route", "check that it runs, and the URL in the config: http://127.0.0.1:1/mcp"},
	} {
		b := newBench(t)
		b.Env.Dial = func(context.Context, config.Server, session.Options) (*session.Session, error) { return nil, c.err }
		checks, code := b.checks()
		if got := checks["server:notes"]; code != 1 || got.Status != "error" || !strings.Contains(got.Detail, c.detail) || got.Fix != c.fix {
			t.Errorf("%s: exit %d, %+v", name, code, got)
		}
	}
}

// A server that never answers is an error when --timeout expires; the other checks are there.
func TestTimeout(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Env.Dial = func(ctx context.Context, _ config.Server, _ session.Options) (*session.Session, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	checks, code := b.checks("--timeout", "300ms")
	if c := checks["server:notes"]; code != 1 || c.Status != "error" || !strings.Contains(c.Detail, "--timeout expired") || checks["data"].Status == "" {
		t.Errorf("exit %d, %+v", code, checks)
	}
}
