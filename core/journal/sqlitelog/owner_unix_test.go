//go:build unix

package sqlitelog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

// A directory that others own or may write to, or that contains links, is rejected and left
// unchanged.
func TestDataDirectoryOfOthers(t *testing.T) {
	t.Parallel()
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	inDir := func(f func(string) error, name string) func(string) error {
		return func(dir string) error { return f(filepath.Join(dir, name)) }
	}
	ours := func(path string) error { return os.WriteFile(path, nil, 0o600) }
	give := func(path string) error {
		if os.Geteuid() != 0 {
			t.Skip("only root can give a file away")
		}
		return os.Chown(path, 12345, 12345)
	}
	for name, tt := range map[string]struct {
		prepare func(dir string) error
		want    string
	}{
		"group may write": {func(dir string) error { return os.Chmod(dir, 0o770) }, "other users may write"},
		"all may write":   {func(dir string) error { return os.Chmod(dir, 0o777) }, "other users may write"},
		"all may write the file": {inDir(func(path string) error {
			if err := ours(path); err != nil {
				return err
			}
			return os.Chmod(path, 0o666)
		}, "events.db"), "other users may write"},
		"lock is a link":      {inDir(func(path string) error { return os.Symlink(victim, path) }, "lock"), "lock"},
		"lock is a hard link": {inDir(func(path string) error { return os.Link(victim, path) }, "lock"), "several hard links"},
		"file is a link":      {inDir(func(path string) error { return os.Symlink(victim, path) }, "events.db"), "not a regular file"},
		"file is a directory": {inDir(func(path string) error { return os.Mkdir(path, 0o700) }, "events.db"), "not a regular file"},
		"of another user":     {give, "another user"},
		"file of another user": {inDir(func(path string) error {
			if err := ours(path); err != nil {
				return err
			}
			return give(path)
		}, "events.db"), "another user"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "events")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := tt.prepare(dir); err != nil {
				t.Fatal(err)
			}
			for _, existing := range []bool{false, true} {
				l, err := Open(t.Context(), Options{Dir: dir, Existing: existing})
				if err == nil {
					_ = l.Close()
				}
				if err == nil || !existing && !strings.Contains(err.Error(), tt.want) {
					t.Errorf("existing %v: %v", existing, err)
				}
			}
		})
	}
	if text, _ := os.ReadFile(victim); string(text) != "text" {
		t.Errorf("the victim is %q now", text)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Dir: link}); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("a directory that is a link: %v", err)
	}
}

// Whatever the umask is, only this user can read what is stored.
func TestFilesArePrivate(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "events")
	l := open(t, Options{Dir: dir})
	journaltest.AppendN(t, l, new(journaltest.Source), 5)
	files, err := os.ReadDir(dir)
	if err != nil || len(files) < 4 { // and the lock
		t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f.Name(), info.Mode(), err)
		}
	}
	closeLog(t, l)
	if files, err := os.ReadDir(dir); err != nil || len(files) != 2 {
		t.Errorf("after Close: %v, %v", files, err)
	}
}
