package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
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

// The data are on disk before the file has its name, and the name is before Write returns:
// a rotated token is not lost in a power cut.
func TestTheNameIsOnDiskToo(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("directories cannot be written to disk there")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	var order []string
	sync := func(f *os.File) error {
		data, _ := os.ReadFile(path)
		what := "data"
		if f.Name() == dir {
			what = "directory"
		}
		order = append(order, what+" while the file has "+string(data))
		return f.Sync()
	}
	for _, text := range []string{"one", "two"} {
		if err := replace(path, 0o600, 0, sync, [][]byte{[]byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"data while the file has ", "directory while the file has one", "data while the file has one", "directory while the file has two"}
	if !slices.Equal(order, want) {
		t.Errorf("got %q, want %q", order, want)
	}
	disk := errors.New("the disk is broken")
	if err := syncDir(dir, func(*os.File) error { return disk }); !errors.Is(err, disk) {
		t.Errorf("%v", err)
	}
	if err := syncDir(dir, func(*os.File) error { return syscall.EINVAL }); err != nil {
		t.Errorf("a file system that cannot: %v", err)
	}
}
