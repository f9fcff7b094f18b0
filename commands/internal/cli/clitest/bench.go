// Package clitest runs command lines in tests.
package clitest

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// Bench is an Env whose config has one server, "notes", which runs in the test process.
type Bench struct {
	cli.Env
	main           func(context.Context, *cli.Env, []string) int
	Server         *sessiontest.Fake
	Stdout, Stderr Buffer
	serving        sync.WaitGroup

	mu    sync.Mutex // held while Dials changes: commands may connect to several servers concurrently
	Dials int        // sessions that were opened; read it after Run
}

func New(t *testing.T, main func(context.Context, *cli.Env, []string) int, vars ...string) *Bench {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "mcp-servers.json")
	if err := os.WriteFile(file, []byte(`{"mcpServers": {"notes": {"url": "http://127.0.0.1:1/mcp", "headers": {"X-Key": "${KEY:-one}"}}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	vars = append(vars, "MCPTRACK_CONFIG="+file, "XDG_CACHE_HOME="+dir, "MCPTRACK_SOCKET="+filepath.Join(dir, "none.sock"))
	b := &Bench{main: main, Server: sessiontest.New()}
	b.Env = cli.Env{Out: &b.Stdout, Err: &b.Stderr, Version: "test",
		LookupEnv: func(name string) (string, bool) {
			for _, v := range vars {
				if value, ok := strings.CutPrefix(v, name+"="); ok {
					return value, true
				}
			}
			return "", false
		},
		Dial: func(ctx context.Context, srv config.Server, opts session.Options) (*session.Session, error) {
			b.mu.Lock()
			b.Dials++
			b.mu.Unlock()
			r, w, wait := b.Server.Pipe()
			b.serving.Go(wait)
			return session.OverIO(ctx, r, w, srv, opts)
		}}
	t.Cleanup(b.serving.Wait)
	return b
}

// Run runs one command line and returns its exit code and stdout.
func (b *Bench) Run(t *testing.T, args ...string) (int, string) {
	t.Helper()
	b.Stdout.Reset()
	b.Stderr.Reset()
	code := b.main(t.Context(), &b.Env, args)
	return code, b.Stdout.String()
}

// Buffer records output. It is safe for concurrent use.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (b *Buffer) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.b.Reset()
}
