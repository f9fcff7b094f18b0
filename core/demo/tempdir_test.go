package demo

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The directory of a killed demo is removed by the next demo; directories in use, of
// other users, or just created stay.
func TestSweepRemovesUnlockedDirectories(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	killed, err := NewTempDir(temp)
	if err != nil {
		t.Fatal(err)
	}
	_ = killed.lock.Close() // as the system does
	used, err := NewTempDir(temp)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(killed.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was left is still there: %v", err)
	}
	outside := filepath.Join(t.TempDir(), "mine")
	dir := func(name string, mode os.FileMode, age time.Duration) string {
		path := filepath.Join(temp, name)
		if err := errors.Join(os.Mkdir(path, mode), os.Chmod(path, mode), os.Chtimes(path, time.Time{}, time.Now().Add(-age))); err != nil {
			t.Fatal(err)
		}
		return path
	}
	stay := []string{used.Dir, dir("mcptrack-demo-begins", 0o700, 0), dir("mcptrack-demo-shared", 0o755, time.Hour), dir("other", 0o700, time.Hour), outside}
	gone := dir("mcptrack-demo-unlocked", 0o700, time.Hour)
	if err := errors.Join(os.Mkdir(outside, 0o700), os.Symlink(outside, filepath.Join(temp, "mcptrack-demo-link"))); err != nil {
		t.Fatal(err)
	}
	next, err := NewTempDir(temp)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stay {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%s was removed", path)
		}
	}
	if _, err := os.Stat(gone); err == nil {
		t.Errorf("%s is still there", gone)
	}
	if err := errors.Join(used.Remove(), next.Remove()); err != nil {
		t.Error(err)
	}
}
