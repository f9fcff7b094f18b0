package filewatch

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// A mirror is a receiver that rereads exactly the paths of each batch. If it differs
// from the disk in the end, the Tree did not deliver a path.
type mirror struct {
	*Tree
	dir string

	mu       sync.Mutex
	files    map[string]string
	read     bool // at least once
	batches  []Batch
	patience time.Duration
	news     chan struct{} // sent to by the receiver, capacity 1: a batch was handled
}

// onlyTreeEvents disables polling.
func onlyTreeEvents() TreeOptions {
	return TreeOptions{Quiet: 50 * time.Millisecond, poll: time.Hour, pollOnly: time.Hour, notify: patientNotifier}
}

// follow runs a Tree until the test ends, with a receiver, and waits for the first
// batch.
func follow(t testing.TB, dir string, opts TreeOptions) *mirror {
	t.Helper()
	m := &mirror{Tree: NewTree(dir, opts), dir: dir, files: make(map[string]string), news: make(chan struct{}, 1), patience: patience}
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	received := make(chan struct{}) // closed by the receiver at its end
	go func() {
		defer close(received)
		for b := range m.Batches() {
			m.apply(b)
			select {
			case m.news <- struct{}{}:
			default:
			}
		}
	}()
	t.Cleanup(func() {
		cancel(errTestOver)
		if err := <-done; !errors.Is(err, errTestOver) {
			t.Errorf("Run returned %v, want the cause of its context", err)
		}
		<-received // ends only if Run closed the channel
	})
	m.wantDisk(t)
	return m
}

func (m *mirror) apply(b Batch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.batches, m.read = append(m.batches, b), true
	paths := b.Paths
	if b.All {
		paths = []string{"."}
	}
	for _, p := range paths {
		maps.DeleteFunc(m.files, func(have, _ string) bool { return within(have, p) })
		maps.Copy(m.files, contents(m.dir, p, m.opts.Ignore))
	}
}

// contents are the files at or below a path.
func contents(dir, at string, ignore func(string, bool) bool) map[string]string {
	found := make(map[string]string)
	_ = filepath.WalkDir(filepath.Join(dir, at), func(path string, e fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, path)
		rel = filepath.ToSlash(rel)
		switch {
		case err != nil:
			return nil // removed meanwhile: an event follows
		case rel != "." && ignore(rel, e.IsDir()):
			if e.IsDir() {
				return filepath.SkipDir
			}
		case e.Type().IsRegular():
			b, err := os.ReadFile(path)
			if err == nil {
				found[rel] = string(b)
			}
		}
		return nil
	})
	return found
}

// wantDisk waits until the mirror is equal to the disk.
func (m *mirror) wantDisk(t testing.TB) {
	t.Helper()
	deadline := time.After(m.patience)
	for {
		want := contents(m.dir, ".", m.opts.Ignore)
		m.mu.Lock()
		equal := m.read && maps.Equal(m.files, want)
		have := maps.Clone(m.files)
		m.mu.Unlock()
		if equal {
			return
		}
		select {
		case <-m.news:
		case <-deadline:
			for path := range want {
				if have[path] != want[path] {
					t.Errorf("%s is %q, the mirror has %q", path, want[path], have[path])
				}
			}
			for path := range have {
				if _, ok := want[path]; !ok {
					t.Errorf("%s was removed, but not in the mirror", path)
				}
			}
			t.Fatalf("%d files, %d in the mirror", len(want), len(have))
		}
	}
}

// taken returns the batches since the last call.
func (m *mirror) taken() []Batch {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.batches
	m.batches = nil
	return b
}
