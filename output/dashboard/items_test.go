package dashboard

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/calls"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/output/internal/browsertest"
)

// lists returns lists with items, each of which is JSON.
func lists(t *testing.T, all map[catalog.Kind][]string) map[catalog.Kind]catalog.List {
	t.Helper()
	out := map[catalog.Kind]catalog.List{}
	for kind, raws := range all {
		var items []catalog.Item
		for _, raw := range raws {
			it, err := catalog.NewItem(kind, json.RawMessage(raw))
			if err != nil {
				t.Fatal(err)
			}
			items = append(items, it)
		}
		out[kind] = catalog.NewList(items)
	}
	return out
}

// search is a tool whose schema has what schemas have.
const search = `{"name":"search","title":"Search orders","description":"Finds <b>orders</b>.","annotations":{"destructiveHint":true,"openWorldHint":false},
	"inputSchema":{"type":"object","required":["customer"],"$defs":{"node":{"type":"object","properties":{"next":{"$ref":"#/$defs/node"},"depth":{"type":"integer"}}}},"properties":{
		"customer":{"type":"string","minLength":1,"description":"Who\u202e"},"limit":{"type":"integer","minimum":1,"maximum":50,"default":10},
		"status":{"enum":["open","paid"]},"range":{"type":"object","required":["from"],"properties":{"from":{"type":"string","format":"date"}}},
		"lines":{"type":"array","items":{"type":"object","properties":{"sku":{"type":"string"}}}},"chain":{"$ref":"#/$defs/node"},
		"by":{"oneOf":[{"title":"Name","properties":{"name":{"const":"me"}}},{"title":"Number","properties":{"number":{"type":["integer","null"]}}}]},
		"odd":7,"__proto__":{"type":"boolean"}}}}`

// offering is a world whose third server has only tools, and whose fourth has things of every kind, in folders.
func offering(t *testing.T) *status.Snapshot {
	t.Helper()
	snap := world(5, 3)
	tools := []string{search}
	for i := range 12 {
		tools = append(tools, fmt.Sprintf(`{"name":"report_%d"}`, i+1))
	}
	snap.Servers[2].Lists = lists(t, map[catalog.Kind][]string{catalog.Tools: tools})
	all := &snap.Servers[3]
	all.Lists = lists(t, map[catalog.Kind][]string{
		catalog.Tools: {`{"name":"draw"}`}, catalog.Templates: {`{"name":"Page","uriTemplate":"file:///pages/{n}"}`}, catalog.Skills: {`{"uri":"skill://pdf/SKILL.md","frontmatter":{"name":"pdf","description":"Reads PDFs."}}`},
		catalog.Prompts: {`{"name":"greet","description":"Says hello.","arguments":[{"name":"who","required":true,"description":"Whom to greet"}]}`},
	})
	for _, path := range []string{"a/b/c/1.md", "a/b/c/2.md", "a/b/10.md", "a/b/9.md", "other/alone.md", "top.md"} {
		all.Resources = append(all.Resources, status.ResourceStatus{URI: "file:///" + path})
	}
	return snap
}

func TestItems(t *testing.T) {
	t.Parallel()
	_, d, _ := stored(t, fixed(offering(t)))
	s := serve(t, d, nil)
	ask := func(query string) (got offered) {
		t.Helper()
		if code := fetch(t, s.URL+"/api/items"+query, &got); code != http.StatusOK {
			t.Errorf("%s: status %d", query, code)
		}
		return got
	}
	all := ask("")
	if len(all.Servers) != 5 || len(all.Servers["server-0002"]) != 1 || all.Servers["server-0002"][catalog.Tools][12] != (listed{Key: "search", Name: "Search orders"}) {
		t.Errorf("%+v", all.Servers["server-0002"])
	}
	if got := all.Servers["server-0003"]; len(got[catalog.Resources]) != 6 || got[catalog.Skills][0] != (listed{Key: "skill://pdf/SKILL.md", Name: "pdf"}) || got[catalog.Templates][0].Name != "Page" {
		t.Errorf("%+v", got)
	}
	if got := ask("?server=server-0000&server=server-0003&server=nobody"); !slices.Equal(slices.Sorted(maps.Keys(got.Servers)), []string{"server-0000", "server-0003"}) {
		t.Errorf("%+v", got)
	}
}

// A response is bounded: a server that is left out is returned to a request that names it.
func TestItemsAreBounded(t *testing.T) {
	t.Parallel()
	snap := world(4, maxListed)
	snap.Servers[2].Lists = lists(t, map[catalog.Kind][]string{catalog.Tools: {search}})
	s := serve(t, New(Options{Snapshot: fixed(snap)}), nil)
	for query, want := range map[string]int{"": 1, "?server=server-0002": 1} {
		var got offered
		fetch(t, s.URL+"/api/items"+query, &got)
		if len(got.Servers) != want || (got.More > 0) != (query == "") {
			t.Errorf("%q: %d servers, %d more", query, len(got.Servers), got.More)
		}
	}
}

// openOffering opens a page of a world with things of every kind, and with calls.
func openOffering(t *testing.T, query string) browsertest.Tab {
	t.Helper()
	snap := offering(t)
	j, d, store := stored(t, fixed(snap))
	was, is := lists(t, map[catalog.Kind][]string{catalog.Tools: {`{"name":"search","description":"Finds."}`}})[catalog.Tools], snap.Servers[2].Lists[catalog.Tools]
	delta := catalog.Diff(was, is)
	store("server-0002", "", event.ListChanged{List: catalog.Tools, Changed: delta.Changed, Versions: catalog.ItemVersions(was, is, delta)})
	j.Contents().Put(was[0].Digest, string(was[0].Raw))
	m := new(calls.Memory)
	for i := range 40 {
		m.Add(calls.Call{Client: "zed", ServerID: "server-0002", Tool: "search", Outcome: calls.OK, Duration: time.Duration(i+1) * time.Millisecond})
	}
	m.Add(calls.Call{Client: "cursor\u202e", ServerID: "server-0002", Tool: "report_1", Outcome: calls.ToolError})
	m.Add(calls.Call{Client: "cursor\u202e", ServerID: "server-0002", Tool: "search", Outcome: calls.Error, Code: -32602})
	d.opts.Calls = m.Read
	s := serve(t, d, map[string]http.Handler{"GET /events": newStream()})
	p := chromium.Open(t, 1280, 800)
	p.Hurry()
	p.Go(s.URL + "/" + query)
	p.Until(`document.querySelector('#tiles').textContent.includes('14 tools') && document.querySelector('#link').textContent === 'live'`)
	return p
}

// railText is the text of the rows in the rail that are in view, in order.
const railText = `[...document.querySelectorAll('#rail-list .row')].sort((a, b) => a.dataset.index - b.dataset.index).map((r) => r.title.split(',')[0]).join('|')`

// TestRealTree: the rail is a tree. A server has a group for each kind of thing that it offers, URIs have folders,
// names are in natural order, and only what opens has a twisty.
func TestRealTree(t *testing.T) {
	p := openOffering(t, "?server=server-0004")
	until := func(want string) {
		t.Helper()
		p.Until(fmt.Sprintf(railText+` === %q`, want))
	}
	until(`server-0001|connect: ` + `<img src=x onerror="document.title='owned'"></script><b>bold\u202e\u001b[31m` + `|server-0000|server-0002|server-0003|server-0004`)
	p.Until(`document.querySelectorAll('#rail-list .twist:not(:empty)').length === 3 && document.querySelector('#collapse-all').disabled`)
	setInput(p, "rail-filter", "server-0002")
	p.Run(`document.querySelector('#rail-list .twist').click()`)
	until(`server-0002|report_1|report_2|report_3|report_4|report_5|report_6|report_7|report_8|report_9|report_10|report_11|report_12|search`)
	setInput(p, "rail-filter", "server-0003")
	p.Run(`document.querySelector('#rail-list .twist').click()`)
	until(`server-0003|Tools|draw|Prompts|Resources|Templates|Skills`)
	pick(p, "Resources")
	until(`server-0003|Tools|draw|Prompts|Resources|file:///a/b/|file:///other/alone.md|file:///top.md|Templates|Skills`)
	pick(p, "file:///a/b/")
	until(`server-0003|Tools|draw|Prompts|Resources|file:///a/b/|file:///a/b/c/|file:///a/b/9.md|file:///a/b/10.md|file:///other/alone.md|file:///top.md|Templates|Skills`)
	p.Until(`document.querySelector('#detail-title').textContent === 'server-0004'`) // a folder only opens
	pick(p, "draw")
	p.Until(`document.querySelector('#detail-title').textContent === 'draw' && location.search.includes('item=tool%2Fdraw')`)
	key(p, "rail-list", "ArrowUp") // to the group, by keyboard
	key(p, "rail-list", "ArrowLeft")
	until(`server-0003|Tools|Prompts|Resources|file:///a/b/|file:///a/b/c/|file:///a/b/9.md|file:///a/b/10.md|file:///other/alone.md|file:///top.md|Templates|Skills`)
	p.Click("#collapse-all")
	until(`server-0003`)
	// A filter finds things of every kind by name, and shows what they are in.
	setInput(p, "rail-filter", "c/2.md")
	until(`server-0003|Resources|file:///a/b/|file:///a/b/c/|file:///a/b/c/2.md`)
	setInput(p, "rail-filter", "search orders")
	until(`server-0002|search`)
	// A link opens what it is in.
	p.Run(`history.pushState(null, '', '/?server=server-0003&uri=file:///a/b/c/2.md'); dispatchEvent(new PopStateEvent('popstate'))`)
	p.Until(`document.querySelector('#rail-list .row[aria-selected=true]')?.title === 'file:///a/b/c/2.md' && document.querySelector('#detail-title').textContent === '2.md'`)
}

// TestRealItem: a server with only tools opens at them. The page of a tool has its schema as a table, what it says about
// itself, its versions with their differences, and its calls; a prompt has its arguments.
func TestRealItem(t *testing.T) {
	p := openOffering(t, "?server=server-0002")
	body := `document.querySelector('#detail-body').innerText`
	p.Until(`document.querySelector('#tab-tools').ariaSelected === 'true' && ` + body + `.includes('Finds <b>orders</b>.')`)
	p.Run(`[...document.querySelectorAll('#detail-body .items .link')].find((b) => b.textContent === 'search').click()`)
	p.Until(`document.querySelector('#detail-meta').textContent === 'server-0002 · tool · Search orders · destructive · closed world'`)
	p.Until(fmt.Sprintf(`[...document.querySelectorAll('.schema tbody tr')].map((r) => [...r.children].map((c) => c.textContent).join('|')).join('\n') === %q`,
		`customer|string|yes||length at least 1|Who\u202e
limit|integer||10|1 to 50|
status|string|||open, paid|
range|object||||
range.from|string|yes||date|
lines|array of object||||
lines[].sku|string||||
chain|object||||
chain.next|object||||
chain.depth|integer||||
by|object||||
by: choice 1 of 2|||||Name
by.name|me||||
by: choice 2 of 2|||||Number
by.number|integer or null||||
odd|any||||
__proto__|boolean||||`))
	readable(p, "detail", "rail")
	if bad := p.Axe(); bad != "" {
		t.Error(bad)
	}
	// References that fan out without end leave something out, and do not hold up the page.
	if more := p.String(`import('/assets/schema.js').then(({ schemaTable }) => {
		const all = Array(50).fill({ $ref: '#/$defs/a' }), one = { properties: { x: { oneOf: all }, y: { $ref: '#/$defs/a' } } };
		const many = { allOf: Array(40).fill({ $ref: '#/$defs/b' }) }, required = Array.from({ length: 1000 }, (_, i) => 'r' + i);
		return [{ ...one, $defs: { a: { allOf: all, anyOf: all, ...one } } }, { allOf: all.slice(10), properties: { x: {} }, $defs: { a: many, b: { required } } }]
			.map((s) => schemaTable(s, '').querySelector('tbody tr:last-child').textContent).join();
	})`); more != "…The definition has more.,…The definition has more." {
		t.Error(more)
	}
	p.Click("#tab-changes")
	p.Until(`[...document.querySelectorAll('#detail-body details')].map((d) => d.open).join() === 'true,false' && document.querySelector('#detail-body .del .code').textContent.includes('Finds.')`)
	p.Click("#tab-calls")
	p.Until(body + `.replace(/\s+/g, ' ').includes('41 calls 20 ms p50 38 ms p95 1 error')`)
	p.Until(`document.querySelector('#tab-calls').textContent === 'Calls (41)' && ` + body + `.includes('error -32602')`)
	// A call in the drawer leads to its tool.
	p.Click("#open-calls")
	p.Until(`(() => { const row = [...document.querySelectorAll('#calls-list .row')].find((r) => r.textContent.includes('report_1')); row?.click(); return Boolean(row); })()`)
	p.Until(`document.querySelector('#detail-title').textContent === 'report_1' && ` + body + `.replace(/\s+/g, ' ').includes('1 call')`)
	// Jump finds prompts, and says on which server.
	p.Resize(1024, 768)
	p.Until(`document.querySelector('#open-jump').checkVisibility()`)
	p.Click("#open-jump")
	p.Run(`document.querySelector('#jump-text').value = 'greet'; document.querySelector('#jump-text').oninput()`)
	p.Until(`document.querySelector('#jump-list .row').textContent === 'promptgreetserver-0003'`)
	p.Click("#jump-list .row")
	p.Until(`document.querySelector('#detail-title').textContent === 'greet' && document.querySelector('.schema tbody').innerText.replace(/\s+/g, ' ') === 'who yes Whom to greet'`)
}

// TestRealStateOfALongName: the state of a server with a long name is readable on every screen, and so is the type of its
// events, and the name shows its end.
func TestRealStateOfALongName(t *testing.T) {
	snap := world(3, 1)
	const long = "unreachable-production-search-cluster-eu-west"
	snap.Servers[1].ID = long
	_, d, store := stored(t, fixed(snap))
	store(long, "", event.ServerState{State: event.Backoff, Error: "connect: refused"})
	m := new(calls.Memory)
	m.Add(calls.Call{Client: "zed", ServerID: long, Tool: "search_all_the_orders_of_a_customer", Outcome: calls.ToolError})
	d.opts.Calls = m.Read
	s := serve(t, d, map[string]http.Handler{"GET /events": newStream()})
	p := chromium.Open(t, 1440, 900)
	p.Hurry()
	p.Go(s.URL)
	whole := func(e string) {
		t.Helper()
		p.Until(`(() => { const e = ` + e + `, row = e?.closest('.row').getBoundingClientRect(); return e?.scrollWidth <= e?.clientWidth + 1 && e.getBoundingClientRect().right <= row.right; })()`)
	}
	for _, width := range []int64{1440, 1024, 390} {
		p.Resize(width, 800)
		view := func(name string) {
			if width == 390 {
				p.Click(`nav [data-view="` + name + `"]`)
			}
		}
		view("rail")
		whole(`document.querySelector('#rail-list .fixed.bad')`)
		whole(`document.querySelector('#rail-list .row .tail')`)
		view("feed")
		whole(`document.querySelector('#feed-list .row .verb')`)
		p.Click("#open-calls")
		whole(`document.querySelector('#calls-list .row .verb')`)
		p.Click("#open-calls")
	}
}
