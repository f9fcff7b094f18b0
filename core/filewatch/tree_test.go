package filewatch

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestTreeSaves saves three times in every way that people and programs do.
func TestTreeSaves(t *testing.T) {
	for _, tt := range saves() {
		if tt.setUp != nil && tt.name != "git checkout" {
			continue // about links, which a Tree does not follow
		}
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.program != "" {
				if _, err := exec.LookPath(tt.program); err != nil {
					t.Skipf("needs %s: %v", tt.program, err)
				}
			}
			dir := t.TempDir()
			if tt.setUp != nil {
				tt.setUp(t, dir)
			} else {
				put(t, filepath.Join(dir, "conf", "c.json"), "0\n")
			}
			opts := onlyTreeEvents()
			opts.Ignore = func(path string, dir bool) bool { return dir && path == ".git" }
			m := follow(t, dir, opts)
			for i := 1; i <= 3; i++ {
				tt.save(t, dir, fmt.Sprintf("%d\n", i))
				m.wantDisk(t)
			}
		})
	}
}

// TestTreeNewDirectories: a file written right after the directories around it is
// never missed.
func TestTreeNewDirectories(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := follow(t, dir, onlyTreeEvents())
	for round := range 50 {
		for i := range 5 {
			put(t, filepath.Join(dir, fmt.Sprint(round), "a", "b", "c", fmt.Sprint(i)), fmt.Sprint(round))
		}
	}
	m.wantDisk(t)
	put(t, filepath.Join(dir, "49", "a", "b", "c", "0"), "by event")
	m.wantDisk(t)
}

// TestTreeMoves: directories that move keep being followed, under their new names
// only.
func TestTreeMoves(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	moves := map[string]func(dir string) error{
		"renamed": func(dir string) error { return os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "z")) },
		"into a new directory": func(dir string) error {
			return errors.Join(os.MkdirAll(filepath.Join(dir, "new", "er"), 0o755),
				os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "new", "er", "a")))
		},
		"swapped": func(dir string) error {
			return errors.Join(os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "tmp")),
				os.Rename(filepath.Join(dir, "b"), filepath.Join(dir, "a")),
				os.Rename(filepath.Join(dir, "tmp"), filepath.Join(dir, "b")))
		},
		"there and back": func(dir string) error {
			return errors.Join(os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "z")),
				os.Rename(filepath.Join(dir, "z"), filepath.Join(dir, "a")))
		},
		"away": func(dir string) error {
			return os.Rename(filepath.Join(dir, "a"), filepath.Join(outside, filepath.Base(dir)))
		},
		"away and copied back": func(dir string) error {
			away := filepath.Join(outside, filepath.Base(dir)+"x")
			return errors.Join(os.Rename(filepath.Join(dir, "a"), away), os.CopyFS(filepath.Join(dir, "a"), os.DirFS(away)))
		},
		"removed and made again": func(dir string) error {
			return errors.Join(os.RemoveAll(filepath.Join(dir, "a")), os.MkdirAll(filepath.Join(dir, "a", "x"), 0o755))
		},
		"taken out of a directory that goes": func(dir string) error {
			return errors.Join(os.Rename(filepath.Join(dir, "a", "x"), filepath.Join(dir, "x")), os.RemoveAll(filepath.Join(dir, "a")))
		},
	}
	for name, move := range moves {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), strings.ReplaceAll(name, " ", "-"))
			for _, file := range []string{"top", "a/1", "a/x/2", "a/x/y/3", "b/4", "b/x/5"} {
				put(t, filepath.Join(dir, file), file)
			}
			m := follow(t, dir, onlyTreeEvents())
			must(t, move(dir))
			m.wantDisk(t)
			for round := range 2 { // the second shows what went deaf
				for path := range contents(dir, ".", m.opts.Ignore) {
					put(t, filepath.Join(dir, path), fmt.Sprint("after ", round))
				}
				for _, d := range directories(t, dir) {
					put(t, filepath.Join(d, fmt.Sprint("new", round)), "new")
				}
				m.wantDisk(t)
			}
		})
	}
}

func directories(t *testing.T, dir string) (dirs []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, directories(t, filepath.Join(dir, e.Name()))...)
		}
	}
	return append(dirs, dir)
}

// TestTreeIgnores: nothing of what is ignored is told or watched, also not when it
// comes later, and a symbolic link is not followed.
func TestTreeIgnores(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	put(t, filepath.Join(dir, ".git", "objects", "x"), "1")
	put(t, filepath.Join(dir, "note"), "1")
	must(t, os.Symlink(outside, filepath.Join(dir, "link")))
	opts := onlyTreeEvents()
	opts.Ignore = func(path string, dir bool) bool { return strings.HasPrefix(filepath.Base(path), ".") }
	m := follow(t, dir, opts)
	put(t, filepath.Join(dir, ".git", "objects", "y"), "2")
	put(t, filepath.Join(dir, ".new", "below", "z"), "2")
	put(t, filepath.Join(dir, ".hidden"), "2")
	put(t, filepath.Join(outside, "secret"), "2")
	m.wantNothing(t, 300*time.Millisecond)
	put(t, filepath.Join(dir, "note"), "2") // the silence was not deafness
	m.wantDisk(t)
	for _, b := range m.taken() {
		if b.All || len(b.Paths) != 1 || b.Paths[0] != "note" {
			t.Errorf("told %+v", b)
		}
	}
}

// TestTreeBusyFile: a file that is written for ever is told now and then, and puts
// off no other.
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
			t.Fatal("the busy file is not told")
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
		t.Errorf("the calm file was told after %v, the busy one %d times before", calm, before)
	}
	m.wantDisk(t)
}

// TestTreeRoot: the directory itself may go, come back, and be another one.
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

// TestTreeSlowReceiver: what comes while nobody receives is merged.
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

// TestTreeCheckout: a large checkout is few batches and ends with the truth.
func TestTreeCheckout(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
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
