package vault

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/session"
)

// These tests use real clients, in both protocol eras and over both transports where
// it matters. core/filewatch and TestVaultWithoutInotify of cmd/mcptrack test lost
// events and system limits.

func (h *testServer) put(path, text string) {
	h.t.Helper()
	put(h.t, filepath.Join(h.dir, path), text)
}

func newTestServer(t testing.TB, files map[string]string) *testServer {
	return serveVault(t, ServerOptions{Vault: Options{Dir: vaultOf(t, files)}})
}

func TestSubscribableURIs(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, map[string]string{"n.md": "x", "d/m.md": "y"})
	forEachTransport(t, func(t *testing.T, connect func(*testServer) *testClient) {
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

func TestExternalEditIsPublished(t *testing.T) {
	t.Parallel()
	forEachTransport(t, func(t *testing.T, connect func(*testServer) *testClient) {
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
			g.waitUpdated(recentURI, "vault://note/n.md")
			if counts := g.updateCounts(); counts[statsURI]+counts[tagsURI] > 0 || counts[recentURI] != 1 {
				t.Errorf("round %d: updates %v", round, counts)
			}
		}
		g.forget()
		h.put("n.md", "z #b")
		g.waitUpdated(recentURI, tagsURI)
		h.put("m.md", "new")
		g.waitUpdated(statsURI)
	})
}

func TestFolderUpdates(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, map[string]string{"old/x/n.md": "x"})
	g := connect(t, h, transports()["modern over HTTP"])
	g.subscribe(recentURI, "vault://folder/", "vault://folder/old", "vault://note/old/x/n.md")
	h.put("sub/deep/er/n.md", "nested")
	g.waitUpdated(recentURI, "vault://folder/")
	if text := g.read("vault://note/sub/deep/er/n.md"); text != "nested" {
		t.Errorf("%q", text)
	}
	g.forget()
	must(t, os.Rename(filepath.Join(h.dir, "old"), filepath.Join(h.dir, "moved")))
	g.waitUpdated(recentURI, "vault://folder/", "vault://folder/old", "vault://note/old/x/n.md")
	if _, err := g.Read(t.Context(), "vault://note/old/x/n.md"); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("the old place: %v", err)
	}
	if text := g.read("vault://note/moved/x/n.md"); text != "x" {
		t.Errorf("%q", text)
	}
	g.forget()
	must(t, os.RemoveAll(filepath.Join(h.dir, "moved")))
	g.waitUpdated(recentURI, "vault://folder/")
	g.forget()
	h.put("old/x/n.md", "back") // the subscription outlived the note
	g.waitUpdated("vault://note/old/x/n.md", "vault://folder/old")
}

func TestReadAfterNotification(t *testing.T) {
	t.Parallel()
	forEachTransport(t, func(t *testing.T, connect func(*testServer) *testClient) {
		h := newTestServer(t, map[string]string{"n.md": "0"})
		g := connect(h)
		g.subscribe(recentURI, tagsFullURI, "vault://note/n.md")
		for i := range 5 {
			g.forget()
			tag := fmt.Sprint("t", i)
			save(t, filepath.Join(h.dir, "n.md"), "text #"+tag)
			g.waitUpdated(recentURI, tagsFullURI, "vault://note/n.md")
			for _, uri := range []string{recentURI, tagsFullURI, "vault://note/n.md"} {
				if text := g.read(uri); !strings.Contains(text, tag) {
					t.Errorf("%s has no %s: %s", uri, tag, text)
				}
			}
		}
	})
}

func TestClientGetsOwnSubscriptionsOnly(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, map[string]string{"a.md": "x", "b.md": "x"})
	forEachTransport(t, func(t *testing.T, connect func(*testServer) *testClient) {
		t.Helper()
		one, two := connect(h), connect(h)
		one.subscribe("vault://note/a.md")
		two.subscribe("vault://note/b.md", recentURI)
		h.put("a.md", t.Name()+" 1")
		h.put("b.md", t.Name()+" 1")
		one.waitUpdated("vault://note/a.md")
		two.waitUpdated("vault://note/b.md", recentURI)
		two.quit()
		one.forget()
		h.put("b.md", t.Name()+" 2")
		h.put("a.md", t.Name()+" 2")
		one.waitUpdated("vault://note/a.md")
		if counts := one.updateCounts(); len(counts) != 1 {
			t.Errorf("updates %v", counts)
		}
		if one.Info().Era == session.EraLegacy {
			_, err := one.Do(t.Context(), session.Request{Method: "resources/unsubscribe", Params: raw(map[string]any{"uri": "vault://never"})})
			if err != nil {
				t.Errorf("unsubscribe of what was never subscribed: %v", err)
			}
		}
	})
}

func TestDisconnectFreesSubscriptions(t *testing.T) {
	t.Parallel()
	forEachTransport(t, func(t *testing.T, connect func(*testServer) *testClient) {
		h := newTestServer(t, map[string]string{"a.md": "x"})
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

func TestNoSubscriberNoUpdates(t *testing.T) {
	t.Parallel()
	forEachTransport(t, func(t *testing.T, connect func(*testServer) *testClient) {
		h := newTestServer(t, map[string]string{"a.md": "x"})
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
				t.Fatal("no list update")
			}
		}
		if counts := g.updateCounts(); len(counts) > 0 {
			t.Errorf("updates %v", counts)
		}
	})
}
