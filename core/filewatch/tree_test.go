package filewatch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTreeSaves saves three times in every way that people and programs do.
func TestTreeSaves(t *testing.T) { testTreeSaves(t, saves()) }

func TestRealTreeSaves(t *testing.T) { testTreeSaves(t, editors(t)) }

func testTreeSaves(t *testing.T, saves []save) {
	for _, tt := range saves {
		if tt.setUp != nil && tt.name != "git checkout" {
			continue // about links, which a Tree does not follow
		}
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
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
	for round := range 10 {
		for i := range 5 {
			put(t, filepath.Join(dir, fmt.Sprint(round), "a", "b", "c", fmt.Sprint(i)), fmt.Sprint(round))
		}
	}
	m.wantDisk(t)
	put(t, filepath.Join(dir, "9", "a", "b", "c", "0"), "by event")
	m.wantDisk(t)
}

// TestTreeMoves: moved directories are followed under their new names only.
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
			for round := range 2 { // the second finds lost watches
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

// TestTreeIgnores: ignored entries are neither watched nor delivered, also if they are
// created later, and a symbolic link is not followed.
func TestTreeIgnores(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	put(t, filepath.Join(dir, ".git", "objects", "x"), "1")
	put(t, filepath.Join(dir, "note"), "1")
	must(t, os.Symlink(outside, filepath.Join(dir, "link")))
	opts := onlyTreeEvents()
	opts.Ignore = func(path string, dir bool) bool { return strings.HasPrefix(filepath.Base(path), ".") }
	m := follow(t, dir, opts)
	m.taken()
	put(t, filepath.Join(dir, ".git", "objects", "y"), "2")
	put(t, filepath.Join(dir, ".new", "below", "z"), "2")
	put(t, filepath.Join(dir, ".hidden"), "2")
	put(t, filepath.Join(outside, "secret"), "2")
	put(t, filepath.Join(dir, "note"), "2")
	m.wantDisk(t)
	for _, b := range m.taken() {
		if b.All || len(b.Paths) != 1 || b.Paths[0] != "note" {
			t.Errorf("got %+v", b)
		}
	}
}
