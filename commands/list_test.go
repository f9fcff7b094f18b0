package commands

import (
	"context"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/commands/internal/cli/clitest"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
)

// TestLogNamesServer: a log line about a server, such as noise on its stdout, names the server.
func TestLogNamesServer(t *testing.T) {
	b := clitest.New(t, Main)
	dial := b.Dial
	b.Dial = func(ctx context.Context, srv config.Server, opts session.Options) (*session.Session, error) {
		opts.Logger.Warn("noise")
		return dial(ctx, srv, opts)
	}
	for _, args := range [][]string{{"list"}, {"read", "notes", "note://none"}} {
		b.Run(t, args...)
		if !strings.Contains(b.Stderr.String(), "msg=noise server=notes\n") {
			t.Errorf("%v logs:\n%s", args, &b.Stderr)
		}
	}
}
