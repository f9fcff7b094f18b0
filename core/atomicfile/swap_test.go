package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Swap keeps what another program wrote after the caller had read the file.
func TestSwap(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := Swap(path, nil, []byte("x")); !errors.Is(err, ErrChanged) {
		t.Errorf("without a file: %v", err)
	}
	for _, c := range []struct{ has, old, want string }{{"a", "a", "new"}, {"saved meanwhile", "a", "saved meanwhile"}} {
		if err := os.WriteFile(path, []byte(c.has), 0o600); err != nil {
			t.Fatal(err)
		}
		err := Swap(path, []byte(c.old), []byte("new"))
		got, readErr := os.ReadFile(path)
		if readErr != nil || string(got) != c.want || errors.Is(err, ErrChanged) != (c.want != "new") {
			t.Errorf("%+v: %q, %v, %v", c, got, err, readErr)
		}
	}
	if all, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(all) > 0 {
		t.Errorf("left behind: %q", all)
	}
}

// Sweep removes old temporary files and nothing else.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	for name, age := range map[string]time.Duration{".mcptrack-ABCDEFGHIJKLMNOPQRSTUVWXYZ": time.Hour, ".mcptrack-ABCDEFGHIJKLMNOPQRSTUVWXY2": 0, ".mcptrack-events": time.Hour} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	Sweep(dir, now.Add(-time.Minute))
	if left, _ := os.ReadDir(dir); len(left) != 2 || left[0].Name() != ".mcptrack-ABCDEFGHIJKLMNOPQRSTUVWXY2" {
		t.Errorf("%v", left)
	}
}
