package filewatch

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen; only a failure lasts
// that long.
const patience = time.Minute

// onlyEvents disables polling, which would hide missing events.
func onlyEvents() FileOptions {
	return FileOptions{poll: time.Hour, PollOnly: time.Hour, notify: patientNotifier}
}

// patientNotifier waits while other processes of the user have all sources of events that the system
// permits.
func patientNotifier() (*notifier, error) {
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		n, err := newNotifier()
		if !errors.Is(err, syscall.EMFILE) || time.Now().After(deadline) {
			return n, err
		}
	}
}

// A source makes notifiers whose events and failures come from the test, so that it can run in fake
// time and needs nothing from the system.
type source struct {
	mu     sync.Mutex
	made   int
	events chan fsnotify.Event // of all notifiers until a fault, as errors; nil before the first
	errors chan error
	addErr error // what add returns
}

func (s *source) notify() (*notifier, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	if s.events == nil {
		s.events, s.errors = make(chan fsnotify.Event), make(chan error)
	}
	nothing := func(string) error { return nil }
	return &notifier{events: s.events, errors: s.errors, remove: nothing, close: func() error { return nil }, add: func(string) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.addErr
	}}, nil
}

// limit makes add fail, or not.
func (s *source) limit(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addErr = err
}

// event reports a write to a path, or its creation.
func (s *source) event(path string) {
	s.mu.Lock()
	events := s.events
	s.mu.Unlock()
	events <- fsnotify.Event{Name: path, Op: fsnotify.Create | fsnotify.Write}
}

// fails makes the source fail in one of its ways.
func (s *source) fails(how func(events chan fsnotify.Event, errors chan error)) {
	s.mu.Lock()
	events, errors := s.events, s.errors
	s.events, s.errors = nil, nil
	s.mu.Unlock()
	how(events, errors)
}

// faults are the ways in which a source loses events.
func faults() map[string]func(chan fsnotify.Event, chan error) {
	return map[string]func(chan fsnotify.Event, chan error){
		"queue overflow":   func(_ chan fsnotify.Event, errors chan error) { errors <- fsnotify.ErrEventOverflow },
		"error source end": func(_ chan fsnotify.Event, errors chan error) { close(errors) },
		"watcher death":    func(events chan fsnotify.Event, _ chan error) { close(events) },
	}
}

// realDir is a temporary folder without links on its path.
func realDir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	return dir
}

// A logged holds what a logger was told, one line a record.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// want checks the number of lines, and that the last one contains a text.
func (l *logged) want(t testing.TB, lines int, text string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	all := strings.Split(l.text.String(), "\n")
	if len(all) != lines+1 || lines > 0 && !strings.Contains(all[lines-1], text) {
		t.Errorf("log, want %d lines, the last with %q:\n%s", lines, text, l.text.String())
	}
}

// onEvents skips a test about modes if the temporary folder is always polled.
func onEvents(t testing.TB, dir string) {
	t.Helper()
	if kind := silentFS(dir); kind != "" {
		t.Skipf("the temporary folder is on %s: always polled", kind)
	}
}

var errTestOver = errors.New("test over")

// start runs a File until the test ends and checks how it returns.
func start(t testing.TB, path string, opts FileOptions) *File {
	t.Helper()
	f := NewFile(path, opts)
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel(errTestOver)
		if err := <-done; !errors.Is(err, errTestOver) {
			t.Errorf("Run returned %v, want the cause of its context", err)
		}
		for range f.Changes() { // ends only if Run closed it
		}
	})
	return f
}

func receive(t testing.TB, f *File) Change {
	t.Helper()
	select {
	case c := <-f.Changes():
		if c.SeenAt.IsZero() {
			t.Errorf("a change without SeenAt: %+v", c)
		}
		return c
	case <-time.After(patience):
		t.Fatalf("no change within %v", patience)
		panic("unreachable")
	}
}

func wantContent(t testing.TB, f *File, content string) Change {
	t.Helper()
	c := receive(t, f)
	if c.Missing || c.Err != nil || string(c.Data) != content {
		t.Fatalf("got %q (missing %v, err %v), want %q", c.Data, c.Missing, c.Err, content)
	}
	return c
}

func wantMissing(t testing.TB, f *File) {
	t.Helper()
	if c := receive(t, f); !c.Missing || c.Data != nil || c.Err != nil {
		t.Fatalf("got %q (missing %v, err %v), want missing", c.Data, c.Missing, c.Err)
	}
}

// wantSilence fails if anything is delivered within d.
func wantSilence(t testing.TB, f *File, d time.Duration) {
	t.Helper()
	select {
	case c := <-f.Changes():
		t.Fatalf("got %q (missing %v, err %v), want nothing", c.Data, c.Missing, c.Err)
	case <-time.After(d):
	}
}

func put(t testing.TB, path, content string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(content), 0o644))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
