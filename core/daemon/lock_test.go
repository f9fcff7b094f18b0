package daemon_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/daemon"
	"github.com/mcptrack/mcptrack/core/daemon/ipc"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/scoped"
	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/lock/guard"
	"github.com/mcptrack/mcptrack/core/lock/launch"
	"github.com/mcptrack/mcptrack/core/lock/observe"
	"github.com/mcptrack/mcptrack/core/session"
)

// locked approves what the server of a folder's config offers. It returns the path of the lock.
func (w *world) locked(folder string) (path string) {
	w.t.Helper()
	source, err := w.open(w.t.Context(), daemon.Client{Hello: ipc.Hello{Folder: folder}, LookupEnv: os.LookupEnv})
	must(w.t, err)
	path = filepath.Join(folder, guard.FileName)
	if err := lock.Update(w.t.Context(), path, func(l *lock.Lock) error {
		r := observe.Servers(w.t.Context(), source.Config.Servers, observe.Options{Hashing: func() lock.Hashing { return l.Hashing }})[0]
		l.Servers["a"] = lock.NewServer(r.Offered)
		return r.Err
	}); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// approve adds a tool to a lock.
func (w *world) approve(path, tool string) {
	w.t.Helper()
	if err := lock.Update(w.t.Context(), path, func(l *lock.Lock) error {
		it := l.Hashing.Item(lock.SectionTools, json.RawMessage(`{"name":"`+tool+`","inputSchema":{"type":"object"}}`))
		l.Servers["a"].Items[lock.SectionTools] = append(l.Servers["a"].Items[lock.SectionTools], it)
		slices.SortFunc(l.Servers["a"].Items[lock.SectionTools], func(a, b lock.Item) int { return strings.Compare(a.Key, b.Key) })
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
}

// TestLockDrift: folders with different locks share a server. Clients of each folder receive what differs
// from its lock, once, although several groups follow the same lock.
func TestLockDrift(t *testing.T) {
	var log journal.Log
	w := start(t, func(o *daemon.Options) { log = o.Engine.Log() })
	entry := map[string]string{"a": `"shared":"machine"`}
	one, two, open := w.folder(entry), w.folder(entry), w.folder(entry)
	locks := map[string]string{one: w.locked(one), two: w.locked(two), open: filepath.Join(open, guard.FileName)}
	first := w.client(ipc.Hello{Folder: one, Server: "a", Client: "1"}, nil, session.Options{})
	clients := []*session.Session{first, w.client(ipc.Hello{Folder: one, Client: "2"}, nil, session.Options{}),
		w.client(ipc.Hello{Folder: two, Server: "a", Client: "3"}, nil, session.Options{}), w.client(ipc.Hello{Folder: open, Server: "a", Client: "4"}, nil, session.Options{})}
	for _, c := range clients {
		if w.call(c, "pid", nil) != w.call(first, "pid", nil) {
			t.Fatal("they do not share the server")
		}
	}
	tracked := map[string]string{}
	published := func(folder string) string {
		for entry, err := range log.Read(t.Context(), 0) {
			must(t, err)
			if id := entry.ServerID(); id != "" {
				tracked[id] = "a"
			}
		}
		var out []string
		for entry, err := range scoped.New(log, func() map[string]string { return tracked }, locks[folder]).Read(t.Context(), 0) {
			must(t, err)
			e, err := entry.Event()
			must(t, err)
			if p, ok := e.Payload.(event.LockDrift); ok {
				out = append(out, string(p.Change)+" "+e.ServerID+" "+p.Item)
			}
		}
		return strings.Join(out, ", ")
	}
	w.call(first, "grow", nil)
	w.until("both locks differ", func() bool { return published(one) != "" && published(two) != "" })
	w.approve(locks[one], "more-6")
	w.until("one is approved", func() bool { return strings.Contains(published(one), "approved") })
	w.call(first, "grow", nil)
	w.until("both differ again", func() bool {
		return strings.Contains(published(one), "more-7") && strings.Contains(published(two), "more-7")
	})
	for folder, want := range map[string]string{
		one: "changed a tool/more-6, approved a tool/more-6, changed a tool/more-7",
		two: "changed a tool/more-6, changed a tool/more-7", open: "",
	} {
		if got := published(folder); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestLock: clients of a folder with a lock get what it approves, while clients of another folder that
// share the server get everything. What another process approves takes effect without a restart. The
// PATH that the daemon gives to servers is no change of how they start.
func TestLock(t *testing.T) {
	w := start(t, func(o *daemon.Options) {
		o.Gateway.Launch = func(ctx context.Context, srv config.Server) json.RawMessage {
			l, _ := launch.Of(ctx, srv, launch.Machine{})
			definition, err := json.Marshal(l)
			if err != nil {
				t.Error(err)
			}
			return definition
		}
	})
	entry := map[string]string{"a": `"shared":"machine"`}
	locked, open := w.folder(entry), w.folder(entry)
	path := w.locked(locked)
	first := w.client(ipc.Hello{Folder: locked, Server: "a", Client: "1"}, nil, session.Options{})
	second := w.client(ipc.Hello{Folder: open, Server: "a", Client: "2"}, nil, session.Options{})
	if w.call(first, "pid", nil) != w.call(second, "pid", nil) {
		t.Fatal("they do not share the server")
	}
	lists := func(s *session.Session) bool {
		list, err := s.List(t.Context(), catalog.Tools)
		must(t, err)
		return slices.ContainsFunc(list, func(it catalog.Item) bool { return strings.HasPrefix(it.Key, "more-") })
	}
	w.call(second, "grow", nil)
	w.until("the other client sees the new tool", func() bool { return lists(second) })
	if lists(first) {
		t.Error("a tool that is not approved is listed")
	}
	if _, err := w.tryCall(first, "more-6", nil); err == nil || !strings.Contains(err.Error(), "run mcptrack review a") {
		t.Errorf("%v", err)
	}
	w.call(first, "pid", nil)
	w.approve(path, "more-6")
	w.until("the approval takes effect", func() bool { return lists(first) })
}
