package dashboard

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// rendering counts, from now on, the nodes that are added below an element, and the tasks
// in which they are.
const rendering = `window.rendered = (id) => {
  const out = { tasks: 0, nodes: 0 };
  out.observer = new MutationObserver((records) => {
    out.tasks++;
    for (const r of records) for (const n of r.addedNodes) out.nodes += 1 + (n.querySelectorAll?.('*').length || 0);
  });
  out.observer.observe(document.getElementById(id) || document.body, { childList: true, subtree: true });
  out.began = performance.now();
  return out;
}`

// TestRealManyThings: with 1,000 servers and 10,000 resources, what is typed, scrolled or
// chosen renders only rows that can be seen, and every row knows its place among all.
func TestRealManyThings(t *testing.T) {
	live := newStream()
	s := serve(t, New(Options{Version: "1.2.3", Snapshot: fixed(world(1000, 10_000))}), map[string]http.Handler{"GET /events": live})
	p := chromium.Open(t, 1280, 800)
	p.Go(s.URL + "/?server=server-0000")
	place := func(list, row, posinset, setsize string) {
		t.Helper()
		p.Until(fmt.Sprintf(`(() => {
			const row = document.querySelector('#%s .row%s');
			return row?.getAttribute('aria-posinset') === '%s' && row.getAttribute('aria-setsize') === '%s';
		})()`, list, row, posinset, setsize))
	}
	place("rail-list", "", "1", "11001") // with the error of one server
	p.Until(`document.querySelector('#detail-title').textContent === 'server-0000'`)
	p.Run(rendering)
	const few = 1500 // nodes; 10,000 rows have more than 50,000
	acts := 0
	act := func(what, script string) {
		t.Helper()
		acts++
		nodes := p.Number(`(async () => {
			const $ = (id) => document.getElementById(id), seen = rendered();
			` + script + `
			await new Promise((done) => setTimeout(done)); // after the observer
			seen.observer.disconnect();
			return seen.nodes;
		})()`)
		if nodes == 0 || nodes > few {
			t.Errorf("%s renders %.0f nodes", what, nodes)
		}
	}
	act("a filter", `$('rail-filter').value = '0009'; $('rail-filter').oninput()`)
	place("rail-list", "", "1", "13") // server-0000 with 00009 and 00090 to 00099, and server-0009
	act("no filter", `$('rail-filter').value = ''; $('rail-filter').oninput()`)
	act("scrolling", `$('rail-list').scrollTop = 200000; $('rail-list').dispatchEvent(new Event('scroll'))`)
	act("End", `$('rail-list').dispatchEvent(new KeyboardEvent('keydown', { key: 'End', bubbles: true }))`)
	place("rail-list", "[aria-selected=true]", "11001", "11001")
	act("PageUp", `$('rail-list').dispatchEvent(new KeyboardEvent('keydown', { key: 'PageUp', bubbles: true }))`)
	act("Home", `$('rail-list').dispatchEvent(new KeyboardEvent('keydown', { key: 'Home', bubbles: true }))`)
	place("rail-list", "[aria-selected=true]", "1", "11001")
	if rows := p.Number(`document.querySelectorAll('.row').length`); rows < 10 || rows > 100 {
		t.Errorf("%.0f rows for 11,000 things", rows)
	}
}

// TestRealFlood: a flood of events is drawn at most five times a second and a screen of rows
// each time, whatever comes in; the newest 5,000 are kept, those of a burst in one row; and what is shown of a resource
// that changes with every event is requested once at a time, however slow the answers.
func TestRealFlood(t *testing.T) {
	_, d, _ := stored(t, fixed(world(12, 60)))
	live := newStream()
	s := serve(t, d, map[string]http.Handler{"GET /events": live})
	p := chromium.Open(t, 1280, 800)
	p.Go(s.URL + "/?server=server-0000&uri=file:///00001.md")
	p.Until(`document.querySelector('#detail-body').textContent.includes('first line') && document.querySelector('#link').textContent === 'live'`)
	p.Run(rendering)
	p.Run(`window.feed = rendered('feed-list'); window.asked = { now: 0, most: 0, all: 0 };
		const plain = fetch;
		window.fetch = async (url, ...more) => {
			if (!String(url).includes('/content')) return plain(url, ...more);
			asked.all++;
			asked.most = Math.max(asked.most, ++asked.now);
			// An answer takes as long as three draws, or until the flood is over.
			for (const from = feed.tasks; feed.tasks < from + 3 && !window.over; ) await new Promise((done) => setTimeout(done, 50));
			asked.now--;
			return plain(url, ...more);
		}`)
	const n = 6000
	for from := 0; from < n; from += 500 {
		var text strings.Builder
		for i := from + 1; i <= from+500; i++ {
			fmt.Fprintf(&text, "id: ab-%d\ndata: {\"id\":\"ab-%d\",\"type\":\"resource.updated\",\"serverId\":\"server-0000\",\"resourceUri\":\"file:///%05d.md\",\"timestamp\":\"2026-11-20T19:37:25.000Z\",\"size\":%d}\n\n", i, i, 1+i%2*i, i)
		}
		live.say <- text.String()
		p.Until(fmt.Sprintf(`document.querySelector('#feed-list .row')?.getAttribute('aria-setsize') >= %d`, min(from+500, 5000)/2+1))
	}
	p.Until(`document.querySelector('#feed-list .row').getAttribute('aria-setsize') === '2501' && asked.all > 0`)
	p.Run(`window.over = true`)
	draws, nodes := p.Number(`feed.tasks`), p.Number(`feed.nodes`)
	if most := p.Number(`(performance.now() - feed.began) / 195 + 1`); draws == 0 || draws > most {
		t.Errorf("drawn %.0f times, at most %.0f are five times a second", draws, most)
	}
	if nodes/draws > 500 {
		t.Errorf("%.0f nodes are rendered each time", nodes/draws)
	}
	if most := p.Number(`asked.most`); most != 1 {
		t.Errorf("the content is requested %.0f times at a time", most)
	}
	p.Until(`asked.now === 0`) // the last event is followed by a request
}
