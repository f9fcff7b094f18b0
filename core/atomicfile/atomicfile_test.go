package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	check := func(want string, perm fs.FileMode) {
		t.Helper()
		data, err := os.ReadFile(path)
		if err != nil || string(data) != want {
			t.Errorf("it has %q, %v; want %q", data, err, want)
		}
		info, err := os.Stat(path)
		if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != perm {
			t.Errorf("its mode is %v, want %v", info.Mode(), perm)
		}
		if all, _ := filepath.Glob(filepath.Join(dir, ".*")); len(all) > 0 {
			t.Errorf("left behind: %q", all)
		}
	}
	if err := Write(path, 0o600, []byte("a"), nil, []byte("b")); err != nil {
		t.Fatal(err)
	}
	check("ab", 0o600)
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, 0o600, []byte("new")); err != nil {
		t.Fatal(err)
	}
	check("new", 0o640)
	link := filepath.Join(dir, "link")
	if err := os.Symlink("state", link); err != nil {
		t.Skip(err)
	}
	if err := Write(link, 0o600, []byte("through the link")); err != nil {
		t.Fatal(err)
	}
	check("through the link", 0o640)
	if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is now %v, %v", info.Mode(), err)
	}
}

func TestErrorsNameTheFileAndLeaveItUnchanged(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "none", "state")
	if err := Write(missing, 0o600, []byte("x")); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing) || strings.Contains(err.Error(), ".mcptrack-") {
		t.Errorf("%v", err)
	}
	full := filepath.Join(dir, "full")
	if err := os.MkdirAll(filepath.Join(full, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Write(full, 0o600, []byte("x")); err == nil {
		t.Error("a directory was replaced")
	}
	if all, _ := filepath.Glob(filepath.Join(dir, ".*")); len(all) > 0 {
		t.Errorf("left behind: %q", all)
	}
}
