package sqlitelog

import (
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

// childEnv makes the test binary a process that a test kills; see child_test.go.
const childEnv = "MCPTRACK_LOG_CHILD"

func TestMain(m *testing.M) {
	if what := os.Getenv(childEnv); what != "" {
		os.Exit(child(what))
	}
	goleak.VerifyTestMain(m)
}

func open(t testing.TB, opts Options) *Log {
	t.Helper()
	if opts.Logger == nil {
		opts.Logger = journaltest.Logger(t)
	}
	opts.check = time.Minute
	l, err := Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// idle opens a log whose writer the test calls itself. A call that waits for the writer hangs.
func idle(t *testing.T, opts Options) (*Log, *writer) {
	t.Helper()
	opts, err := opts.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	opts.Logger = journaltest.Logger(t)
	l := newLog(t.Context(), opts)
	if l.dir, err = openDir(opts.Dir, false); err != nil {
		t.Fatal(err)
	}
	w, err := newWriter(l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.life.End()
		l.life.Wait()
		w.finish()
		if err := l.dir.close(); err != nil {
			t.Error(err)
		}
	})
	return l, w
}

func closeLog(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// follower follows a log until that ends with an error.
type follower struct {
	began chan struct{} // closed at the first entry
	ended chan error    // gets the error; capacity 1
}

// startFollow follows from number from on, and waits for the first entry.
func startFollow(t *testing.T, l *Log, from uint64) *follower {
	t.Helper()
	f := &follower{began: make(chan struct{}), ended: make(chan error, 1)}
	go func() {
		first := true
		for _, err := range l.Follow(t.Context(), from) {
			if err != nil {
				f.ended <- err
			}
			if first {
				close(f.began)
				first = false
			}
		}
	}()
	<-f.began
	return f
}
