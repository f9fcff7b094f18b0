package daemon_test

import (
	"testing"

	"github.com/mcptrack/mcptrack/core/daemon/ipc"
	"github.com/mcptrack/mcptrack/core/session"
)

// Each client has its own process of a server that is not shared. A client that comes after another has
// ended, such as a health check, gets the lists without a process; one that connects again gets its process
// back.
func TestSeats(t *testing.T) {
	w := start(t, nil)
	dir := w.folder(map[string]string{"a": `"shared":false`})
	connect := func(client string) *session.Session {
		return w.client(ipc.Hello{Folder: dir, Server: "a", Client: client}, nil, session.Options{})
	}
	first, second := connect("1"), connect("2")
	one, two := w.call(first, "pid", nil), w.call(second, "pid", nil)
	if one == two {
		t.Errorf("two clients share process %s", one)
	}
	all := w.client(ipc.Hello{Folder: dir, Client: "4"}, nil, session.Options{})
	if four := w.call(all, "pid", nil); four == one || four == two {
		t.Errorf("a client of all servers uses process %s of another client", four)
	}
	must(t, all.Close())
	must(t, first.Close())
	first = connect("1")
	if again := w.call(first, "pid", nil); again != one {
		t.Errorf("process %s after connecting again, %s before", again, one)
	}
	must(t, first.Close())
	running := func() (n int) {
		for _, s := range w.d.Status().Servers {
			if s.PID != 0 {
				n++
			}
		}
		return n
	}
	w.until("only the process of the second client runs", func() bool { return running() == 1 })
	third := connect("3")
	if list, err := third.List(t.Context(), "tools"); err != nil || len(list) == 0 || running() != 1 {
		t.Errorf("%d tools, %v; %+v", len(list), err, w.d.Status())
	}
	if three := w.call(third, "pid", nil); three == one || three == two {
		t.Errorf("process %s was another client's", three)
	}
}
