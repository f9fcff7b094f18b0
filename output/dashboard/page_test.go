package dashboard

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
func openPage(t *testing.T, width, height int64, query string) (browsertest.Tab, *stream) {
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
	p := chromium.Open(t, width, height)
	p.Go(s.URL + "/" + query)
	p.Until(`document.querySelector('#tiles').textContent.includes('3 of 5 ready') && document.querySelector('#link').textContent === 'live'`)
	return p, live
}

// TestServerPage: a server's page has its whole error, timeline and tools.
func TestServerPage(t *testing.T) {
	p, _ := openPage(t, 1280, 800, "?server=server-0001")
	p.Until(`document.querySelector('#detail-body').innerText.includes('end of the error')`)
	p.Click("#tab-timeline")
	p.Until(`document.querySelector('#detail-body').innerText.includes('retrying · connect: refused') && document.querySelectorAll('#detail-body time[title]').length === 3`)
	p.Click("#tab-tools")
	p.Until(`document.querySelector('#detail-body').innerText.includes('search – Search notes') && document.querySelector('#detail-body').innerText.includes('1 change, the last')`)
	p.Run(`document.querySelectorAll('#detail-body details')[1].open = true`)
	p.Until(`document.querySelector('#detail-body').innerText.includes('"query"')`)
}

// TestServerLog: the page of a server shows what was logged about it and what it wrote to
// stderr, as text; new lines come into view, until somebody scrolls up.
func TestServerLog(t *testing.T) {
	p, _ := openPage(t, 1280, 800, "?server=server-0001&tab=log")
	const body = `document.querySelector('#detail-body')`
	const atEnd = body + `.scrollHeight - ` + body + `.scrollTop - ` + body + `.clientHeight < 8`
	p.Until(body + `.innerText.includes('stderr line 59<img') && ` + atEnd)
	p.Screenshot("log")
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
	pick(p, "server-0004, ready, 0 resources")
	p.Click("#tab-log")
	p.Until(body + `.innerText.includes('wrote nothing to stderr')`)
}

// TestStateIsInTheURL: what is shown survives a reload, and the back button works.
func TestStateIsInTheURL(t *testing.T) {
	p, _ := openPage(t, 1280, 800, "?server=server-0000&uri=file%3A%2F%2F%2F00002.md&tab=history&filter=0000")
	shown := `document.querySelector('#detail-title').textContent === '00002.md' && document.querySelector('#tab-history')?.getAttribute('aria-selected') === 'true' &&
		document.querySelector('#rail-filter').value === '0000' && document.querySelectorAll('#rail-list .row').length > 10`
	p.Until(shown)
	reload(p)
	p.Until(shown)
	// Another server does not leave the resource of the old one behind.
	setInput(p, "rail-filter", "")
	pick(p, "server-0002, retrying, disconnected, 0 resources")
	p.Until(`document.querySelector('#detail-title').textContent === 'server-0002' && new URLSearchParams(location.search).get('uri') === null`)
	p.Run(`history.back()`)
	p.Until(`document.querySelector('#detail-title').textContent === '00002.md'`)
}

// TestFilter: every word of a state and of an error finds its server, a URI finds its resource, and
// an empty list says why and what to do.
func TestFilter(t *testing.T) {
	p, _ := openPage(t, 1280, 800, "")
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
}

// TestDeadLinks: a link to something that is gone says what is wrong, and what to do.
func TestDeadLinks(t *testing.T) {
	p, _ := openPage(t, 1280, 800, "?server=nobody")
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
}

// TestEventsAndChart: the page begins with stored events, which open, and its chart covers the log
// and is the filter by time. Without a connection everything is greyed.
func TestEventsAndChart(t *testing.T) {
	p, live := openPage(t, 1280, 800, "")
	rows := func(n int) {
		t.Helper()
		p.Until(fmt.Sprintf(`document.querySelectorAll('#feed-list .row').length === %d`, n))
	}
	rows(3) // that it was connecting is folded
	p.Until(`document.querySelectorAll('#chart canvas').length === 1 && document.querySelector('#chart-title').textContent === 'Events per 5 s · 4 in all'`)
	p.Until(`[...document.querySelectorAll('section')].every((e) => e.scrollHeight <= e.clientHeight)`) // nothing overflows
	p.Until(`document.querySelector('#webhooks-summary').innerText === '2 webhooks · 1 failing' && document.querySelector('#webhook-list').textContent === 'webhooks of the configsent by host:1, this processsubscriptions of clientsno process sends themdead.examplefailing · standard · 0 delivered · timeout · 5 s behindapp.exampleactive · slack · 12 delivered'`)
	setInput(p, "chart-range", "3600")
	p.Until(`document.querySelector('#chart-title').textContent.endsWith('4 in all')`)
	// Dragging over the old half hides what happened just now; the button shows it again.
	drag := func(from, to float64) {
		t.Helper()
		p.Run(fmt.Sprintf(`(() => {
			const over = document.querySelector('.u-over'), box = over.getBoundingClientRect(), x = (part) => box.left + part * box.width, y = box.top + 5;
			const act = (target, type, at) => target.dispatchEvent(new MouseEvent(type, { clientX: x(at), clientY: y, bubbles: true, button: 0, buttons: 1, movementX: 9 }));
			act(over, 'mousemove', %[1]g); act(over, 'mousedown', %[1]g); act(over, 'mousemove', (%[1]g + %[2]g) / 2); act(over, 'mousemove', %[2]g); act(document, 'mouseup', %[2]g);
		})()`, from, to))
	}
	drag(.1, .5)
	p.Until(`document.querySelector('#feed .empty').innerText.includes('No event is known from this time.') && location.search.includes('after=') && !document.querySelector('#chart-clear').hidden`)
	p.Screenshot("time")
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
	p.Run(`[...document.querySelectorAll('#feed-list .row')].find((r) => r.textContent.includes('retrying')).click()`)
	p.Until(`document.querySelector('#detail-title').textContent === 'server-0001' && document.querySelector('#tab-timeline').getAttribute('aria-selected') === 'true'`)
	live.restart(true)
	p.Until(`getComputedStyle(document.querySelector('main')).filter === 'grayscale(1)'`)
	live.restart(false)
	p.Until(`getComputedStyle(document.querySelector('main')).filter === 'none'`)
}

// TestPhone: a tap opens the detail in view, and everything to tap is large enough.
func TestPhone(t *testing.T) {
	p, _ := openPage(t, 390, 844, "?view=rail")
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
}

// TestAccessibility: axe-core finds no violation on any page, tab and screen.
func TestAccessibility(t *testing.T) {
	axe, err := os.ReadFile(filepath.Join("..", "..", "testdata", "peers", "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("axe-core is not installed; scripts/check.sh installs it")
		}
		t.Skip("axe-core is not installed; scripts/check.sh installs it")
	}
	p, _ := openPage(t, 1280, 800, "")
	for _, page := range []struct {
		name, query   string
		width, height int64
	}{
		{"newest", "", 1280, 800}, {"server", "?server=server-0001", 1280, 800}, {"timeline", "?server=server-0001&tab=timeline", 1280, 800}, {"tools", "?server=server-0001&tab=tools", 1280, 800},
		{"log", "?server=server-0001&tab=log", 1280, 800}, {"dead link", "?server=nobody", 1280, 800},
		{"resource", "?server=server-0000&uri=file:///00001.md", 1280, 800}, {"rendered", "?server=server-0000&uri=file:///00001.md&tab=rendered", 1280, 800}, {"diff", "?server=server-0000&uri=file:///00001.md&tab=diff", 1280, 800},
		{"history", "?server=server-0000&uri=file:///00001.md&tab=history", 1280, 800}, {"nothing found", "?filter=nothing&efilter=nothing", 1280, 800},
		{"phone", "?view=rail", 390, 844}, {"phone feed", "?view=feed", 390, 844}, {"phone detail", "?server=server-0001", 390, 844},
		{"keys", "#help", 1280, 800}, {"jump", "#jump", 1280, 800},
	} {
		t.Run(page.name, func(t *testing.T) {
			p := p.In(t)
			p.Resize(page.width, page.height)
			p.Run(fmt.Sprintf(`window.old = true; location.assign('/%s')`, strings.Replace(page.query, "#", "?x=", 1)))
			p.Until(`!window.old && document.querySelector('#link').textContent === 'live' && document.querySelector('#tiles').textContent.includes('3 of 5 ready')`)
			p.Until(`document.querySelector('#chart-title').textContent !== ''`)
			if dialog, ok := strings.CutPrefix(page.query, "#"); ok {
				p.Click("#open-" + dialog)
				p.Until(`document.querySelector('#` + dialog + `').open`)
			}
			p.Run(string(axe))
			if found := p.String(`axe.run().then((r) => r.violations.map((v) => v.impact + ' ' + v.id + ': ' + v.nodes.map((n) => n.html).slice(0, 3).join(' | ')).join('\n'))`); found != "" {
				t.Errorf("violations:\n%s", found)
			}
		})
	}
}

// TestAssets: the page is at most 160 KB, and uPlot is the release that it says it is.
func TestAssets(t *testing.T) {
	var size int64
	err := fs.WalkDir(files, "assets", func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	if err != nil || size > 160_000 {
		t.Errorf("%d bytes, %v", size, err)
	}
	for name, want := range map[string]string{
		"uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
		"LICENSE":           "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
	} {
		data, err := files.ReadFile("assets/uplot/" + name)
		sum := sha256.Sum256(data)
		if got := hex.EncodeToString(sum[:]); err != nil || got != want {
			t.Errorf("%s is not of uPlot 1.6.32: %s, %v", name, got, err)
		}
	}
}
