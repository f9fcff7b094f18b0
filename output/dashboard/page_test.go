package dashboard

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/output/internal/browsertest"
	"github.com/mcptrack/mcptrack/output/serverlog"
	"github.com/mcptrack/mcptrack/output/webhook"
)

// failing is a world whose second server has an error of several lines, with tools.
func failing() *status.Snapshot {
	snap := world(5, 60)
	s := &snap.Servers[1]
	s.Error = "connect: " + strings.Repeat("long ", 50) + "end of the error"
	tool, _ := catalog.NewItem(catalog.Tools, []byte(`{"name":"search","title":"Search notes","description":"Finds notes.","inputSchema":{"type":"object","properties":{"query":{"type":"string"}}}}`))
	s.Lists = map[catalog.Kind]catalog.List{catalog.Tools: catalog.NewList([]catalog.Item{tool})}
	snap.Servers[2].State, snap.Servers[2].Reason = event.Backoff, "disconnected"
	return snap
}

// openPage opens the page of a dashboard with a log and a live stream.
func openPage(t *testing.T, query string) (browsertest.Tab, *stream) {
	t.Helper()
	_, d, store := stored(t, fixed(failing()))
	d.opts.Webhooks = func(*http.Request) []webhook.EndpointStatus {
		return []webhook.EndpointStatus{{Host: "app.example", Format: "slack", State: webhook.Active, Delivered: 12}, {Host: "dead.example", Format: "standard", State: webhook.Failing, LastError: webhook.Timeout, LagMs: 5000}}
	}
	d.opts.Deliveries = func() []webhook.Deliverer {
		return []webhook.Deliverer{{Source: webhook.FromConfig, Process: "host:1", Own: true}, {Source: webhook.FromSubscription}}
	}
	store("server-0001", "", event.ServerState{State: event.Connecting})
	store("server-0001", "", event.ListChanged{List: catalog.Tools, Added: []string{"search"}})
	store("server-0001", "", event.ServerState{State: event.Backoff, Error: "connect: refused"})
	store("server-0000", "file:///00001.md", event.ResourceUpdated{Digest: catalog.Digest{1, 1}})
	kept := serverlog.New()
	d.opts.Log = kept.Lines
	for i := range 60 {
		slog.New(kept).Debug("stderr", "server", "server-0001", "line", fmt.Sprint("line ", i, evil))
	}
	live := newStream()
	s := serve(t, d, map[string]http.Handler{"GET /events": live, "GET /more": http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, _ := url.QueryUnescape(r.URL.RawQuery)
		slog.New(kept).Warn(text, "server", "server-0001")
	})})
	p := chromium.Open(t, 1280, 800)
	p.Hurry()
	p.Go(s.URL + "/" + query)
	p.Until(`document.querySelector('#tiles').textContent.includes('3 of 5 ready') && document.querySelector('#link').textContent === 'live'`)
	return p, live
}

// TestRealPage: what the page of several servers shows, and how it is used. All begins with one page, as
// loading it takes most of the time.
func TestRealPage(t *testing.T) {
	page, live := openPage(t, "?server=server-0004")
	// A server that is selected with the mouse opens while the mouse is still
	// over the rail.
	t.Run("selected with the mouse", func(t *testing.T) {
		p := page.In(t)
		p.Until(`document.querySelectorAll('#rail-list .row').length === 7`) // 5 servers, 2 errors
		p.Run(`document.querySelector('#rail-list').dispatchEvent(new PointerEvent('pointerenter', { pointerType: 'mouse' }))`)
		pick(p, "server-0000, ready, 60 resources")
		p.Until(`document.querySelector('#rail-list').textContent.includes('00001.md')`)
	})
	// A server's page has its whole error, timeline and tools.
	t.Run("server", func(t *testing.T) {
		p := page.In(t)
		visit(p, "?server=server-0001")
		p.Until(`document.querySelector('#detail-body').innerText.includes('end of the error')`)
		p.Click("#tab-timeline")
		p.Until(`document.querySelector('#detail-body').innerText.includes('retrying · connect: refused') && document.querySelectorAll('#detail-body time[title]').length === 3`)
		p.Click("#tab-tools")
		p.Until(`document.querySelector('#detail-body').innerText.includes('Finds notes.') && document.querySelector('#detail-body').innerText.includes('1 change, the last')`)
		p.Run(`document.querySelector('#detail-body .items .link').click()`)
		p.Until(`document.querySelector('#detail-title').textContent === 'search' && document.querySelector('#detail-body .schema').innerText.includes('query')`)
	})
	// The page of a server shows what was logged about it and what it wrote to
	// stderr, as text; new lines come into view, until somebody scrolls up.
	t.Run("log", func(t *testing.T) {
		p := page.In(t)
		visit(p, "?server=server-0001&tab=log")
		const body = `document.querySelector('#detail-body')`
		const atEnd = body + `.scrollHeight - ` + body + `.scrollTop - ` + body + `.clientHeight < 8`
		p.Until(body + `.innerText.includes('stderr line 59<img') && ` + atEnd)
		p.Until(`document.querySelectorAll('#detail-body img, #detail-body b').length === 0 && !/[\u202e\u001b]/.test(document.body.textContent)`)
		more := func(text string) {
			t.Helper()
			p.Run(`fetch('/more?' + encodeURIComponent('` + text + `'))`)
			p.Until(body + `.innerText.includes('` + text + `')`)
		}
		more("one more")
		p.Until(atEnd)
		p.Run(body + `.scrollTop = 0`)
		more("another one")
		p.Until(body + `.scrollTop === 0`)
		p.Click("#tab-overview")
		p.Click("#tab-log")
		p.Until(atEnd)
		visit(p, "?server=server-0004&tab=log")
		p.Until(body + `.innerText.includes('wrote nothing to stderr')`)
	})
	// Every word of a state and of an error finds its server, a URI finds its resource, and
	// an empty list says why and what to do.
	t.Run("filters", func(t *testing.T) {
		p := page.In(t)
		visit(p, "")
		for _, c := range [][2]string{{"disconnected", "server-0002"}, {"retrying", "server-0001"}, {"end of the error", "server-0001"}, {"00042.md", "server-0000"}} {
			setInput(p, "rail-filter", c[0])
			p.Until(fmt.Sprintf(`document.querySelector('#rail-list .row .name')?.textContent === %q`, c[1]))
		}
		p.Until(`document.querySelectorAll('#rail-list .row').length === 2`)
		setInput(p, "rail-filter", "nothing like it")
		p.Until(`document.querySelector('#rail .empty').innerText.includes('Nothing matches “nothing like it”.')`)
		p.Click("#rail .empty button")
		p.Until(`document.querySelector('#rail-filter').value === '' && document.querySelectorAll('#rail-list .row').length >= 7`) // 5 servers, 2 errors
		setInput(p, "feed-filter", "qqq")
		p.Until(`document.querySelector('#feed .empty').innerText.includes('No event matches “qqq”.')`)
	})
	// The page begins with stored events, which open, and its chart covers the log
	// and is the filter by time. Without a connection everything is greyed.
	t.Run("events and chart", func(t *testing.T) {
		p := page.In(t)
		visit(p, "")
		rows := func(n int) {
			t.Helper()
			p.Until(fmt.Sprintf(`document.querySelectorAll('#feed-list .row').length === %d`, n))
		}
		rows(3) // that it was connecting is folded
		p.Until(`document.querySelector('#chart path').getAttribute('d').includes('v-') && document.querySelector('#chart-title').textContent === 'Events per 5 s · 4 in all'`)
		p.Until(`[...document.querySelectorAll('section')].every((e) => e.scrollHeight <= e.clientHeight)`) // nothing overflows
		p.Until(`document.querySelector('#webhooks-summary').innerText === '2 webhooks · 1 failing' && document.querySelector('#webhook-list').textContent === 'webhooks of the configsent by host:1, this processsubscriptions of clientsno process sends themdead.examplefailing · standard · 0 delivered · timeout · 5 s behindapp.exampleactive · slack · 12 delivered'`)
		setInput(p, "chart-range", "3600")
		p.Until(`/^Events per (?!5 s).* · 4 in all$/.test(document.querySelector('#chart-title').textContent)`) // the other chart
		// Dragging over the old half hides what happened just now; the button shows it again.
		drag := func(from, to float64) {
			t.Helper()
			p.Run(fmt.Sprintf(`(() => {
				const area = document.querySelector('#chart .area'), box = area.getBoundingClientRect();
				const act = (type, at) => area.dispatchEvent(new PointerEvent(type, { clientX: box.left + at * box.width, clientY: box.top + 5, bubbles: true }));
				act('pointermove', %[1]g); act('pointerdown', %[1]g); act('pointermove', %[2]g); act('pointerup', %[2]g);
			})()`, from, to))
		}
		drag(.1, .5)
		p.Until(`document.querySelector('#feed .empty').innerText.includes('No event is known from this time.') && location.search.includes('after=') && !document.querySelector('#chart-clear').hidden`)
		p.Click("#chart-clear")
		rows(3)
		p.Until(`document.querySelector('#chart-clear').hidden`)
		p.Until(`(() => { // by keyboard, to the last bar with events
			const found = document.querySelectorAll('#feed-list .row').length;
			if (!document.querySelector('#chart-clear').hidden && found > 0 && found <= 3) return true;
			document.querySelector('#chart-plot').dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowLeft', bubbles: true }));
			return false;
		})()`)
		p.Run(`document.querySelector('#chart-plot').dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true }))`)
		p.Until(`document.querySelector('#chart-clear').hidden`)
		p.Until(`(() => { const found = [...document.querySelectorAll('#feed-list .row')].find((r) => r.textContent.includes('retrying')); found?.click(); return !!found; })()`)
		p.Until(`document.querySelector('#detail-title').textContent === 'server-0001' && document.querySelector('#tab-timeline').getAttribute('aria-selected') === 'true'`)
		live.restart(true)
		p.Until(`getComputedStyle(document.querySelector('main')).filter === 'grayscale(1)'`)
		live.restart(false)
		p.Until(`getComputedStyle(document.querySelector('main')).filter === 'none'`)
	})
	// A link to something that is gone says what is wrong, and what to do.
	t.Run("dead links", func(t *testing.T) {
		p := page.In(t)
		visit(p, "?server=nobody")
		says := func(query, want string) {
			t.Helper()
			if query != "" {
				p.Run(fmt.Sprintf(`window.old = true; location.assign('/%s')`, query))
			}
			p.Until(fmt.Sprintf(`!window.old && document.querySelector('#detail-body').innerText.includes(%q)`, want))
		}
		says("", "There is no server with this name.")
		says("?server=nobody&uri=file:///x", "There is no server with this name.")
		says("?server=server-0000&uri=file:///x", "This resource is not followed")
		says("?event=ab-99", "not among the newest")
		says("?server=server-0000&uri=file:///00001.md&to=ab-77", "The version of this link is no longer stored.")
		p.Click("#follow")
		p.Until(`document.querySelector('#follow').textContent === 'Following newest' && location.search === ''`)
	})
	// What is shown survives a reload, and the back button works.
	t.Run("state in the URL", func(t *testing.T) {
		p := page.In(t)
		visit(p, "?server=server-0000&uri=file%3A%2F%2F%2F00002.md&tab=history&filter=0000")
		shown := `document.querySelector('#detail-title').textContent === '00002.md' && document.querySelector('#tab-history')?.getAttribute('aria-selected') === 'true' &&
			document.querySelector('#rail-filter').value === '0000' && document.querySelectorAll('#rail-list .row').length > 10`
		p.Until(shown)
		reload(p)
		p.Until(shown)
		// Another server does not leave the resource of the old one behind.
		setInput(p, "rail-filter", "")
		pick(p, "server-0002, retrying, disconnected")
		p.Until(`document.querySelector('#detail-title').textContent === 'server-0002' && new URLSearchParams(location.search).get('uri') === null`)
		p.Run(`history.back()`)
		p.Until(`document.querySelector('#detail-title').textContent === '00002.md'`)
	})
	// The feed is folded and resized by keyboard, and the page remembers it.
	t.Run("feed folded", func(t *testing.T) {
		p := page.In(t)
		visit(p, "")
		height := `document.querySelector('#feed').getBoundingClientRect().height`
		p.Run(`window.was = ` + height)
		p.Run(`document.querySelector('#resize').dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowUp', bubbles: true }))`)
		p.Until(height + ` > window.was + 20`)
		p.Click("#collapse")
		p.Until(height + ` < 80 && !document.querySelector('#feed-list').checkVisibility()`)
		reload(p)
		p.Until(height + ` < 80 && document.querySelector('#collapse').getAttribute('aria-expanded') === 'false'`)
	})
	// A paused feed stands still and counts what came in.
	t.Run("feed paused", func(t *testing.T) {
		p := page.In(t)
		visit(p, "")
		p.Until(`document.querySelectorAll('#feed-list .row').length === 3`)
		p.Click("#pause")
		for seq := range uint64(2) {
			live.say <- wire(t, event.Event{ID: event.FormatID("00000000000000ab", 10+seq), Seq: 10 + seq, ServerID: "server-0003", Timestamp: time.Now(), Payload: event.ServerState{State: event.NeedsAuth, Error: fmt.Sprint("no ", seq)}})
		}
		p.Until(`document.querySelector('#pause').textContent === 'Resume (2 new)' && document.querySelectorAll('#feed-list .row').length === 3`)
		p.Click("#pause")
		p.Until(`document.querySelector('#pause').textContent === 'Pause' && document.querySelector('#feed-list .row').textContent.includes('needs login')`)
		p.Until(`document.querySelector('#feed-list .row').textContent.includes('×2')`) // the same state twice is one row
	})
	// A link whose numbers are none shows the page.
	t.Run("mistyped links", func(t *testing.T) {
		p := page.In(t)
		p.Resize(390, 844)
		visit(p, "?after=abc&before=999999999999999999&range=x&view=nothing")
		p.Until(`document.querySelector('#detail').checkVisibility() && document.querySelector('#chart-range').value === ''`)
		p.Click(`nav [data-view="feed"]`)
		p.Until(`document.querySelectorAll('#feed-list .row').length >= 3 && document.querySelector('#chart-title').textContent !== ''`)
	})
	// A tap opens the detail in view, and everything to tap is large enough.
	t.Run("phone", func(t *testing.T) {
		p := page.In(t)
		p.Resize(390, 844)
		visit(p, "?view=rail")
		p.Until(`document.querySelector('#rail-list').checkVisibility() && !document.querySelector('#detail').checkVisibility()`)
		const small = `[...document.querySelectorAll('button, input, select, .row, summary')].filter((e) => e.checkVisibility() && e.getBoundingClientRect().height < 44).map((e) => e.outerHTML).join()`
		p.Until(small + ` === ''`)
		pick(p, "server-0000, ready, 60 resources")
		p.Until(`document.querySelector('#detail').checkVisibility() && document.querySelector('#detail-title').getBoundingClientRect().top < 250 && document.querySelector('#detail-title').textContent === 'server-0000'`)
		for _, view := range []string{"detail", "feed", "rail"} {
			p.Click(`nav [data-view="` + view + `"]`)
			p.Until(`document.querySelector('#` + view + `').checkVisibility() && document.documentElement.scrollWidth <= 390 && document.documentElement.scrollHeight <= 844`)
			p.Until(small + ` === ''`)
		}
		pick(p, "file:///00001.md")
		p.Until(`document.querySelector('#detail').checkVisibility() && document.querySelector('#detail-body').textContent.includes('first line')`)
		p.Until(`document.documentElement.scrollWidth <= 390`)
		p.Until(small + ` === ''`)
	})
	// axe-core finds no violation on any page, tab and screen.
	t.Run("accessibility", func(t *testing.T) {
		p := page.In(t)
		for _, c := range []struct {
			query string
			width int64
		}{
			{"", 1280}, {"?server=server-0001", 1280}, {"?server=server-0001&tab=timeline", 1280}, {"?server=server-0001&tab=tools", 1280},
			{"?server=server-0001&tab=log", 1280}, {"?server=server-0001&item=tool/search", 1280}, {"?server=server-0001&item=tool/search&tab=changes", 390}, {"?server=nobody", 1280}, {"?server=server-0000&uri=file:///00001.md", 1280},
			{"?server=server-0000&uri=file:///00001.md&tab=rendered", 1280}, {"?server=server-0000&uri=file:///00001.md&tab=diff", 1280},
			{"?server=server-0000&uri=file:///00001.md&tab=history", 1280}, {"?filter=nothing&efilter=nothing", 1280},
			{"?view=rail", 390}, {"?view=feed", 390}, {"?server=server-0001", 390}, {"#help", 1280}, {"#jump", 1280},
		} {
			p.Resize(c.width, 800)
			visit(p, c.query)
			dialog, opens := strings.CutPrefix(c.query, "#")
			if opens {
				p.Click("#open-" + dialog)
				p.Until(`document.querySelector('#` + dialog + `').open`)
			}
			p.Until(`document.querySelector('#link').textContent === 'live'`)
			if found := p.Axe(); found != "" {
				t.Errorf("%q has violations:\n%s", c.query, found)
			}
			if opens {
				p.Run(`document.querySelector('#` + dialog + `').close()`)
			}
		}
	})
}

// visit shows what a link would, without loading the page again.
func visit(p browsertest.Tab, query string) {
	p.T.Helper()
	p.Run(fmt.Sprintf(`history.pushState(null, '', '/' + %q); dispatchEvent(new PopStateEvent('popstate'))`, query))
}

// TestAssets: a browser loads at most 80 KB, and a client that does not know gzip gets the files as they are.
func TestAssets(t *testing.T) {
	d := New(Options{Snapshot: fixed(failing())})
	get := func(name, encoding string) *httptest.ResponseRecorder {
		r, w := httptest.NewRequest(http.MethodGet, "/assets/"+name, nil), httptest.NewRecorder()
		r.Header.Set("Accept-Encoding", encoding)
		d.Routes()["GET /assets/"].ServeHTTP(w, r)
		return w
	}
	size := 0
	err := fs.WalkDir(files, "assets", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		whole, err := files.ReadFile(path)
		if e.Name() == "index.html" { // served as /, not compressed
			size += len(whole)
			return err
		}
		small, plain := get(e.Name(), "gzip, br"), get(e.Name(), "identity")
		size += small.Body.Len()
		z, bad := gzip.NewReader(small.Body)
		if bad != nil || small.Header().Get("Content-Encoding") != "gzip" || small.Header().Get("Content-Type") != plain.Header().Get("Content-Type") {
			t.Fatal(path, bad, small.Header())
		}
		if unpacked, _ := io.ReadAll(z); !bytes.Equal(unpacked, whole) || !bytes.Equal(plain.Body.Bytes(), whole) || plain.Header().Get("Content-Encoding") != "" {
			t.Errorf("%s is not served as it is", path)
		}
		return err
	})
	if err != nil || size > 80_000 {
		t.Errorf("%d bytes, %v", size, err)
	}
}
