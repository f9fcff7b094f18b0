package draft

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Only the owner can read a new config, whatever it replaces, and anything but a regular file is left
// alone.
func TestWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	for name, mode := range map[string]fs.FileMode{"open": 0o666, "private": 0o600, "other": 0o644, "target": 0o644} {
		if err := os.WriteFile(in(name), []byte("old"), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(in("folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"link": "target", "dangling": "nowhere", "to-folder": "folder"} {
		if err := os.Symlink(target, in(name)); err != nil {
			t.Skip(err)
		}
	}
	for _, test := range []struct {
		name    string
		replace bool
		written bool
	}{
		{"new", false, true}, {"deep/new", true, true}, {"open", true, true}, {"private", true, true},
		{"other", false, false}, {"folder", true, false}, {"link", true, false}, {"link", false, false},
		{"dangling", true, false}, {"dangling", false, false}, {"to-folder", true, false}, {"target/below", true, false},
	} {
		err := Write(in(test.name), test.replace, []byte("text"))
		data, _ := os.ReadFile(in(test.name))
		if (err == nil) != test.written || (string(data) == "text") != test.written {
			t.Errorf("%s, replace %t: %v, has %q", test.name, test.replace, err, data)
		}
		if info, _ := os.Stat(in(test.name)); test.written && runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v", test.name, info.Mode())
		}
	}
	if err := Write(in("other"), false, nil); !errors.Is(err, ErrExists) {
		t.Errorf("an existing file: %v", err)
	}
	if data, err := os.ReadFile(in("target")); string(data) != "old" || err != nil {
		t.Errorf("what a link leads to has %q, %v", data, err)
	}
	if _, err := os.Lstat(in("nowhere")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a dangling link was followed: %v", err)
	}
}
