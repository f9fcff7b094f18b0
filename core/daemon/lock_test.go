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
	"github.com/mcptrack/mcptrack/core/daemon/wire"
	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/lock/guard"
	"github.com/mcptrack/mcptrack/core/lock/launch"
	"github.com/mcptrack/mcptrack/core/lock/observe"
	"github.com/mcptrack/mcptrack/core/session"
)

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
	source, err := w.open(t.Context(), daemon.Client{Hello: wire.Hello{Folder: locked}, LookupEnv: os.LookupEnv})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(locked, guard.FileName)
	if err := lock.Update(t.Context(), path, func(l *lock.Lock) error {
		r := observe.Servers(t.Context(), source.Config.Servers, observe.Options{Hashing: func() lock.Hashing { return l.Hashing }})[0]
		l.Servers["a"], _ = lock.Merge(r.Observations...)
		return r.Err
	}); err != nil {
		t.Fatal(err)
	}
	first := w.client(wire.Hello{Folder: locked, Server: "a", Client: "1"}, nil, session.Options{})
	second := w.client(wire.Hello{Folder: open, Server: "a", Client: "2"}, nil, session.Options{})
	if w.call(first, "pid", nil) != w.call(second, "pid", nil) {
		t.Fatal("they do not share the server")
	}
	lists := func(s *session.Session) bool {
		list, err := s.List(t.Context(), catalog.Tools)
		if err != nil {
			t.Fatal(err)
		}
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
	if err := lock.Update(t.Context(), path, func(l *lock.Lock) error {
		it := l.Hashing.Item(lock.SectionTools, json.RawMessage(`{"name":"more-6","inputSchema":{"type":"object"}}`))
		l.Servers["a"].Items[lock.SectionTools] = append(l.Servers["a"].Items[lock.SectionTools], it)
		slices.SortFunc(l.Servers["a"].Items[lock.SectionTools], func(a, b lock.Item) int { return strings.Compare(a.Key, b.Key) })
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	w.until("the approval takes effect", func() bool { return lists(first) })
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.until("a damaged lock blocks", func() bool {
		_, err := w.tryCall(first, "pid", nil)
		return err != nil && strings.Contains(err.Error(), "run mcptrack verify")
	})
	w.call(second, "pid", nil)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	w.until("without a lock everything is served", func() bool {
		_, err := w.tryCall(first, "pid", nil)
		return err == nil
	})
}
