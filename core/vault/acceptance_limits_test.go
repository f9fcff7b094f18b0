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

func TestUpdateRateInAStorm(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, map[string]string{"a.md": "x"})
	g := connect(t, h, transports()["legacy over stdio"])
	g.subscribe(recentURI, statsURI, structureURI, "vault://folder/")
	began := time.Now()
	for i := range 200 {
		h.put(fmt.Sprintf("d%d/n%d.md", i%10, i), "x")
	}
	for deadline := time.Now().Add(patience); !strings.Contains(g.read(statsURI), `"noteCount": 201`); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("stats %s", g.read(statsURI))
		}
	}
	g.waitUpdated(recentURI, statsURI, structureURI, "vault://folder/")
	most := int(time.Since(began).Seconds()*4) + 2
	for uri, n := range g.updateCounts() {
		if n > most {
			t.Errorf("%s was updated %d times in %v", uri, n, time.Since(began))
		}
	}
}

func TestIgnoredFilesAreNotPublished(t *testing.T) {
	t.Parallel()
	outside := vaultOf(t, map[string]string{"s.md": "secret"})
	h := newTestServer(t, map[string]string{"n.md": "x", ".obsidian/a.md": "x", ".trash/b.md": "x", "d/.c.md": "x"})
	must(t, os.Symlink(outside, filepath.Join(h.dir, "link")))
	must(t, os.Symlink(filepath.Join(outside, "s.md"), filepath.Join(h.dir, "s.md")))
	forEachTransport(t, func(t *testing.T, connect func(*testServer) *testClient) {
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

// A client that subscribes to more than its limit learns which URI is missing, and gets updates of
// the others only.
func TestSubscriptionLimit(t *testing.T) {
	t.Parallel()
	forEachTransport(t, func(t *testing.T, connect func(*testServer) *testClient) {
		h := serveVault(t, ServerOptions{Vault: Options{Dir: vaultOf(t, map[string]string{"n.md": "x"})}, MaxSubscriptions: 2})
		g := connect(h)
		all := []string{recentURI, statsURI, structureURI} // each changes with the note below
		ack, err := g.Subscribe(t.Context(), session.Filter{URIs: all})
		must(t, err)
		if len(ack.Honoured.URIs) != 2 || len(ack.MissingURIs) != 1 {
			t.Fatalf("ack %+v", ack)
		}
		missing := ack.MissingURIs[0]
		subscribed := slices.DeleteFunc(slices.Clone(all), func(uri string) bool { return uri == missing })
		h.put("m.md", "y")
		g.waitUpdated(subscribed...)
		if n := g.updateCounts()[missing]; n != 0 {
			t.Errorf("%s is over the limit and was updated %d times", missing, n)
		}
	})
}

// A server that closes ends the subscriptions of its clients: they see a gap, and no updates after
// it.
func TestCloseEndsSubscriptions(t *testing.T) {
	t.Parallel()
	forEachTransport(t, func(t *testing.T, connect func(*testServer) *testClient) {
		h := newTestServer(t, map[string]string{"n.md": "x"})
		g := connect(h)
		g.subscribe(recentURI)
		h.put("n.md", "y")
		g.waitUpdated(recentURI)
		h.Server.Close()
		g.waitGap()
		g.forget()
		h.put("n.md", "z")
		for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) { // the index follows a real folder
			recent, err := h.Vault().Read(t.Context(), recentURI)
			must(t, err)
			if strings.Contains(recent.Text, `"preview": "z"`) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("the vault did not see the change: %s", recent.Text)
			}
		}
		if counts := g.updateCounts(); len(counts) > 0 {
			t.Errorf("updates after the end: %v", counts)
		}
	})
}

// TestToolsAndCompletion goes through what clients can ask for besides resources.
func TestToolsAndCompletion(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, map[string]string{"a/Bread.md": "# Bread\nflour #food", "b.md": "[[Bread]]"})
	forEachTransport(t, func(t *testing.T, connect func(*testServer) *testClient) {
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
			{"search_notes", map[string]any{}, "query or tag is required"},
			{"search_notes", map[string]any{"query": 5}, "query cannot be a number"},
			{"read_note", map[string]any{"path": "../x"}, "is outside the vault"},
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
