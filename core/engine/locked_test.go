package engine_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/lock/guard"
	"github.com/mcptrack/mcptrack/core/lock/locktest"
)

// described returns tools from texts such as "dig digs".
func described(texts ...string) (tools []any) {
	for _, text := range texts {
		name, description, _ := strings.Cut(text, " ")
		tools = append(tools, map[string]any{"name": name, "description": description, "inputSchema": map[string]any{"type": "object"}})
	}
	return tools
}

// approve writes tools of a server into a lock file.
func approve(t *testing.T, path, server string, texts ...string) {
	t.Helper()
	err := lock.Update(t.Context(), path, func(l *lock.Lock) error {
		var items []lock.Item
		for _, tool := range described(texts...) {
			definition, err := json.Marshal(tool)
			if err != nil {
				return err
			}
			items = append(items, l.Hashing.Item(lock.SectionTools, definition))
		}
		l.Servers[server] = lock.NewServer(lock.Observation{lock.SectionTools: items})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// locking returns the options of an engine that compares servers with a lock file.
func locking(t *testing.T, path string) engine.Options {
	t.Helper()
	g, err := guard.New(guard.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	return engine.Options{Lock: &engine.Lock{Guard: g}}
}

// drifts returns the published differences of tools and of whole servers from the lock.
func (r *run) drifts() (out []string) {
	r.Helper()
	for entry, err := range r.events.Read(r.Context(), 0) {
		if err != nil {
			r.Fatal(err)
		}
		e, err := entry.Event()
		if err != nil {
			r.Fatal(err)
		}
		if p, ok := e.Payload.(event.LockDrift); ok && (p.Section == "tools" || p.Section == "") {
			text := fmt.Sprint(p.Change, " ", p.Item)
			for _, c := range p.Classes {
				text += " " + c.Name
			}
			out = append(out, strings.TrimSpace(text))
			if data := entry.Data(); strings.Contains(string(data), "EVIL") {
				r.Errorf("the event has the changed text: %s", data)
			}
			if p.Change == event.DriftChanged && p.Section != "" && (p.NewHash == "" || p.Severity == "" || p.Action == "") {
				r.Errorf("incomplete: %+v", p)
			}
		}
	}
	return out
}

func (r *run) publishes(want ...string) {
	r.Helper()
	eventually(r.T, fmt.Sprintf("%q was published, but %q", want, r.drifts()), publishedWithin, func() bool { return slices.Equal(r.drifts(), want) })
}

// Each change is published once, also if the process restarts meanwhile, and its end as well.
func lockDriftIsPublishedOnce(t *testing.T, in func(*testing.T) place) {
	at := in(t)
	path := locktest.Path(t)
	approve(t, path, "docs", "dig digs", "rake rakes")
	w := newWorld(t, "docs")
	docs := w.servers["docs"]
	offers := func(texts ...string) {
		docs.SetList(catalog.Tools, described(texts...)...)
		docs.NotifyListChanged(catalog.Tools)
	}
	offers("dig digs", "rake rakes")
	with := func() engine.Options {
		out := locking(t, path)
		out.Role = roleAt(at)
		return out
	}
	one := w.engine(at, with(), w.config())
	one.knows()
	offers("dig EVIL", "rake rakes")
	want := []string{"changed tool/dig wording"}
	one.publishes(want...)
	offers("dig EVIL2", "rake rakes") // changed again
	want = append(want, "changed tool/dig wording")
	one.publishes(want...)
	one.stop()

	two := w.engine(at, with(), w.config())
	eventually(t, "the second process has compared", time.Minute, func() bool { return len(two.LockChanges()["docs"]) > 0 })
	offers("dig EVIL2", "rake rakes", "sow sows")
	want = append(want, "changed tool/sow added") // and nothing again
	two.publishes(want...)
	approve(t, path, "docs", "dig EVIL2", "rake rakes")
	want = append(want, "approved tool/dig")
	two.publishes(want...)
	offers("dig EVIL2", "rake rakes")
	want = append(want, "resolved tool/sow")
	two.publishes(want...)
	offers("dig EVIL3", "rake rakes")
	want = append(want, "changed tool/dig wording")
	two.publishes(want...)
	two.stop()

	offers("dig EVIL2", "rake rakes") // taken back while nobody looks
	three := w.engine(at, with(), w.config())
	want = append(want, "resolved tool/dig")
	three.publishes(want...)
}

// A server that is not in the lock differs as a whole, until it is in it. Without a lock file nothing
// differs.
func TestLockOfServers(t *testing.T) {
	t.Parallel()
	path := locktest.Path(t)
	w := newWorld(t, "docs", "web")
	for _, srv := range w.servers {
		srv.SetList(catalog.Tools, described("dig digs")...)
	}
	r := w.engine(local(), locking(t, path), w.config())
	r.knows()
	if counts := r.LockChanges(); len(counts) > 0 {
		t.Errorf("without a lock: %v", counts)
	}
	approve(t, path, "docs", "dig digs")
	r.publishes("changed")
	eventually(t, "both are compared", publishedWithin, func() bool {
		return slices.Equal(slices.Sorted(maps.Keys(r.LockChanges())), []string{"docs", "web"})
	})
	approve(t, path, "web", "dig digs")
	r.publishes("changed", "approved")
}

// What a server offered before it was lost stays open until it is approved.
func TestLockOfLostServer(t *testing.T) {
	t.Parallel()
	path := locktest.Path(t)
	approve(t, path, "docs", "dig digs")
	w := newWorld(t, "docs")
	w.servers["docs"].SetList(catalog.Tools, described("dig EVIL")...)
	r := w.engine(local(), locking(t, path), w.config())
	r.publishes("changed tool/dig wording")
	w.mu.Lock()
	w.away = true
	w.mu.Unlock()
	w.servers["docs"].Disconnect()
	eventually(t, "the server is lost", publishedWithin, func() bool {
		st, _ := r.Tracker().Snapshot().Server("docs")
		return st.State == event.Backoff
	})
	if open := r.LockChanges()["docs"]; len(open) == 0 {
		t.Error("the change of a lost server is not open")
	}
	approve(t, path, "docs", "dig EVIL")
	r.publishes("changed tool/dig wording", "approved tool/dig")
}

// What differs from the lock is refused, also before that is published, and a server that the lock lacks.
func TestRefuse(t *testing.T) {
	t.Parallel()
	path := locktest.Path(t)
	w := newWorld(t, "docs", "web")
	for _, srv := range w.servers {
		srv.SetList(catalog.Tools, described("dig digs", "rake rakes")...)
	}
	r := w.engine(local(), locking(t, path), w.config())
	r.knows()
	if err := r.Refuse("docs", catalog.Tools, "dig"); err != nil {
		t.Errorf("without a lock: %v", err)
	}
	approve(t, path, "docs", "dig digs", "rake EVIL")
	eventually(t, "both are compared", publishedWithin, func() bool { return len(r.LockChanges()) == 2 })
	for tool, server := range map[string]string{"rake": "docs", "dig": "web"} {
		if err := r.Refuse(server, catalog.Tools, tool); err == nil || !strings.Contains(err.Error(), "run mcptrack ") || strings.Contains(err.Error(), "EVIL") {
			t.Errorf("%s of %s: %v", tool, server, err)
		}
	}
	if err := r.Refuse("docs", catalog.Tools, "dig"); err != nil {
		t.Error(err)
	}
	w.servers["docs"].SetList(catalog.Tools, described("dig EVIL", "rake rakes")...)
	w.servers["docs"].NotifyListChanged(catalog.Tools)
	eventually(t, "the change is known", publishedWithin, func() bool {
		it, _ := r.Tracker().Client("docs").Item(catalog.Tools, "dig")
		return strings.Contains(string(it.Raw), "EVIL")
	})
	if err := r.Refuse("docs", catalog.Tools, "dig"); err == nil {
		t.Error("a tool is not refused whose change is known")
	}
}
