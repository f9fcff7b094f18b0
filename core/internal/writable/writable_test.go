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

// tree creates root/in/file, which nobody else can write.
func tree(t *testing.T) (root, dir, file string) {
	t.Helper()
	root = filepath.Join(t.TempDir(), "root")
	dir = filepath.Join(root, "in")
	file = filepath.Join(dir, "file")
	must(t, os.MkdirAll(dir, 0o755))
	must(t, os.WriteFile(file, nil, 0o644))
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
		{root, 0o777, root, true},
	} {
		info, _ := os.Stat(test.path)
		must(t, os.Chmod(test.path, test.mode))
		err := ByOthers(file, test.root)
		found, ok := errors.AsType[*Error](err)
		if !ok || found.Path != test.path || strings.HasPrefix(found.Hint, "chmod go-w "+test.path) != test.closes {
			t.Errorf("%v: %v (%+v)", test, err, found)
		}
		must(t, os.Chmod(test.path, info.Mode()))
	}
	for _, root := range []string{"", root, dir, "/nowhere"} {
		if err := ByOthers(file, root); err != nil {
			t.Errorf("below %q: %v", root, err)
		}
	}
	must(t, os.Chmod(root, 0o777))
	if err := ByOthers(file, ""); err != nil {
		t.Errorf("a folder above the file's, which is not asked about: %v", err)
	}
	if err := ByOthers(filepath.Join(dir, "none"), ""); err != nil {
		t.Errorf("no file: %v", err)
	}
	if err := ByOthers(filepath.Join(root, "none"), ""); err == nil {
		t.Error("a file that somebody else may have removed from an open folder is not judged by that")
	}
	if err := ByOthers(filepath.Join(file, "none"), ""); err == nil {
		t.Error("a file that cannot be looked up")
	}
}

// One chmod command fixes everything that chmod can fix.
func TestOneHint(t *testing.T) {
	t.Parallel()
	_, dir, file := tree(t)
	for path, mode := range map[string]fs.FileMode{file: 0o664, dir: 0o775} {
		must(t, os.Chmod(path, mode))
	}
	found, _ := errors.AsType[*Error](ByOthers(file, ""))
	if found == nil || found.Hint != "chmod go-w "+file+" "+dir {
		t.Errorf("%+v", found)
	}
}

// The folder of a link's target also counts.
func TestLinks(t *testing.T) {
	t.Parallel()
	_, dir, file := tree(t)
	private := func() string {
		dir := t.TempDir()
		must(t, os.Chmod(dir, 0o755))
		return dir
	}
	link := filepath.Join(private(), "link")
	if err := os.Symlink(file, link); err != nil {
		t.Skip(err)
	}
	if err := ByOthers(link, ""); err != nil {
		t.Error(err)
	}
	between := filepath.Join(private(), "between")
	must(t, os.Mkdir(between, 0o755))
	chain := filepath.Join(private(), "chain")
	must(t, errors.Join(os.Symlink(link, filepath.Join(between, "middle")), os.Symlink(filepath.Join(between, "middle"), chain)))
	if err := ByOthers(chain, ""); err != nil {
		t.Error(err)
	}
	for _, open := range []string{dir, between} {
		must(t, os.Chmod(open, 0o777))
		if found, _ := errors.AsType[*Error](ByOthers(chain, "")); found == nil || found.Path != open {
			t.Errorf("%s: %+v", open, found)
		}
		must(t, os.Chmod(open, 0o755))
	}
	must(t, os.Remove(file))
	if err := ByOthers(chain, ""); err == nil {
		t.Error("a link whose target was removed")
	}
}

// A folder between the file's folder and root may be sticky: nobody else can replace a folder in it.
func TestStickyAbove(t *testing.T) {
	t.Parallel()
	root, dir, file := tree(t)
	must(t, os.Chmod(root, 0o777|fs.ModeSticky))
	if err := ByOthers(file, root); err != nil && os.Geteuid() == 0 {
		t.Error(err)
	}
	must(t, os.Chmod(dir, 0o777|fs.ModeSticky))
	if err := ByOthers(file, root); err == nil {
		t.Error("the folder of the file itself")
	}
}

func TestOwnGroup(t *testing.T) {
	t.Parallel()
	const users = "root:x:0:0::/root:/bin/sh\nann:x:1000:1000:Ann:/home/ann:/bin/sh\nbob:x:1001:1001::/:/bin/sh\neve:x:1002:1001::/:/bin/sh\n"
	const groups = "root:x:0:\nann:x:1000:\nbob:x:1001:\nstaff:x:50:ann\n"
	for _, c := range []struct {
		users, groups string
		uid, gid      int
		want          bool
	}{
		{users, groups, 1000, 1000, true},
		{users, strings.Replace(groups, "ann:x:1000:", "ann:x:1000:ann", 1), 1000, 1000, true},
		{users, strings.Replace(groups, "ann:x:1000:", "ann:x:1000:ann,bob", 1), 1000, 1000, false},
		{users, strings.Replace(groups, "ann:x:1000:", "people:x:1000:", 1), 1000, 1000, false},
		{users, groups, 1000, 50, false},
		{users, groups, 1001, 1001, false}, // also eve's
		{"", groups, 1000, 1000, false},
		{users, "", 1000, 1000, false},
		{"ann", "ann", 1000, 1000, false},
	} {
		if got := isOwnGroup(c.users, c.groups, c.uid, c.gid); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}

// A file of another user is refused whatever its mode; a file of root is not.
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
		must(t, os.Chown(path, 0, -1))
	}
	if found := problem(file, stat(t, "/")); found != nil {
		t.Errorf("what root owns: %+v", found)
	}
}

func stat(t *testing.T, path string) fs.FileInfo {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	return info
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
