//go:build linux

package vault

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestTooManyOpenFiles: a vault that cannot open files for a while keeps its entries
// and recovers. The limit applies to the whole process, so the test is not parallel.
func TestTooManyOpenFiles(t *testing.T) {
	dir := vaultOf(t, map[string]string{"a.md": "x #a", "d/b.md": "y"})
	v, err := Open(quick(dir))
	must(t, err)
	defer v.Close()
	rescan := func(old *snapshot) (*snapshot, int) {
		t.Helper()
		scans, again, err := v.scan.scan(t.Context(), []string{"a.md", "d"}, old)
		must(t, err)
		next, _ := old.with(scans)
		return next, len(again)
	}
	full, again := rescan(newSnapshot())
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
	partial, again := rescan(full)
	if len(partial.recent) != 2 || again == 0 || partial.note("a.md") == nil {
		t.Errorf("%d notes are left, %d again", len(partial.recent), again)
	}
	restore()
	must(t, os.WriteFile(path, []byte("z #b"), 0o644))
	after, again := rescan(partial)
	if len(after.recent) != 2 || again != 0 || after.note("a.md").tags[0] != "b" {
		t.Errorf("after that: %d notes, %d again", len(after.recent), again)
	}
}
