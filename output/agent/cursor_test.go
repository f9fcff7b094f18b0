package agent

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/status"
)

func (c *Cursor) Baseline(id, uri string) catalog.Digest {
	return c.Stored().Resources[journal.ResourceID{ServerID: id, URI: uri}].Digest
}

func (c *Cursor) BaselineList(id string, k catalog.Kind) (catalog.List, bool) {
	list, ok := c.Stored().Lists[journal.ListName{ServerID: id, Kind: k}]
	return list, ok
}

func open(t *testing.T, dir, key string) *Cursor {
	t.Helper()
	c, err := OpenCursor(dir, key, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func digest(n byte) (d catalog.Digest) {
	d[0] = n
	return d
}

// snapshot returns a snapshot of a server "a" with resources, by URI, and tools.
func snapshot(resources map[string]byte, tools ...string) *status.Snapshot {
	st := status.ServerStatus{ID: "a", Lists: map[catalog.Kind]catalog.List{}}
	var listed, named []catalog.Item
	for uri := range resources {
		listed = append(listed, catalog.Item{Key: uri, Digest: digest(1)})
	}
	for _, tool := range tools {
		named = append(named, catalog.Item{Key: tool, Digest: digest(1)})
	}
	st.Lists[catalog.Resources], st.Lists[catalog.Tools] = catalog.NewList(listed), catalog.NewList(named)
	for _, it := range st.Lists[catalog.Resources] {
		st.Resources = append(st.Resources, status.ResourceStatus{URI: it.Key, Digest: digest(resources[it.Key])})
	}
	for i := range st.Resources {
		if resources[st.Resources[i].URI] == 0 {
			st.Resources[i].Digest = catalog.Digest{} // not read yet
		}
	}
	return &status.Snapshot{Servers: []status.ServerStatus{st}}
}

func report(t *testing.T, c *Cursor, snap *status.Snapshot) {
	t.Helper()
	c.Report(snap)
	if err := c.Save(); err != nil {
		t.Fatal(err)
	}
}

func TestCursorIsKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "agent")
	c := open(t, dir, "k")
	if _, ok := c.BaselineList("a", catalog.Tools); ok || !c.Baseline("a", "x:1").IsZero() {
		t.Error("a new cursor knows something")
	}
	report(t, c, snapshot(map[string]byte{"x:1": 1, "x:2": 2}, "find"))
	c.SetLastID("3f9a1c20b7e4d581-42")
	if err := c.Save(); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if other := open(t, dir, "another"); !other.Baseline("a", "x:1").IsZero() {
		t.Error("another key has the same cursor")
	}
	c = open(t, dir, "k")
	list, ok := c.BaselineList("a", catalog.Tools)
	if _, has := list.Get("find"); !ok || !has || c.Baseline("a", "x:2") != digest(2) || c.LastID() != "3f9a1c20b7e4d581-42" {
		t.Errorf("%+v", c.state)
	}

	// Digests of unread resources stay; removed resources are dropped.
	report(t, c, snapshot(map[string]byte{"x:1": 0, "x:3": 3}))
	if c.Baseline("a", "x:1") != digest(1) || !c.Baseline("a", "x:2").IsZero() || c.Baseline("a", "x:3") != digest(3) {
		t.Errorf("%+v", c.state.Servers["a"])
	}
	c.Report(&status.Snapshot{Servers: []status.ServerStatus{{ID: "a"}}}) // not reached
	if c.Baseline("a", "x:1") != digest(1) {
		t.Error("a server that was not reached was forgotten")
	}
	forgotten := snapshot(map[string]byte{"x:1": 1})
	forgotten.Servers[0].Resources = nil // its entry in the config changed
	if c.Report(forgotten); c.Baseline("a", "x:1") != digest(1) {
		t.Error("a resource that is listed was forgotten")
	}
	unreadable := snapshot(map[string]byte{"x:1": 0})
	unreadable.Servers[0].Resources[0].Gone = true
	if c.Report(unreadable); !c.Baseline("a", "x:1").IsZero() {
		t.Error("a removed resource would be reported repeatedly")
	}
}

// Two simultaneous processes have a cursor each. The next process continues with the first one, and the other
// is dropped.
func TestCursorsOfTwoProcesses(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir, "k")
	report(t, first, snapshot(map[string]byte{"x:1": 1, "x:2": 1}, "find", "get"))
	second := open(t, dir, "k")
	if second.Baseline("a", "x:1") != digest(1) {
		t.Error("the second one begins without what the first has reported")
	}
	report(t, second, snapshot(map[string]byte{"x:1": 2, "x:2": 1}, "find", "put"))
	if first.Baseline("a", "x:1") != digest(1) {
		t.Error("they share a cursor")
	}
	second.Close()
	again := open(t, dir, "k")
	if again.Baseline("a", "x:1") != digest(2) {
		t.Error("the second one, started again, has another cursor")
	}
	again.Close()
	first.Close()

	third := open(t, dir, "k")
	list, _ := third.BaselineList("a", catalog.Tools)
	if _, ok := list.Get("get"); !ok || third.Baseline("a", "x:1") != digest(1) {
		t.Errorf("%+v", third.state.Servers["a"])
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*.json")); len(files) != 1 {
		t.Errorf("%q are left", files)
	}
}

// The content of the file is not trusted.
func TestCursorOfBadFile(t *testing.T) {
	for i, content := range []string{"", "{", "null", "[]", `{"version":2}`, `{"version":1,"servers":{"a":null}}`, `{"version":1,"servers":{"a":{"lists":{"tools":null}}}}`, `{"version":1,"servers":{"a":{"resources":{"x:1":"sha256:zz"}}}}`} {
		dir := t.TempDir()
		c := open(t, dir, "k")
		file := c.slot.file
		c.Close()
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		c = open(t, dir, "k")
		if _, ok := c.BaselineList("a", catalog.Tools); ok || !c.Baseline("a", "x:1").IsZero() {
			t.Errorf("%d: %+v", i, c.state)
		}
		report(t, c, snapshot(map[string]byte{"x:1": 1}))
	}
}

// A directory that cannot be created, and one in which writing begins to fail.
func TestCursorThatCannotBeStored(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenCursor(file, "k", slog.New(slog.DiscardHandler)); !errors.Is(err, ErrNoCursor) {
		t.Error(err)
	}
	if runtime.GOOS == "windows" {
		t.Skip("open files cannot be moved")
	}
	dir := filepath.Join(t.TempDir(), "agent")
	c := open(t, dir, "k")
	report(t, c, snapshot(map[string]byte{"x:1": 1}))
	if err := os.Rename(dir, dir+"2"); err != nil {
		t.Fatal(err)
	}
	c.Report(snapshot(map[string]byte{"x:1": 2}))
	if err := c.Save(); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := os.Rename(dir+"2", dir); err != nil {
		t.Fatal(err)
	}
	if err := c.Save(); err != nil {
		t.Error(err)
	}
	c.Close()
	if c = open(t, dir, "k"); c.Baseline("a", "x:1") != digest(2) {
		t.Error("the state was not stored when this was possible again")
	}
}

// If there are more processes than slots, OpenCursor fails; it does not share a cursor.
func TestCursorsAreBounded(t *testing.T) {
	dir := t.TempDir()
	for range maxSlots {
		open(t, dir, "k")
	}
	if _, err := OpenCursor(dir, "k", slog.New(slog.DiscardHandler)); !errors.Is(err, ErrNoCursor) {
		t.Error(err)
	}
	if open(t, dir, "another") == nil {
		t.Error("another key has no slot")
	}
}
