package mcpserver_test

import (
	"encoding/json"
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
