//go:build unix

package lock_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
)

// A lock that others can change or replace is refused by every command that reads it, unless
// --insecure-config allows it.
func TestLockOfOthers(t *testing.T) {
	b := newBench(t, draw)
	b.run(0, "lock")
	elsewhere := filepath.Join(filepath.Dir(b.lock), "open", "mcptrack.lock")
	copyTo := func(mode os.FileMode) {
		t.Helper()
		text, err := os.ReadFile(b.lock)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(elsewhere), 0o755)
		}
		if err == nil {
			err = os.WriteFile(elsewhere, text, 0o600)
		}
		if err == nil {
			err = os.Chmod(filepath.Dir(elsewhere), mode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	commands := [][]string{{"verify"}, {"lock"}, {"review"}, {"lock", "--update"}, {"approve", "notes"}, {"reject", "notes"}, {"doctor", "--offline"}}
	fine := filepath.Join(filepath.Dir(b.lock), "fine.lock")
	if text, err := os.ReadFile(b.lock); err != nil || os.WriteFile(fine, text, 0o600) != nil {
		t.Fatal("no copy of the lock")
	}
	for name, spoil := range map[string]struct {
		prepare func() error
		flags   []string
	}{
		"the file":   {prepare: func() error { return os.Chmod(b.lock, 0o666) }},
		"the folder": {prepare: func() error { copyTo(0o777); return nil }, flags: []string{"--lock", elsewhere}},
		"sticky":     {prepare: func() error { copyTo(0o777 | os.ModeSticky); return nil }, flags: []string{"--lock", elsewhere}},
	} {
		if err := spoil.prepare(); err != nil {
			t.Fatal(err)
		}
		for _, command := range commands {
			args := slices.Concat(command, spoil.flags)
			want := cli.ExitConfig
			if command[0] == "doctor" {
				want = cli.ExitFailed
			}
			code, out := b.Run(t, args...)
			if text := out + b.Stderr.String(); code != want || !strings.Contains(text, "can be changed by every user") || !strings.Contains(text, "--insecure-config reads it anyway") {
				t.Errorf("%s: %q: exit %d: %s", name, args, code, text)
			}
			b.Stderr.Reset()
		}
		if code, _ := b.Run(t, "verify", "--lock", fine, "--against", append(spoil.flags, b.lock)[max(0, len(spoil.flags)-1)]); code != cli.ExitConfig {
			t.Errorf("%s: verify --against: exit %d", name, code)
		}
		b.run(0, append([]string{"--insecure-config", "verify"}, spoil.flags...)...)
		if err := os.Chmod(b.lock, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b.run(0, "verify")
}
