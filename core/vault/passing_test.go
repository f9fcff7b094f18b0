//go:build linux

package vault

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestTooManyOpenFiles: a vault that cannot open anything for a while forgets
// nothing, and is right again after that. The limit is one of the whole process, so
// the test does not run beside others.
func TestTooManyOpenFiles(t *testing.T) {
	dir := vaultOf(t, map[string]string{"a.md": "x #a", "d/b.md": "y"})
	v, err := Open(quick(dir))
	must(t, err)
	defer v.Close()
	look := func(old *snapshot) (*snapshot, int) {
		t.Helper()
		looks, again, err := v.scan.look(t.Context(), []string{"a.md", "d"}, old)
		must(t, err)
		next, _ := old.with(looks)
		return next, len(again)
	}
	full, again := look(newSnapshot())
	if len(full.recent) != 2 || again != 0 {
		t.Fatalf("%d notes, %d again", len(full.recent), again)
	}
	var limit syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	var held []*os.File
	low := limit
	low.Cur = 64
	must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low))
	restore := func() {
		must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
		for _, f := range held {
			_ = f.Close()
		}
		held = nil
	}
	defer restore()
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		held = append(held, f)
	}
	path := filepath.Join(dir, "a.md")
	kept, again := look(full)
	if len(kept.recent) != 2 || again == 0 || kept.note("a.md") == nil {
		t.Errorf("%d notes are left, %d again", len(kept.recent), again)
	}
	restore()
	must(t, os.WriteFile(path, []byte("z #b"), 0o644))
	after, again := look(kept)
	if len(after.recent) != 2 || again != 0 || after.note("a.md").tags[0] != "b" {
		t.Errorf("after that: %d notes, %d again", len(after.recent), again)
	}
}
