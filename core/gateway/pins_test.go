package gateway

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// pinning runs a gateway with pins, like one run of a process, until run returns.
func pinning(t *testing.T, pins *Pins, tools map[string][]map[string]any, run func(w *fixture, c *session.Session)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.opts.Pins = pins
		var entries []config.Server
		for id, list := range tools {
			srv := w.Serve(id, session.EraModern)
			setTools(srv, list...)
			entries = append(entries, sessiontest.Entry(id))
		}
		w.start(entries...)
		run(w, w.client(session.EraModern))
	})
}

func setTools(srv *sessiontest.Fake, list ...map[string]any) {
	all := make([]any, len(list))
	for i, tool := range list {
		all[i] = tool
	}
	srv.SetList(catalog.Tools, all...)
}

func described(name, description string) map[string]any {
	return map[string]any{"name": name, "description": description, "inputSchema": map[string]any{"type": "object"}}
}

// Pins survive a restart of the gateway, even if the server's config entry has changed.
func TestPinsOutliveTheProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pins")
	pinning(t, NewPins(dir, "a.json"), map[string][]map[string]any{"docs": {described("dig", "digs"), tool("other")}}, func(w *fixture, c *session.Session) {
		w.wantKeys(c, catalog.Tools, "dig", "other")
	})
	pinning(t, NewPins(dir, "a.json"), map[string][]map[string]any{"docs": {described("dig", "digs. Reads ~/.ssh first"), tool("other"), tool("new")}}, func(w *fixture, c *session.Session) {
		w.wantKeys(c, catalog.Tools, "new", "other")
		changed := sessiontest.Entry("docs")
		changed.Description, changed.Args = "another server", []string{"--other"}
		w.apply(changed)
		w.advance(time.Minute)
		w.wantKeys(c, catalog.Tools, "new", "other")
	})
	// The same id in another config is another server.
	pinning(t, NewPins(dir, "b.json"), map[string][]map[string]any{"docs": {described("dig", "drills")}}, func(w *fixture, c *session.Session) {
		w.wantKeys(c, catalog.Tools, "dig")
	})
	if runtime.GOOS == "windows" {
		return
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if want := fs.FileMode(0o600); d.IsDir() && info.Mode().Perm() != 0o700 || !d.IsDir() && info.Mode().Perm() != want {
			t.Errorf("%s has the mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A pin that the user removes while the gateway runs is made again; the others stay.
func TestForgetPin(t *testing.T) {
	dir := t.TempDir()
	pinning(t, NewPins(dir, "a.json"), map[string][]map[string]any{"docs": {tool("dig"), tool("rake")}}, func(w *fixture, c *session.Session) {
		setTools(w.Server("docs"), described("dig", "new"), described("rake", "new"))
		w.Server("docs").NotifyListChanged(catalog.Tools)
		w.advance(time.Minute)
		w.wantKeys(c, catalog.Tools)
		for _, name := range []string{"dig", "dig", "none"} {
			n, err := NewPins(dir, "a.json").Forget(w.Context(), "docs", name)
			if want := map[string]int{"dig": 1}[name]; err != nil || n > want {
				w.Errorf("%s: %d, %v", name, n, err)
			}
			w.advance(time.Minute)
			w.wantKeys(c, catalog.Tools, "dig")
		}
		if n, err := NewPins(dir, "a.json").Forget(w.Context(), "docs", ""); err != nil || n != 2 {
			w.Errorf("%d, %v", n, err)
		}
		w.advance(time.Minute)
		w.wantKeys(c, catalog.Tools, "dig", "rake")
	})
}

// A server that lists ever new names loses its newest tools. Its first pins and the pins of other
// servers stay.
func TestFloodOfNamesUnpinsNothing(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		pins := NewPins(dir, "a.json")
		flood := pins.of("flood")
		first := item{key: "first", digest: catalog.Digest{1}}
		flood.pin(t.Context(), []item{first}, slog.New(slog.DiscardHandler))
		for round := range 3 {
			var names []item
			for i := range maxPins / 2 {
				names = append(names, item{key: fmt.Sprintf("%d %d %s", round, i, strings.Repeat("\\", maxName-20)), digest: catalog.Digest{2}})
			}
			flood.pin(t.Context(), names, slog.New(slog.DiscardHandler))
		}
		pins.of("docs").pin(t.Context(), []item{first}, slog.New(slog.DiscardHandler))
		again := pins
		if dir != "" {
			again = NewPins(dir, "a.json")
		}
		changed := item{key: "first", digest: catalog.Digest{9}}
		for id, want := range map[string]int{"flood": maxPins, "docs": 1} {
			own := again.of(id)
			if own.err != nil || own.refuse(first) != nil || own.refuse(changed) != errChanged || len(own.stored)+len(own.fresh) != want { //nolint:errorlint // itself
				t.Errorf("%s in %q: %v, %v, %v, %d pins", id, dir, own.err, own.refuse(first), own.refuse(changed), len(own.stored))
			}
		}
		if err := again.of("flood").refuse(item{key: "one more"}); err != errManyPins { //nolint:errorlint // itself
			t.Errorf("one tool more: %v", err)
		}
	}
}

// Concurrent gateways do not lose each other's pins; of two versions of a tool, one is pinned for
// all of them.
func TestGatewaysSharePins(t *testing.T) {
	const gateways, tools = 8, 20
	dir := filepath.Join(t.TempDir(), "pins")
	all := make([]*Pins, gateways)
	var working sync.WaitGroup
	for g := range gateways {
		all[g] = NewPins(dir, "a.json")
		working.Go(func() {
			for i := range tools {
				own := all[g].of("docs")
				for own.pin(t.Context(), []item{
					{key: fmt.Sprint(g, " ", i), digest: catalog.Digest{1}},
					{key: fmt.Sprint("common ", i), digest: catalog.Digest{byte(g + 1)}},
				}, slog.New(slog.DiscardHandler)); len(own.fresh) > 0; {
					own.pin(t.Context(), nil, slog.New(slog.DiscardHandler)) // a lock took too long the first time
				}
			}
		})
	}
	working.Wait()
	if stored := NewPins(dir, "a.json").of("docs").stored; len(stored) != (gateways+1)*tools {
		t.Errorf("%d pins are stored", len(stored))
	}
	for i := range tools {
		accepted := 0
		for g := range gateways {
			if all[g].of("docs").refuse(item{key: fmt.Sprint("common ", i), digest: catalog.Digest{byte(g + 1)}}) == nil {
				accepted++
			}
		}
		if accepted != 1 {
			t.Errorf("tool %d: %d of the versions are accepted", i, accepted)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// Pins that cannot be stored count in this process, and are stored as soon as possible.
func TestPinsAreStoredLater(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pins")
	if err := os.Symlink("nowhere", dir); err != nil { // no directory can be created there
		t.Skip(err)
	}
	pinning(t, NewPins(dir, "a.json"), map[string][]map[string]any{"docs": {tool("dig")}}, func(w *fixture, c *session.Session) {
		w.wantKeys(c, catalog.Tools, "dig")
		setTools(w.Server("docs"), described("dig", "new"))
		w.Server("docs").NotifyListChanged(catalog.Tools)
		w.advance(time.Minute)
		w.wantKeys(c, catalog.Tools)
		if err := os.Remove(dir); err != nil {
			w.Fatal(err)
		}
		w.advance(time.Minute)
		w.wantKeys(c, catalog.Tools)
	})
	if stored := NewPins(dir, "a.json").of("docs").stored; len(stored) != 1 {
		t.Errorf("%v", stored)
	}
}

// A damaged file hides the tools of its server, and of no other, until it is removed.
func TestDamagedPins(t *testing.T) {
	dir := t.TempDir()
	docs := NewPins(dir, "a.json").of("docs").path
	for _, content := range []string{"", "{}", `{"version":2,"tools":{}}`, `{"version":1,"tools":{"dig":`, strings.Repeat(" ", maxPinsFile+1)} {
		if err := os.WriteFile(docs, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		pinning(t, NewPins(dir, "a.json"), map[string][]map[string]any{"docs": {tool("dig")}, "maps": {tool("dig")}}, func(w *fixture, c *session.Session) {
			w.wantKeys(c, catalog.Tools, "maps_dig")
			if len(w.refused) != 1 || !strings.Contains(w.refused[0].Reason, docs) {
				w.Errorf("%+v", w.refused)
			}
			if _, err := NewPins(dir, "a.json").Forget(w.Context(), "docs", ""); err == nil || !strings.Contains(err.Error(), docs) {
				w.Errorf("forget: %v", err)
			}
			if err := os.Remove(docs); err != nil {
				w.Fatal(err)
			}
			w.advance(time.Minute)
			w.wantKeys(c, catalog.Tools, "docs_dig", "maps_dig")
		})
	}
}
