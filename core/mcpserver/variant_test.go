package mcpserver_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// variant is an Options.Variant.
func variant(capabilities json.RawMessage) string {
	if strings.Contains(string(capabilities), "sampling") {
		return "s"
	}
	return ""
}

func named(names ...string) (items []json.RawMessage) {
	for _, name := range names {
		items = append(items, object(`{"name":%q,"inputSchema":{"type":"object"}}`, name))
	}
	return items
}

// A client is notified of changes of the lists that it sees, and of no others.
func TestListChangedPerVariant(t *testing.T) {
	const notified = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{}}`
	of := func(capable, plain string) mcpserver.Catalog {
		c := mcpserver.Catalog{Tools: named(plain)}
		if capable != "" {
			c.Variants = map[string]mcpserver.Catalog{"s": {Tools: named(capable)}}
		}
		return c
	}
	synctest.Test(t, func(t *testing.T) {
		h := newTestServer(t, mcpserver.Options{Variant: variant})
		h.SetCatalog(of("", "a"))
		open := func(capabilities string) *wire {
			w := h.pipe(t)
			w.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":%s}}`, capabilities)
			w.next()
			w.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			return w
		}
		listen := func(capabilities string) *wire {
			w := h.pipe(t)
			w.send(`{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":%s}}}`, capabilities)
			w.next()
			return w
		}
		plain, capable, unlisted := open(`{}`), open(`{"sampling":{}}`), open(`{"sampling":{}}`)
		for _, w := range []*wire{plain, capable} {
			w.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
			w.next()
		}
		modern, modernCapable := listen(`{}`), listen(`{"sampling":{}}`)
		for i, c := range []struct {
			next                     mcpserver.Catalog
			plain, capable, unlisted bool
		}{
			{of("b", "a"), false, true, false}, // the variant appears: unlisted clients saw nothing else
			{of("c", "a"), false, true, true},
			{of("c", "b"), true, false, false},
			{of("c", "b"), false, false, false},
			{of("d", "c"), true, true, true},
			{of("", "c"), false, true, true}, // now all see the same
			{of("", "d"), true, true, true},
		} {
			h.SetCatalog(c.next)
			synctest.Wait()
			for name, client := range map[string]struct {
				*wire
				notified bool
			}{"plain": {plain, c.plain}, "capable": {capable, c.capable}, "unlisted": {unlisted, c.unlisted}} {
				client.send(`{"jsonrpc":"2.0","id":"p","method":"ping"}`)
				got := client.next()
				if is := got == notified; is != client.notified {
					t.Errorf("%d, %s: %s", i, name, got)
				}
				if strings.Contains(got, "list_changed") {
					client.expect(`{"jsonrpc":"2.0","id":"p","result":{}}`)
				}
			}
			for name, client := range map[string]struct {
				*wire
				notified bool
			}{"plain": {modern, c.plain}, "capable": {modernCapable, c.capable}} {
				client.send(`{"jsonrpc":"2.0","id":"p","method":"nothing","params":{` + metaModern + `}}`)
				got := client.next()
				if is := strings.Contains(got, "list_changed"); is != client.notified {
					t.Errorf("%d, modern %s: %s", i, name, got)
				} else if is {
					client.next()
				}
			}
		}
	})
}

// A restored session is compared with the lists that its own client sees.
func TestRestoredSessionsSeeTheirVariant(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := restarted(t, dir, mcpserver.Options{Variant: variant})
	s.SetCatalog(mcpserver.Catalog{Tools: named("a"), Variants: map[string]mcpserver.Catalog{"s": {Tools: named("a", "b")}}})
	plain := s.open(`{"protocolVersion":"2025-06-18","capabilities":{}}`, nil)
	capable := s.open(`{"protocolVersion":"2025-06-18","capabilities":{"sampling":{}}}`, nil)
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	s.post(plain, list)
	s.post(capable, list)
	s.end()
	s = restarted(t, dir, mcpserver.Options{Variant: variant}, "a")
	// The other clients now see what the plain client saw; the list of the capable client is
	// unchanged.
	s.SetCatalog(mcpserver.Catalog{Tools: named("b"), Variants: map[string]mcpserver.Catalog{"s": {Tools: named("a", "b")}, "other": {Tools: named("a")}}})
	for h, want := range map[*header]string{&plain: "tools/list_changed", &capable: "resources/updated"} {
		s.post(*h, `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"note:///a"}}`)
		get := s.stream(http.MethodGet, *h, "")
		s.write("a", "1") // now at the latest something is sent
		if got := get.next(); !strings.Contains(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
