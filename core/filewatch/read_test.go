package filewatch

import (
	"errors"
	"path/filepath"
	"testing"
)

func TestReadMissing(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "empty"), "")
	put(t, filepath.Join(dir, "file"), "x")
	for _, name := range []string{"absent", "empty", "no/such/dir", "file/below"} {
		if _, err := read(filepath.Join(dir, name), 100); !errors.Is(err, errMissing) {
			t.Errorf("read %s: %v, want %v", name, err, errMissing)
		}
	}
	data, err := read(filepath.Join(dir, "file"), 1)
	if string(data) != "x" || err != nil {
		t.Errorf("read of exactly the limit: %q, %v", data, err)
	}
}
