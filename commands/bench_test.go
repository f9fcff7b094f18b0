package commands

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// bench is an Env with one server, "notes", in this process.
type bench struct {
	Env
	server   *sessiontest.Fake
	out, err buffer
	dials    int
	serving  sync.WaitGroup
}

func newBench(t *testing.T, vars ...string) *bench {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "mcp-servers.json")
	if err := os.WriteFile(file, []byte(`{"mcpServers": {"notes": {"url": "http://127.0.0.1:1/mcp", "headers": {"X-Key": "${KEY:-one}"}}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	vars = append(vars, "MCPTRACK_CONFIG="+file, "XDG_CACHE_HOME="+dir)
	b := &bench{server: sessiontest.New()}
	b.Env = Env{Out: &b.out, Err: &b.err, Version: "test",
		LookupEnv: func(name string) (string, bool) {
			for _, v := range vars {
				if value, ok := strings.CutPrefix(v, name+"="); ok {
					return value, true
				}
			}
			return "", false
		},
		Dial: func(ctx context.Context, srv config.Server, opts session.Options) (*session.Session, error) {
			b.dials++
			r, w, wait := b.server.Pipe()
			b.serving.Go(wait)
			return session.OverIO(ctx, r, w, srv, opts)
		}}
	t.Cleanup(b.serving.Wait)
	return b
}

// run runs one command line and returns its exit code and what it wrote to stdout.
func (b *bench) run(t *testing.T, args ...string) (int, string) {
	t.Helper()
	b.out.Reset()
	b.err.Reset()
	code := Main(t.Context(), &b.Env, args)
	return code, b.out.String()
}
