package session_test

import (
	"context"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// serveKey selects the server that a re-executed test binary is; see child_test.go.
const serveKey = "MCPTRACK_TEST_SERVE"

func TestMain(m *testing.M) {
	if kind := os.Getenv(serveKey); kind != "" {
		serve(kind)
		return
	}
	goleak.VerifyTestMain(m)
}

// over connects to a server in this process, over pipes.
func over(t *testing.T, srv *sessiontest.Fake, entry config.Server, opts session.Options) *session.Session {
	t.Helper()
	s, err := tryOver(t, srv, entry, opts)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	return s
}

func tryOver(t *testing.T, srv *sessiontest.Fake, entry config.Server, opts session.Options) (*session.Session, error) {
	t.Helper()
	r, w, wait := srv.Pipe()
	ctx, cancel := context.WithTimeout(t.Context(), dialTimeout)
	defer cancel()
	s, err := session.OverIO(ctx, r, w, entry, opts)
	if err != nil {
		wait()
		return nil, err
	}
	t.Cleanup(func() {
		_ = s.Close()
		wait()
	})
	return s, nil
}
