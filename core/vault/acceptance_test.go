package vault

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/session"
)

// The rows of the acceptance list, by their names, each by a real client in both
// eras and over both transports where that matters.

func (h *house) put(path, text string) {
	h.t.Helper()
	put(h.t, filepath.Join(h.dir, path), text)
}

func newHouse(t testing.TB, files map[string]string) *house {
	return serveVault(t, ServerOptions{Vault: Options{Dir: vaultOf(t, files)}})
}

func TestI1Subscribable(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{"n.md": "x", "d/m.md": "y"})
	inAllWays(t, func(t *testing.T, connect func(*house) *guest) {
		g := connect(h)
		good := []string{recentURI, statsURI, tagsURI, structureURI, tagsFullURI, "vault://note/n.md", "vault://folder/d", "vault://recent?limit=3"}
		if ack := g.subscribe(good...); len(ack.MissingURIs) > 0 || len(ack.Honoured.URIs) != len(good) {
			t.Errorf("ack %+v", ack)
		}
		bad := []string{"vault://nope", "vault://note/nope.md", "file:///etc/passwd"}
		ack, err := g.Subscribe(t.Context(), session.Filter{URIs: append(good, bad...)})
		if g.Info().Era == session.EraModern {
			if err != nil || len(ack.Honoured.URIs) != len(good) || len(ack.MissingURIs) != len(bad) {
				t.Errorf("ack %+v, %v", ack, err)
			}
			return
		}
		if len(ack.Honoured.URIs) != len(good) && err == nil {
			t.Errorf("ack %+v", ack)
		}
		for _, uri := range bad {
			params := map[string]any{"uri": uri}
			_, err := g.Do(t.Context(), session.Request{Method: "resources/subscribe", Params: raw(params)})
			rpc, ok := errors.AsType[*session.RPCError](err)
			if !ok || rpc.Code != -32602 || rpc.Message != "Resource "+uri+" is not subscribable" {
				t.Errorf("%s: %v", uri, err)
			}
		}
	})
}

func TestI2ExternalEdit(t *testing.T) {
	t.Parallel()
	inAllWays(t, func(t *testing.T, connect func(*house) *guest) {
		h := serveVault(t, ServerOptions{Vault: Options{Dir: vaultOf(t, map[string]string{"n.md": "x #a"}), Quiet: 200 * time.Millisecond}})
		g := connect(h)
		g.subscribe(recentURI, statsURI, tagsURI, "vault://note/n.md")
		for round := range 2 { // in place, then by renaming
			g.forget()
			if round == 0 {
				h.put("n.md", "y #a")
			} else {
				h.put("new.tmp", "z #a")
				must(t, os.Rename(filepath.Join(h.dir, "new.tmp"), filepath.Join(h.dir, "n.md")))
			}
			g.wantTold(3*time.Second, recentURI, "vault://note/n.md")
			if told := g.told(); told[statsURI]+told[tagsURI] > 0 || told[recentURI] != 1 {
				t.Errorf("round %d: told %v", round, told)
			}
		}
		g.forget()
		h.put("n.md", "z #b")
		g.wantTold(3*time.Second, recentURI, tagsURI)
		h.put("m.md", "new")
		g.wantTold(3*time.Second, statsURI)
	})
}

func TestI3Folders(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{"old/x/n.md": "x"})
	g := connect(t, h, ways()["modern over HTTP"])
	g.subscribe(recentURI, "vault://folder/", "vault://folder/old", "vault://note/old/x/n.md")
	h.put("sub/deep/er/n.md", "at once")
	g.wantTold(5*time.Second, recentURI, "vault://folder/")
	if text := g.read("vault://note/sub/deep/er/n.md"); text != "at once" {
		t.Errorf("%q", text)
	}
	g.forget()
	must(t, os.Rename(filepath.Join(h.dir, "old"), filepath.Join(h.dir, "moved")))
	g.wantTold(5*time.Second, recentURI, "vault://folder/", "vault://folder/old", "vault://note/old/x/n.md")
	if _, err := g.Read(t.Context(), "vault://note/old/x/n.md"); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("the old place: %v", err)
	}
	if text := g.read("vault://note/moved/x/n.md"); text != "x" {
		t.Errorf("%q", text)
	}
	g.forget()
	must(t, os.RemoveAll(filepath.Join(h.dir, "moved")))
	g.wantTold(5*time.Second, recentURI, "vault://folder/")
	g.forget()
	h.put("old/x/n.md", "back") // the subscription outlived the note
	g.wantTold(5*time.Second, "vault://note/old/x/n.md", "vault://folder/old")
}

func TestI4ReadAfterNotification(t *testing.T) {
	t.Parallel()
	inAllWays(t, func(t *testing.T, connect func(*house) *guest) {
		h := newHouse(t, map[string]string{"n.md": "0"})
		g := connect(h)
		g.subscribe(recentURI, tagsFullURI, "vault://note/n.md")
		for i := range 5 {
			g.forget()
			tag := fmt.Sprint("t", i)
			save(t, filepath.Join(h.dir, "n.md"), "text #"+tag)
			g.wantTold(3*time.Second, recentURI, tagsFullURI, "vault://note/n.md")
			for _, uri := range []string{recentURI, tagsFullURI, "vault://note/n.md"} {
				if text := g.read(uri); !strings.Contains(text, tag) {
					t.Errorf("%s has no %s: %s", uri, tag, text)
				}
			}
		}
	})
}

func TestI5OnlyOnesOwn(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{"a.md": "x", "b.md": "x"})
	inAllWays(t, func(t *testing.T, connect func(*house) *guest) {
		t.Helper()
		one, two := connect(h), connect(h)
		one.subscribe("vault://note/a.md")
		two.subscribe("vault://note/b.md", recentURI)
		h.put("a.md", t.Name()+" 1")
		h.put("b.md", t.Name()+" 1")
		one.wantTold(patience, "vault://note/a.md")
		two.wantTold(patience, "vault://note/b.md", recentURI)
		two.quit()
		one.forget()
		h.put("b.md", t.Name()+" 2")
		h.put("a.md", t.Name()+" 2")
		one.wantTold(patience, "vault://note/a.md")
		if told := one.told(); len(told) != 1 {
			t.Errorf("told %v", told)
		}
		if one.Info().Era == session.EraLegacy {
			_, err := one.Do(t.Context(), session.Request{Method: "resources/unsubscribe", Params: raw(map[string]any{"uri": "vault://never"})})
			if err != nil {
				t.Errorf("unsubscribe of what was never subscribed: %v", err)
			}
		}
	})
}

func TestI5DisconnectFrees(t *testing.T) {
	t.Parallel()
	inAllWays(t, func(t *testing.T, connect func(*house) *guest) {
		h := newHouse(t, map[string]string{"a.md": "x"})
		g := connect(h)
		g.subscribe(recentURI, statsURI)
		if s := h.Subscriptions().Stats(); s.URIs != 2 {
			t.Fatalf("%+v", s)
		}
		g.quit()
		began := time.Now()
		for deadline := began.Add(patience); h.Subscriptions().Stats().URIs > 0; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("after %v: %+v", patience, h.Subscriptions().Stats())
			}
		}
		t.Logf("freed after %v", time.Since(began)) // aim: within 1 s
	})
}

func TestI6NoSubscriber(t *testing.T) {
	t.Parallel()
	inAllWays(t, func(t *testing.T, connect func(*house) *guest) {
		h := newHouse(t, map[string]string{"a.md": "x"})
		g := connect(h)
		if _, err := g.Subscribe(t.Context(), session.Filter{Resources: true}); err != nil {
			t.Fatal(err)
		}
		h.put("a.md", "y")
		h.put("b.md", "new")
		for deadline := time.After(patience); g.listed() == 0; {
			select {
			case <-g.news:
			case <-deadline:
				t.Fatal("the list was not told")
			}
		}
		if told := g.told(); len(told) > 0 {
			t.Errorf("told %v", told)
		}
	})
}

// I7 is shown by core/filewatch, for lost events and limits of every kind, and by
// TestVaultWithoutInotify of cmd/mcptrack.

func TestI8Storm(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{"a.md": "x"})
	g := connect(t, h, ways()["legacy over stdio"])
	g.subscribe(recentURI, statsURI, structureURI, "vault://folder/")
	began := time.Now()
	for i := range 1000 {
		h.put(fmt.Sprintf("d%d/n%d.md", i%10, i), "x")
	}
	for deadline := time.Now().Add(patience); !strings.Contains(g.read(statsURI), `"noteCount": 1001`); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("stats %s", g.read(statsURI))
		}
	}
	g.wantTold(patience, recentURI, statsURI, structureURI, "vault://folder/")
	most := int(time.Since(began).Seconds()*4) + 2
	for uri, n := range g.told() {
		if n > most {
			t.Errorf("%s was told %d times in %v", uri, n, time.Since(began))
		}
	}
}

func TestI9Ignored(t *testing.T) {
	t.Parallel()
	outside := vaultOf(t, map[string]string{"s.md": "secret"})
	h := newHouse(t, map[string]string{"n.md": "x", ".obsidian/a.md": "x", ".trash/b.md": "x", "d/.c.md": "x"})
	must(t, os.Symlink(outside, filepath.Join(h.dir, "link")))
	must(t, os.Symlink(filepath.Join(outside, "s.md"), filepath.Join(h.dir, "s.md")))
	inAllWays(t, func(t *testing.T, connect func(*house) *guest) {
		g := connect(h)
		list, err := g.List(t.Context(), catalog.Resources)
		must(t, err)
		var uris []string
		for _, item := range list {
			uris = append(uris, item.Key)
		}
		slices.Sort(uris)
		if want := []string{"vault://note/n.md", recentURI, statsURI, structureURI, tagsURI}; !slices.Equal(uris, want) {
			t.Errorf("listed %q", uris)
		}
		for _, path := range []string{".obsidian/a.md", ".trash/b.md", "d/.c.md", "link/s.md", "s.md", "../x.md", "%2e%2e/x.md", "/etc/passwd", ""} {
			if c, err := g.Read(t.Context(), notePrefix+path); err == nil {
				t.Errorf("%q is %s", path, c.Raw)
			}
		}
	})
}

func TestI10Limit(t *testing.T) {
	t.Parallel()
	h := serveVault(t, ServerOptions{Vault: Options{Dir: vaultOf(t, map[string]string{"n.md": "x"})}, MaxSubscriptions: 2})
	inAllWays(t, func(t *testing.T, connect func(*house) *guest) {
		g := connect(h)
		ack, err := g.Subscribe(t.Context(), session.Filter{URIs: []string{recentURI, statsURI, tagsURI}})
		if err == nil && (len(ack.Honoured.URIs) != 2 || len(ack.MissingURIs) != 1) {
			t.Errorf("ack %+v", ack)
		}
	})
}

// TestI10Close: a server that closes ends its listens with a result.
func TestI10Close(t *testing.T) {
	t.Parallel()
	inAllWays(t, func(t *testing.T, connect func(*house) *guest) {
		h := newHouse(t, map[string]string{"n.md": "x"})
		g := connect(h)
		g.subscribe(recentURI)
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			h.Server.Close()
		}()
		select {
		case <-closed:
		case <-time.After(5 * time.Second):
			t.Fatal("Close takes more than 5 s")
		}
	})
}

// TestToolsAndCompletion goes through what clients can ask for besides resources.
func TestToolsAndCompletion(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{"a/Bread.md": "# Bread\nflour #food", "b.md": "[[Bread]]"})
	inAllWays(t, func(t *testing.T, connect func(*house) *guest) {
		g := connect(h)
		s, text, failed := g.call("search_notes", map[string]any{"query": "flour", "tag": "food"})
		if failed || fmt.Sprint(s["total"]) != "1" || !strings.Contains(text, `"vault://note/a/Bread.md"`) {
			t.Errorf("search: %v %s", s, text)
		}
		s, text, failed = g.call("read_note", map[string]any{"path": "bread"})
		if failed || text != "# Bread\nflour #food" || fmt.Sprint(s["backlinks"]) != "[b.md]" {
			t.Errorf("read: %v %s", s, text)
		}
		for _, bad := range []struct {
			tool string
			args map[string]any
			want string
		}{
			{"search_notes", map[string]any{}, "query or tag is needed"},
			{"search_notes", map[string]any{"query": 5}, "query cannot be a number"},
			{"read_note", map[string]any{"path": "../x"}, "leads out of the vault"},
			{"read_note", map[string]any{"path": "nope"}, "not found"},
		} {
			if _, text, failed := g.call(bad.tool, bad.args); !failed || !strings.Contains(text, bad.want) {
				t.Errorf("%s %v: %v %s", bad.tool, bad.args, failed, text)
			}
		}
		if _, err := g.CallTool(t.Context(), "nope", nil); err == nil {
			t.Error("a tool that is not there")
		}
		c, err := g.Complete(t.Context(), session.Reference{Template: noteTemplate}, "path", "Br", nil)
		if err != nil || !slices.Equal(c.Values, []string{"a/Bread.md"}) {
			t.Errorf("completion %+v, %v", c, err)
		}
		c, err = g.Complete(t.Context(), session.Reference{Template: folderTemplate}, "path", "", nil)
		if err != nil || !slices.Equal(c.Values, []string{"a"}) {
			t.Errorf("completion %+v, %v", c, err)
		}
		for uri, want := range map[string]error{"vault://note/nope.md": session.ErrNotFound, "vault://folder/nope": session.ErrNotFound} {
			if _, err := g.Read(t.Context(), uri); !errors.Is(err, want) {
				t.Errorf("%s: %v", uri, err)
			}
		}
		if _, err := g.Read(t.Context(), "vault://recent?limit=x"); err == nil || !strings.Contains(err.Error(), "Invalid resource URI format") {
			t.Errorf("bad query: %v", err)
		}
	})
}
