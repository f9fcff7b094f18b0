package keyring

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/mcptrack/mcptrack/core/peertest"
)

// insideKey marks the test process inside a D-Bus session of its own.
const insideKey = "KEYRING_TEST_INSIDE"

// TestRealKeyring stores a secret in a real keyring: gnome-keyring, in a D-Bus session
// that ends with the test.
func TestRealKeyring(t *testing.T) {
	if os.Getenv(insideKey) == "" {
		peertest.Program(t, "gnome-keyring-daemon")
		home := t.TempDir()
		cmd := exec.Command(peertest.Program(t, "dbus-run-session"), "--", "sh", "-c",
			`printf secret | gnome-keyring-daemon --unlock --components=secrets >/dev/null 2>&1; exec "$0" -test.run='^TestRealKeyring$' -test.v`, os.Args[0])
		cmd.Env = append(os.Environ(), insideKey+"=1", "HOME="+home, "XDG_DATA_HOME="+home, "XDG_RUNTIME_DIR="+home)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v:\n%s", err, out)
		}
		return
	}
	ring := New()
	if err := ring.Set("docs", "first"); err != nil {
		t.Fatal(err)
	}
	if err := ring.Set("docs", "second"); err != nil {
		t.Fatal(err)
	}
	if got, err := ring.Get("docs"); got != "second" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if err := ring.Delete("docs"); err != nil {
		t.Error(err)
	}
	if _, err := ring.Get("docs"); !errors.Is(err, ErrNotFound) {
		t.Errorf("deleted, and got with %v", err)
	}
}

// Without a session bus, as over SSH, a call fails immediately and starts no bus.
func TestNoSessionBus(t *testing.T) {
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "")
	if _, err := os.Stat("/run/user"); err == nil && reachable() == nil {
		t.Skip("the user has a session bus")
	}
	if _, err := Get("docs"); err == nil || err.Error() != "there is no D-Bus session bus" {
		t.Errorf("%v", err)
	}
}
