package natslog

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// onServer returns the options of a new log on a server.
func onServer(t testing.TB) Options { return Options{URL: journaltest.Store(t), Replicas: 1} }

func open(t testing.TB, opts Options) *Log {
	t.Helper()
	if opts.Logger == nil {
		opts.Logger = journaltest.Logger(t)
	}
	j, err := Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func closeLog(t testing.TB, j *Log) {
	t.Helper()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}
