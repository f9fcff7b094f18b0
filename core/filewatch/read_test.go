//go:build unix

package filewatch

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestReadRefuses(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must(t, syscall.Mkfifo(at("fifo"), 0o644))
	must(t, os.Mkdir(at("dir"), 0o755))
	must(t, os.Symlink("loop", at("loop")))
	must(t, os.Symlink(os.DevNull, at("device")))
	put(t, at("big"), strings.Repeat("x", 101))
	put(t, at("secret"), "x")
	must(t, os.Chmod(at("secret"), 0))
	put(t, at("evil\x1b[2J\u202e"), strings.Repeat("x", 101))
	tests := map[string]string{
		"fifo":              "not a regular file",
		"dir":               "not a regular file",
		"device":            "not a regular file",
		"loop":              "too many levels of symbolic links",
		"big":               "larger than 100 bytes",
		"secret":            "permission denied",
		"evil\x1b[2J\u202e": "larger than 100 bytes",
	}
	for name, want := range tests {
		if name == "secret" && os.Geteuid() == 0 {
			continue // root reads everything
		}
		done := make(chan error, 1)
		go func() {
			_, err := read(at(name), 100)
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("read %q: %v, want %q", name, err, want)
			} else if strings.ContainsAny(err.Error(), "\x1b\u202e") {
				t.Errorf("raw control characters in %q", err)
			}
		case <-time.After(patience):
			t.Fatalf("read %q blocks", name)
		}
	}
}

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
