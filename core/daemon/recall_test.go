package daemon_test

import (
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/daemon/ipc"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/session"
)

// A health check, which only initializes and lists, starts no server whose lists are in the log, also
// after the daemon was started again. A call starts the server.
func TestHealthCheckStartsNothing(t *testing.T) {
	log := journal.NewMemory(journal.MemoryOptions{KeepContent: 1 << 20})
	t.Cleanup(func() { _ = log.Close() })
	first := startOn(t, log, nil)
	dir := first.folder(map[string]string{"a": ""})
	check := func(w *world) *session.Session {
		s := w.client(ipc.Hello{Folder: dir, Server: "a"}, nil, session.Options{})
		tools, err := s.List(t.Context(), catalog.Tools)
		if err != nil || len(tools) == 0 || s.Info().ServerName != "fake" {
			t.Errorf("%d tools of %q, %v", len(tools), s.Info().ServerName, err)
		}
		return s
	}
	_ = check(first).Close()
	first.cancel()
	_ = first.end()
	second := startOn(t, log, nil)
	second.config = first.config
	s := check(second)
	if st := second.d.Status(); len(st.Servers) != 1 || st.Servers[0].PID != 0 || st.Servers[0].Reason != "asleep" {
		t.Errorf("%+v", st.Servers)
	}
	if second.call(s, "pid", nil) == "" {
		t.Error("no call is answered")
	}
}
