//go:build unix

package ipc

import (
	"path/filepath"
	"testing"
)

// TestOneDaemonForEachHome: clients find the same daemon if and only if their folders for mcptrack are the
// same, however these are named.
func TestOneDaemonForEachHome(t *testing.T) {
	t.Parallel()
	dir := filepath.Dir(socket(t))
	at := func(env map[string]string) string {
		t.Helper()
		env["XDG_RUNTIME_DIR"] = dir
		got, err := Socket(lookup(env))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	me := at(map[string]string{"HOME": "/home/me"})
	if got := at(map[string]string{"HOME": "/home/me", "XDG_CONFIG_HOME": "/home/me/.config/", "XDG_DATA_HOME": "/d", "LANG": "C"}); got != me {
		t.Errorf("%s and %s have the same folders", got, me)
	}
	for _, env := range []map[string]string{{"HOME": "/sandbox"}, {"HOME": "/home/me", "XDG_STATE_HOME": "/s"}, {"HOME": "/home/me", "XDG_CONFIG_HOME": "/c"}, {}} {
		if got := at(env); got == me {
			t.Errorf("%v uses the daemon of /home/me", env)
		}
	}
}
