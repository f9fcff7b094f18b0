//go:build unix

package regularfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{
		syscall.Mkfifo(at("fifo"), 0o644), os.Mkdir(at("dir"), 0o755), os.Symlink(os.DevNull, at("device")), os.Symlink("file", at("link")),
		os.WriteFile(at("file"), []byte("x"), 0o644), os.WriteFile(at("big"), []byte("xy"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"fifo": "not a regular file", "dir": "not a regular file", "device": "not a regular file", "big": "larger than 1 bytes",
		"absent": fs.ErrNotExist.Error(), "file": "", "link": "",
	} {
		data, info, err := Read(at(name), 1) // must not block
		switch {
		case want == "" && (err != nil || string(data) != "x" || info.Size() != 1):
			t.Errorf("%s: %q, %v", name, data, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) && !errors.Is(err, fs.ErrNotExist)):
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}
