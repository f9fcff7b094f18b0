package gateway

import (
	"context"
	"encoding/json"
	"fmt"
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

// A changed list is announced once, within a second; an equal list is not announced.
func TestListChanges(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		docs := w.Serve("docs", era)
		docs.SetList(catalog.Tools, tool("one"))
		w.start(sessiontest.Entry("docs"))
		c := w.client(era)
		w.subscribe(c)
		docs.SetList(catalog.Tools, tool("one"), tool("two"))
		docs.NotifyListChanged(catalog.Tools)
		w.advance(time.Second)
		if got := received(c); got != "tools" {
			w.Errorf("received %q", got)
		}
		w.wantKeys(c, catalog.Tools, "one", "two")
		docs.NotifyListChanged(catalog.Tools)
		docs.NotifyListChanged(catalog.Prompts)
		docs.NotifyListChanged(catalog.Resources)
		w.advance(time.Minute)
		if got := received(c); got != "" {
			w.Errorf("an identical list: received %q", got)
		}
		// A page that fails leaves the list unchanged.
		docs.Fail(listFault())
		docs.NotifyListChanged(catalog.Tools)
		w.advance(2 * time.Second)
		w.wantKeys(c, catalog.Tools, "one", "two")
		docs.Heal()
	})
}

// Adding a second server to the config renames the tools of the first; removing a server
// removes its items.
func TestConfigChanges(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		for _, id := range []string{"a", "b"} {
			w.Serve(id, era).SetList(catalog.Tools, tool("dig"))
		}
		w.start(sessiontest.Entry("a"))
		c := w.client(era)
		w.subscribe(c)
		w.wantKeys(c, catalog.Tools, "dig")
		w.apply(sessiontest.Entry("a"), sessiontest.Entry("b"))
		w.advance(time.Second)
		if got := received(c); got != "tools" {
			w.Errorf("received %q", got)
		}
		w.wantKeys(c, catalog.Tools, "a_dig", "b_dig")
		off := sessiontest.Entry("a", func(s *config.Server) { s.Enabled = false })
		w.apply(off, sessiontest.Entry("b"))
		w.advance(time.Second)
		w.wantKeys(c, catalog.Tools, "dig")
		if _, err := w.do(c, "tools/call", `{"name":"dig"}`); err != nil || w.Server("b").Count("tools/call") != 1 {
			w.Errorf("%v", err)
		}
		w.apply()
		w.advance(time.Second)
		w.wantKeys(c, catalog.Tools)
	})
}

func TestServerDown(t *testing.T) {
	for _, onDown := range []OnDown{Keep, Drop} {
		t.Run(string(onDown), func(t *testing.T) {
			inEras(t, func(w *fixture, era session.Era) {
				w.opts.OnDown = onDown
				for _, id := range []string{"a", "b"} {
					w.Serve(id, era).SetList(catalog.Tools, tool("dig"))
				}
				w.Server("a").SetQuietly("file:///a", "text")
				w.start(sessiontest.Entry("a"), sessiontest.Entry("b"))
				c := w.client(era)
				w.subscribe(c)
				before := w.keys(c, catalog.Tools)

				// A restart within the grace period is not visible, and calls wait for it.
				w.SetDown("a", sessiontest.ErrRefused)
				synctest.Wait()
				w.SetDown("a", nil)
				if _, err := w.do(c, "tools/call", `{"name":"a_dig"}`); err != nil {
					w.Errorf("a call while it restarts: %v", err)
				}
				w.advance(time.Minute)
				if got := received(c); got != "" {
					w.Errorf("after a restart: received %q", got)
				}

				w.SetDown("a", sessiontest.ErrRefused)
				w.advance(3 * time.Second)
				if got := received(c); got != "resources tools" {
					w.Errorf("received %q", got)
				}
				list, err := c.List(w.Context(), catalog.Tools)
				if err != nil {
					w.Fatal(err)
				}
				if _, there := list.Get("b_dig"); !there {
					w.Error("the other server is affected")
				}
				it, there := list.Get("a_dig")
				if there != (onDown == Keep) || there && !strings.Contains(string(it.Raw), `"_meta":{"mcptrack/down":true}`) {
					w.Errorf("%t %s", there, it.Raw)
				}
				began := time.Now()
				_, err = w.do(c, "tools/call", `{"name":"a_dig"}`)
				if err == nil || onDown == Keep && !strings.Contains(err.Error(), "server a: ") || time.Since(began) > 0 {
					w.Errorf("a call: %v after %v", err, time.Since(began))
				}

				w.SetDown("a", nil)
				w.advance(time.Minute)
				if got := received(c); got != "resources tools" {
					w.Errorf("received %q", got)
				}
				if after := w.keys(c, catalog.Tools); after != before {
					w.Errorf("%s, before %s", after, before)
				}
			})
		})
	}
}

// A server that was never up and a server that hangs delay no other.
func TestUnavailableServersDelayNoOther(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		w.Serve("a", era).SetList(catalog.Tools, tool("dig"))
		w.Serve("hung", era).Fail(silence())
		w.Serve("gone", era)
		w.SetDown("gone", sessiontest.ErrRefused)
		began := time.Now()
		w.start(sessiontest.Entry("a"), sessiontest.Entry("hung", func(s *config.Server) { s.ConnectTimeout = 5 * time.Second }), sessiontest.Entry("gone"))
		if took := time.Since(began); took > 15*time.Second {
			w.Errorf("settled after %v", took)
		}
		w.wantKeys(w.client(era), catalog.Tools, "a_dig")
	})
}

// Clients see either the old or the new lists, whatever happens meanwhile: every list has all
// items of one generation of each server.
func TestListsAreConsistent(t *testing.T) {
	const generations, items = 8, 10
	inEras(t, func(w *fixture, era session.Era) {
		set := func(id string, gen int) {
			var tools, prompts, templates []any
			for i := range items {
				name := fmt.Sprintf("g%d-%02d", gen, i)
				tools = append(tools, tool(name))
				prompts = append(prompts, map[string]any{"name": name})
				templates = append(templates, map[string]any{"name": name, "uriTemplate": id + "://" + name + "/{x}"})
			}
			s := w.Server(id)
			s.SetList(catalog.Tools, tools...)
			s.SetList(catalog.Prompts, prompts...)
			s.SetList(catalog.Templates, templates...)
			for _, k := range []catalog.Kind{catalog.Tools, catalog.Prompts, catalog.Resources} {
				s.NotifyListChanged(k)
			}
		}
		w.opts.Serve.PageSize = 7 // a list takes many requests
		for _, id := range []string{"a", "b"} {
			w.Serve(id, era)
			set(id, 0)
		}
		w.start(sessiontest.Entry("a"), sessiontest.Entry("b"))
		ctx, cancel := context.WithCancel(w.Context())
		var listers sync.WaitGroup
		lists := make([]int, 3)
		for i, k := range []catalog.Kind{catalog.Tools, catalog.Prompts, catalog.Templates} {
			c := w.client(era)
			listers.Go(func() {
				for ctx.Err() == nil {
					list, err := c.List(ctx, k)
					if err != nil && strings.Contains(err.Error(), "cursor has expired") {
						continue
					}
					if err != nil {
						if ctx.Err() == nil {
							w.Error(err)
						}
						return
					}
					seen := map[string]int{}
					for _, key := range list.Keys() {
						gen, _, _ := strings.Cut(key, "-")
						seen[gen]++
					}
					whole := len(seen) == 2
					for _, n := range seen {
						whole = whole && n == items
					}
					if !whole {
						w.Errorf("%s: %v", k, seen)
						return
					}
					lists[i]++
					wait, stop := context.WithTimeout(ctx, 23*time.Millisecond)
					<-wait.Done()
					stop()
				}
			})
		}
		for gen := 1; gen <= generations; gen++ {
			set("a", gen)
			set("b", gen)
			if gen%4 == 2 {
				w.Server("b").Disconnect() // while lists change
			}
			w.advance(250 * time.Millisecond)
		}
		cancel()
		listers.Wait()
		for _, n := range lists {
			if n < 20 {
				w.Errorf("only %v lists", lists)
			}
		}
		c := w.client(era)
		w.advance(2 * time.Second)
		if got := w.keys(c, catalog.Tools); strings.Count(got, fmt.Sprintf("_g%d-", generations)) != 2*items {
			w.Errorf("finally %s", got)
		}
	})
}

func TestHostileItems(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		docs := w.Serve("docs", era)
		deep := strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200)
		raw := func(s string) json.RawMessage { return json.RawMessage(s) }
		docs.SetList(catalog.Tools, tool("good"),
			tool(strings.Repeat("n", 300)), tool("bell\a"), tool("over\u202eride"),
			raw(`{"name":"none"}`),
			raw(`{"name":"list","inputSchema":[]}`),
			raw(`{"name":"string","inputSchema":{"type":"string"}}`),
			raw(`{"name":"twice","inputSchema":{"type":"object"},"inputSchema":{"type":"object"}}`),
			raw(`{"name":"big","inputSchema":{"type":"object"},"description":"`+strings.Repeat("x", 300<<10)+`"}`),
			raw(`{"name":"deep","inputSchema":{"type":"object","properties":`+deep+`}}`),
			raw(`{"name":"desc","inputSchema":{"type":"object"},"description":7}`),
			raw(`{"name":"meta","inputSchema":{"type":"object"},"_meta":"x"}`),
			raw(`{"name":"hint","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":"yes"}}`),
			raw(`{"name":"bomb","inputSchema":{"type":"object","$ref":"http://169.254.169.254/"},"description":"hides\u200b this"}`))
		docs.SetList(catalog.Prompts, map[string]any{"name": "ok", "arguments": []any{map[string]any{"name": "a"}}},
			map[string]any{"name": "args", "arguments": map[string]any{}}, map[string]any{"name": "noname", "arguments": []any{map[string]any{}}})
		docs.SetList(catalog.Templates, map[string]any{"name": "t", "uriTemplate": "a:{x}"},
			map[string]any{"uriTemplate": "b:{x}"}, map[string]any{"name": "t", "uriTemplate": "c:{"},
			map[string]any{"name": "t", "uriTemplate": "d:{x}" + strings.Repeat("y", 3000)})
		w.start(sessiontest.Entry("docs"))
		c := w.client(era)
		w.wantKeys(c, catalog.Tools, "good", "bomb", "desc", "hint", "meta")
		w.wantKeys(c, catalog.Prompts, "ok", "args", "noname")
		w.wantKeys(c, catalog.Templates, "a:{x}")
		refused, suspicious := 0, 0
		for _, r := range w.refused {
			if r.Server != "docs" || r.Reason == "" {
				w.Errorf("%+v", r)
			}
			if r.Listed {
				suspicious++
			} else {
				refused++
			}
		}
		if refused != 9+3 || suspicious != 4+2 {
			w.Errorf("%d refused, %d suspicious: %+v", refused, suspicious, w.refused)
		}
		n := len(w.refused)
		docs.NotifyListChanged(catalog.Tools)
		w.advance(2 * time.Minute)
		if len(w.refused) != n {
			w.Errorf("reported again: %+v", w.refused[n:])
		}
	})
}
