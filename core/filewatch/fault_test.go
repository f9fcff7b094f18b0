package filewatch

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

// A faultySource makes real notifiers and lets a test break the newest one.
type faultySource struct {
	mu     sync.Mutex
	made   int
	newest *notifier
	errors chan error
	addErr error // what add returns, nil: the truth
}

func (s *faultySource) notify() (*notifier, error) {
	n, err := newNotifier()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	s.newest = n
	s.errors = make(chan error)
	add := n.add
	return &notifier{events: n.events, errors: s.errors, remove: n.remove, close: n.close, add: func(dir string) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.addErr != nil {
			return s.addErr
		}
		return add(dir)
	}}, nil
}

// removeWatches removes all watches without the File's knowledge.
func (s *faultySource) removeWatches(t *testing.T, path string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	real, err := filepath.EvalSymlinks(path)
	must(t, err)
	for dir := filepath.Dir(real); ; dir = filepath.Dir(dir) {
		must(t, s.newest.remove(dir))
		if dir == filepath.Dir(dir) {
			return
		}
	}
}

func (s *faultySource) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made
}

// TestEventsLost: after any loss of events, the change made meanwhile is found, and
// later ones give events again.
func TestEventsLost(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*faultySource){
		"queue overflow":   func(s *faultySource) { s.errors <- fsnotify.ErrEventOverflow },
		"error":            func(s *faultySource) { s.errors <- syscall.EIO },
		"error source end": func(s *faultySource) { close(s.errors) },
		"watcher death":    func(s *faultySource) { _ = s.newest.close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "c.json")
			put(t, path, "first")
			var source faultySource
			opts := onlyEvents()
			opts.notify = source.notify
			f := start(t, path, opts)
			wantContent(t, f, "first")
			for round, content := range []string{"second", "third"} {
				source.removeWatches(t, path)
				put(t, path, content)
				wantSilence(t, f, 200*time.Millisecond) // or the fault proves nothing
				fault(&source)
				wantContent(t, f, content)
				if got := source.count(); got != round+2 {
					t.Errorf("%d sources made by round %d", got, round)
				}
				put(t, path, content+" by event")
				wantContent(t, f, content+" by event")
			}
		})
	}
}

// TestWatchLimit: at the system's limit of watches the file is polled, with one log
// line, and events are used again once watches are available.
func TestWatchLimit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if kind := silentFS(dir); kind != "" {
		t.Skipf("the temporary folder is on %s: always polled", kind)
	}
	path := filepath.Join(dir, "c.json")
	put(t, path, "first")
	var log lockedBuffer
	source := faultySource{addErr: syscall.ENOSPC}
	f := start(t, path, FileOptions{
		Poll: time.Hour, PollOnly: 50 * time.Millisecond, notify: source.notify,
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	wantContent(t, f, "first")
	for _, content := range []string{"second", "third"} {
		put(t, path, content)
		wantContent(t, f, content)
	}
	if m := f.Mode(); m.Kind != ModePoll || !strings.Contains(m.String(), syscall.ENOSPC.Error()) {
		t.Errorf("mode %v", m)
	}
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "polling") {
		t.Errorf("log, want one line:\n%s", text)
	}
	source.mu.Lock()
	source.addErr = nil
	source.mu.Unlock()
	for deadline := time.Now().Add(patience); f.Mode().Kind != ModeInotify; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still in mode %v", f.Mode())
		}
	}
	put(t, path, "fourth")
	wantContent(t, f, "fourth")
	if m := f.Mode(); m.String() != ModeInotify {
		t.Errorf("mode %v", m)
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
