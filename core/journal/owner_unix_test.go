//go:build unix

package journal_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/journal"
)

// TestDataDirectoryOfOthers: a directory that others own or may write to, and files in
// it that are links, are refused and stay as they are.
func TestDataDirectoryOfOthers(t *testing.T) {
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		prepare func(dir string) error
		want    string
	}{
		"group may write":     {func(dir string) error { return os.Chmod(dir, 0o770) }, "others may write"},
		"all may write":       {func(dir string) error { return os.Chmod(dir, 0o777) }, "others may write"},
		"all may write store": {func(dir string) error { return openStore(dir) }, "others may write"},
		"lock is a link":      {func(dir string) error { return os.Symlink(victim, filepath.Join(dir, "lock")) }, "lock"},
		"mark is a link":      {func(dir string) error { return os.Symlink(victim, filepath.Join(dir, "mark")) }, "mark"},
		"mark is a hard link": {func(dir string) error { return os.Link(victim, filepath.Join(dir, "mark")) }, "several hard links"},
		"of another user": {func(dir string) error {
			if os.Geteuid() != 0 {
				t.Log("only root can give a directory away")
				return openStore(dir)
			}
			return os.Chown(dir, 12345, 12345)
		}, ""},
	} {
		dir := filepath.Join(t.TempDir(), "events")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := tt.prepare(dir); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		j, err := journal.Open(t.Context(), journal.Options{Dir: dir})
		if err == nil {
			_ = j.Close()
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if text, _ := os.ReadFile(victim); string(text) != "text" {
		t.Errorf("the victim is %q now", text)
	}
}

// openStore makes a store that everybody may write to.
func openStore(dir string) error {
	store := filepath.Join(dir, "store")
	if err := os.Mkdir(store, 0o700); err != nil {
		return err
	}
	return os.Chmod(store, 0o777)
}
