package daemon_test

import "testing"

// TestIsolated: a server that declares that clients must not share it has a process for each new client once
// the daemon has seen this.
func TestIsolated(t *testing.T) {
	w := start(t, nil)
	dir := w.folder(map[string]string{"a": legacy + `,"env":{"` + serverKey + `":"isolated"}`})
	pid := w.call(w.asked(dir, "ann", `{}`), "pid", nil)
	w.until("the daemon has seen it", func() bool { st := w.d.Status().Servers; return len(st) == 1 && st[0].OneEach })
	if got := w.call(w.asked(dir, "bob", `{}`), "pid", nil); got == pid {
		t.Error("two clients share the process")
	}
}
