package daemon_test

import (
	"maps"
	"testing"

	"github.com/mcptrack/mcptrack/core/daemon/ipc"
	"github.com/mcptrack/mcptrack/core/session"
)

// TestInherited: what a server inherits divides what is shared, and comes from the session that starts the
// server: neither from another session nor from the daemon, which may have been started in a sandbox.
func TestInherited(t *testing.T) {
	w := start(t, nil)
	t.Setenv("HOME", "/of/the/daemon")
	t.Setenv("XDG_DATA_HOME", "/of/the/daemon")
	dir := w.folder(map[string]string{"a": "", "machine": `"shared":"machine"`, "sets": `"env":{"` + serverKey + `":"1","HOME":"/set"}`})
	own := map[string]string{"HOME": "/home/me", "TMPDIR": "/tmp", "LANG": "de_DE.UTF-8", "TERM": "xterm"}
	client := func(server string, change map[string]string) *session.Session {
		env := maps.Clone(own)
		maps.Copy(env, change)
		return w.client(ipc.Hello{Folder: dir, Server: server, Client: "1"}, env, session.Options{})
	}
	for _, c := range []struct {
		server, variable string
		shared           bool
	}{
		{"a", "HOME", false}, {"a", "XDG_DATA_HOME", false}, {"a", "TMPDIR", false}, {"a", "LANG", false}, {"machine", "HOME", false},
		{"a", "TERM", true}, {"a", "OTHER", true}, {"sets", "HOME", true},
	} {
		first, other := client(c.server, nil), client(c.server, map[string]string{c.variable: "/other"})
		if shared := w.call(first, "pid", nil) == w.call(other, "pid", nil); shared != c.shared {
			t.Errorf("%s, another %s: shared is %v", c.server, c.variable, shared)
		}
		if got := w.call(first, "env", map[string]any{"text": c.variable}); !c.shared && got != own[c.variable] {
			t.Errorf("%s, %s of the first session: %q", c.server, c.variable, got)
		}
		if got := w.call(other, "env", map[string]any{"text": c.variable}); !c.shared && got != "/other" {
			t.Errorf("%s, %s of the other session: %q", c.server, c.variable, got)
		}
	}
}

// TestJoinLendsNoHome: a command sees a server of a session in its folder whose language differs, as the language of
// a host may, but none whose home differs.
func TestJoinLendsNoHome(t *testing.T) {
	w := start(t, nil)
	dir := w.folder(map[string]string{"a": ""})
	_ = w.client(ipc.Hello{Folder: dir}, map[string]string{"HOME": "/home/me"}, session.Options{})
	for _, c := range []struct {
		env  map[string]string
		seen bool
	}{{map[string]string{"HOME": "/home/me", "LANG": "C", "LC_TIME": "C"}, true}, {map[string]string{"HOME": "/other"}, false}} {
		s, err := w.dial(ipc.Hello{Folder: dir, Join: true}, c.env, session.Options{})
		if (err == nil) != c.seen {
			t.Errorf("%v: %v", c.env, err)
		}
		if err == nil {
			_ = s.Close()
		}
	}
}
