package filewatch

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestTreeBusyFile: a file that is written continuously is delivered after MaxWait,
// and delays no other.
func TestTreeBusyFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, filepath.Join(dir, "busy"), "x")
	opts := onlyTreeEvents()
	opts.Quiet, opts.MaxWait = 200*time.Millisecond, 600*time.Millisecond
	m := follow(t, dir, opts)
	m.taken()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for tick := time.Tick(10 * time.Millisecond); ; {
			_ = os.WriteFile(filepath.Join(dir, "busy"), []byte(time.Now().String()), 0o644)
			select {
			case <-stop:
				return
			case <-tick:
			}
		}
	}()
	began := time.Now()
	put(t, filepath.Join(dir, "calm"), "y")
	busy, before, calm := 0, 0, time.Duration(0)
	for busy < 3 {
		select {
		case <-m.news:
		case <-time.After(patience):
			t.Fatal("the busy file is not delivered")
		}
		for _, b := range m.taken() {
			for _, path := range b.Paths {
				if path == "busy" {
					busy++
				} else if calm == 0 {
					before, calm = busy, time.Since(began)
				}
			}
		}
	}
	close(stop)
	<-stopped
	if calm == 0 || before > 1 { // 200 ms, and 600 ms between those of the busy one
		t.Errorf("the idle file was delivered after %v, the busy one %d times before", calm, before)
	}
	m.wantDisk(t)
}

// TestTreeRoot: the root may be removed, restored and replaced.
func TestTreeRoot(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	dir := filepath.Join(base, "vault")
	put(t, filepath.Join(dir, "a", "1"), "old")
	m := follow(t, dir, onlyTreeEvents())

	must(t, os.Rename(dir, filepath.Join(base, "away")))
	m.wantDisk(t) // nothing
	put(t, filepath.Join(dir, "b", "2"), "new")
	m.wantDisk(t)
	put(t, filepath.Join(dir, "b", "2"), "newer")
	m.wantDisk(t)

	must(t, os.RemoveAll(dir))
	must(t, os.Rename(filepath.Join(base, "away"), dir))
	m.wantDisk(t)
	put(t, filepath.Join(dir, "a", "1"), "old again")
	m.wantDisk(t)
}

// TestTreeSlowReceiver: batches that are not received are merged.
func TestTreeSlowReceiver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := follow(t, dir, onlyTreeEvents())
	m.taken()
	m.mu.Lock() // the receiver gets one batch and waits
	for i := range 20 {
		put(t, filepath.Join(dir, fmt.Sprint(i)), "x")
		time.Sleep(60 * time.Millisecond) // the writer: each file is a burst of its own
	}
	m.mu.Unlock()
	m.wantDisk(t)
	if n := len(m.taken()); n > 3 {
		t.Errorf("%d batches for a receiver that took two", n)
	}
}

// TestTreeCheckout: a large checkout makes few batches, and the mirror converges.
func TestTreeCheckout(t *testing.T) {
	t.Parallel()
	needs(t, "git")
	dir := t.TempDir()
	command(t, dir, "", "git", "init", "-q")
	const files = 1500
	for _, branch := range []string{"one", "two"} {
		for i := range files {
			if branch == "one" || i%3 > 0 {
				put(t, filepath.Join(dir, fmt.Sprint("d", i%40), fmt.Sprint("e", i%7), fmt.Sprint(i)), branch)
			}
		}
		command(t, dir, "", "git", "add", "-A")
		command(t, dir, "", "git", "commit", "-q", "-m", branch)
		command(t, dir, "", "git", "branch", branch)
		must(t, os.RemoveAll(filepath.Join(dir, "d0")))
	}
	opts := onlyTreeEvents()
	opts.Ignore = func(path string, dir bool) bool { return path == ".git" }
	m := follow(t, dir, opts)
	for _, branch := range []string{"one", "two", "one"} {
		m.taken()
		began := time.Now()
		command(t, dir, "", "git", "checkout", "-q", "-f", branch)
		m.wantDisk(t)
		took := time.Since(began) // on a loaded machine git pauses: that is several bursts
		if n := len(m.taken()); n > files/30+int(took/(100*time.Millisecond)) {
			t.Errorf("%d batches in %v", n, took)
		}
	}
}
