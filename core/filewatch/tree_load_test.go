package filewatch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestTreeBusyFile: a file that is written continuously is delivered in time, and so are others.
func TestTreeBusyFile(t *testing.T) {
	dir := realDir(t)
	synctest.Test(t, func(t *testing.T) {
		var s source
		m := follow(t, dir, TreeOptions{Quiet: 200 * time.Millisecond, maxWait: 600 * time.Millisecond, poll: time.Hour, notify: s.notify})
		m.taken()
		s.event(filepath.Join(dir, "calm"))
		for range 200 {
			s.event(filepath.Join(dir, "busy"))
			time.Sleep(10 * time.Millisecond)
		}
		if got := m.taken(); len(got) != 3 || !slices.Equal(got[0].Paths, []string{"busy", "calm"}) || !slices.Equal(got[1].Paths, []string{"busy"}) {
			t.Errorf("%+v", got)
		}
	})
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
	dir := realDir(t)
	synctest.Test(t, func(t *testing.T) {
		var s source
		tree := NewTree(dir, TreeOptions{poll: time.Hour, notify: s.notify})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1) // receives the result of Run
		go func() { done <- tree.Run(ctx) }()
		<-tree.Batches()
		for i := range 20 {
			s.event(filepath.Join(dir, fmt.Sprint(i)))
			time.Sleep(time.Second) // each file is a burst of its own
		}
		if b := <-tree.Batches(); b.All || len(b.Paths) != 20 {
			t.Errorf("%+v", b)
		}
		cancel()
		<-done
	})
}

// TestTreeCheckout: the mirror converges after checkouts of many files.
func TestTreeCheckout(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	command(t, dir, "", "git", "init", "-q")
	const files = 300
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
		command(t, dir, "", "git", "checkout", "-q", "-f", branch)
		m.wantDisk(t)
	}
}
