//go:build unix

package writable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tree makes root/in/file, with modes that let nobody else write.
func tree(t *testing.T) (root, dir, file string) {
	t.Helper()
	root = filepath.Join(t.TempDir(), "root")
	dir = filepath.Join(root, "in")
	file = filepath.Join(dir, "file")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return root, dir, file
}

func TestByOthers(t *testing.T) {
	t.Parallel()
	root, dir, file := tree(t)
	const sticky = fs.ModeSticky
	for _, test := range []struct {
		path   string
		mode   fs.FileMode
		root   string
		closes bool // the hint is a chmod
	}{
		{file, 0o664, "", true}, {file, 0o646, "", true}, {file, 0o777, "", true},
		{dir, 0o775, "", true}, {dir, 0o757, "", true}, {dir, 0o777 | sticky, "", false},
		{root, 0o777, root, true}, {root, 0o777 | sticky, root, false},
	} {
		info, _ := os.Stat(test.path)
		if err := os.Chmod(test.path, test.mode); err != nil {
			t.Fatal(err)
		}
		err := ByOthers(file, test.root)
		found, ok := errors.AsType[*Error](err)
		if !ok || found.Path != test.path || strings.HasPrefix(found.Hint, "chmod go-w "+test.path) != test.closes {
			t.Errorf("%v: %v (%+v)", test, err, found)
		}
		if err := os.Chmod(test.path, info.Mode()); err != nil {
			t.Fatal(err)
		}
	}
	for _, root := range []string{"", root, dir, "/nowhere"} {
		if err := ByOthers(file, root); err != nil {
			t.Errorf("below %q: %v", root, err)
		}
	}
	if err := os.Chmod(root, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := ByOthers(file, ""); err != nil {
		t.Errorf("a folder above the file's, which is not asked about: %v", err)
	}
	if err := ByOthers(filepath.Join(dir, "none"), ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// One command mends all that chmod can mend.
func TestOneHint(t *testing.T) {
	t.Parallel()
	_, dir, file := tree(t)
	for path, mode := range map[string]fs.FileMode{file: 0o664, dir: 0o775} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	found, _ := errors.AsType[*Error](ByOthers(file, ""))
	if found == nil || found.Hint != "chmod go-w "+file+" "+dir {
		t.Errorf("%+v", found)
	}
}

// The folder that a link leads to counts, too.
func TestLinks(t *testing.T) {
	t.Parallel()
	_, dir, file := tree(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(file, link); err != nil {
		t.Skip(err)
	}
	if err := ByOthers(link, ""); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if found, _ := errors.AsType[*Error](ByOthers(link, "")); found == nil || found.Path != dir {
		t.Errorf("%+v", found)
	}
}

// What another user owns is refused whatever its mode is; what root owns is not.
func TestOwners(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	_, dir, file := tree(t)
	for _, path := range []string{file, dir} {
		if err := os.Chown(path, 12345, -1); err != nil {
			t.Skip(err)
		}
		found, _ := errors.AsType[*Error](ByOthers(file, ""))
		if found == nil || found.Path != path || !strings.Contains(found.Problem, "12345") || strings.Contains(found.Hint, "chmod") {
			t.Errorf("%s: %+v", path, found)
		}
		if err := os.Chown(path, 0, -1); err != nil {
			t.Fatal(err)
		}
	}
	if found := problem(file, stat(t, "/")); found != nil {
		t.Errorf("what root owns: %+v", found)
	}
}

func stat(t *testing.T, path string) fs.FileInfo {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info
}
