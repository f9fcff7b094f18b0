package vault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen; only a failure lasts
// that long.
const patience = time.Minute

var errTestOver = errors.New("test over")

// recorder is a Listener that remembers the updates it received.
type recorder struct {
	*Vault
	t testing.TB

	mu      sync.Mutex
	all     bool            // uris contains everything that was ever there
	uris    map[string]bool // subscribed
	updates []update
	lists   [][]json.RawMessage
	news    chan struct{} // sent to by the listener, capacity 1
}

type update struct {
	uri string
	at  time.Time
}

// quick is a vault that does not wait long.
func quick(dir string) Options {
	return Options{Dir: dir, Quiet: 30 * time.Millisecond, ListSpacing: 50 * time.Millisecond}
}

// open runs a vault until the test ends.
func open(t testing.TB, opts Options, uris ...string) *recorder {
	t.Helper()
	return openUntil(t, t.Cleanup, opts, uris...)
}

// openUntil is open for a vault that ends when cleanup calls what it is given. Each
// holds an inotify instance, of which a user may have 128.
func openUntil(t testing.TB, cleanup func(func()), opts Options, uris ...string) *recorder {
	t.Helper()
	v, err := Open(opts)
	must(t, err)
	e := &recorder{Vault: v, t: t, all: len(uris) == 0, news: make(chan struct{}, 1)}
	if e.all {
		uris = []string{recentURI, statsURI, tagsURI, tagsFullURI, structureURI, folderURI("")}
	}
	e.subscribe(uris...)
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan error, 1) // Run's goroutine sends once
	go func() {
		done <- v.Run(ctx, Listener{Subscribed: e.subscribed, Updated: e.updated, Listed: e.listed})
	}()
	cleanup(func() {
		cancel(errTestOver)
		if err := <-done; !errors.Is(err, errTestOver) {
			t.Errorf("Run returned %v, want the cause of its context", err)
		}
		must(t, v.Close())
	})
	select {
	case <-v.Ready():
	case <-time.After(patience):
		t.Fatal("the vault is not ready")
	}
	return e
}

func (e *recorder) subscribe(uris ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.uris == nil {
		e.uris = make(map[string]bool)
	}
	for _, uri := range uris {
		e.uris[uri] = true
	}
}

func (e *recorder) subscribed() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := e.now.Load(); e.all {
		for _, entry := range s.entries {
			e.uris[noteURI(entry.path)], e.uris[folderURI(entry.path)] = true, true
		}
		for _, skill := range s.skills.list {
			for _, f := range skill.Files {
				e.uris[f.URI] = true
			}
		}
	}
	return slices.Collect(maps.Keys(e.uris))
}

func (e *recorder) updated(uris ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, uri := range uris {
		e.updates = append(e.updates, update{uri, time.Now()})
	}
	e.wake()
}

func (e *recorder) listed(notes, _ []json.RawMessage) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lists = append(e.lists, notes)
	e.wake()
}

func (e *recorder) wake() {
	select {
	case e.news <- struct{}{}:
	default:
	}
}

// forget drops the recorded updates.
func (e *recorder) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.updates, e.lists = nil, nil
}

// updateCounts returns the number of updates of each URI.
func (e *recorder) updateCounts() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	counts := make(map[string]int)
	for _, u := range e.updates {
		counts[u.uri]++
	}
	return counts
}

// waitUpdated waits until all of the URIs were updated.
func (e *recorder) waitUpdated(uris ...string) {
	e.t.Helper()
	e.until(fmt.Sprintf("%q updated", uris), func() bool {
		counts := e.updateCounts()
		return !slices.ContainsFunc(uris, func(uri string) bool { return counts[uri] == 0 })
	})
}

// until waits for a condition, which news may change.
func (e *recorder) until(what string, ok func() bool) {
	e.t.Helper()
	for deadline, tick := time.After(patience), time.Tick(20*time.Millisecond); !ok(); {
		select {
		case <-e.news:
		case <-tick:
		case <-deadline:
			e.t.Fatalf("not %s (updates %v)", what, e.updateCounts())
		}
	}
}

func (e *recorder) read(uri string) string {
	e.t.Helper()
	c, err := e.Read(context.Background(), uri)
	if err != nil {
		e.t.Fatalf("read %s: %v", uri, err)
	}
	return c.Text
}

// decode reads a JSON resource.
func decode[T any](e *recorder, uri string) (v T) {
	e.t.Helper()
	must(e.t, json.Unmarshal([]byte(e.read(uri)), &v))
	return v
}

func put(t testing.TB, path, content string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(content), 0o644))
}

// save replaces a file in one step: on a busy machine a file that is written in place
// may be seen empty, which is true but not what such a test is about.
func save(t testing.TB, path, content string) {
	t.Helper()
	put(t, path+".tmp", content)
	must(t, os.Rename(path+".tmp", path))
}

// vaultOf makes a folder of files.
func vaultOf(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for path, content := range files {
		put(t, filepath.Join(dir, path), content)
	}
	return dir
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
