package session_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
)

// A server that writes lines of a logger to stdout, and no answer, is recognised by them.
func TestNoAnswerButNoise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fromServer, stdout := io.Pipe()
		stdin, toServer := io.Pipe()
		go func() { _, _ = io.Copy(io.Discard, stdin) }()
		go func() { _, _ = io.WriteString(stdout, "\nlistening on port 3000\x1b[m\nready\n") }()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := session.OverIO(ctx, fromServer, toServer, config.Server{ID: "web"}, session.Options{})
		if want := `(stdout is not JSON-RPC: listening on port 3000\x1b[m)`; err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		_ = stdin.Close()
	})
}
