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

// A mirror does what the receiver of batches is meant to do: it looks again where
// it is told to, and nowhere else. If it ends up different from the disk, the Tree
// has kept something to itself.
type mirror struct {
	*Tree
	dir string

	mu       sync.Mutex
	files    map[string]string
	looked   bool
	batches  []Batch
	patience time.Duration
	news     chan struct{} // sent to by the receiver, capacity 1: a batch was looked at
}

// onlyTreeEvents switches the looks off that no event asked for.
func onlyTreeEvents() TreeOptions {
	return TreeOptions{Quiet: 50 * time.Millisecond, Poll: time.Hour, PollOnly: time.Hour}
}

// follow runs a Tree until the test ends, with a receiver, and waits for its first
// look.
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
			m.look(b)
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

func (m *mirror) look(b Batch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.batches, m.looked = append(m.batches, b), true
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
			return nil // gone while we look: an event will tell
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
		equal := m.looked && maps.Equal(m.files, want)
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
					t.Errorf("%s is %q, told were %q", path, want[path], have[path])
				}
			}
			for path := range have {
				if _, ok := want[path]; !ok {
					t.Errorf("%s is gone, which was not told", path)
				}
			}
			t.Fatalf("%d files, %d were told (mode %v)", len(want), len(have), m.Mode())
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

// wantNothing fails if a batch comes within d.
func (m *mirror) wantNothing(t *testing.T, d time.Duration) {
	t.Helper()
	m.taken()
	select {
	case <-m.news:
	default:
	}
	select {
	case <-m.news:
		if b := m.taken(); len(b) > 0 {
			t.Errorf("told %+v", b)
		}
	case <-time.After(d):
	}
}
