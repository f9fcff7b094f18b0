package dashboard

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/mcptrack/mcptrack/core/tracker"
)

// unreadable returns the visible texts whose contrast is less than the 4.5:1 of
// WCAG 2.2 AA (1.4.3).
const unreadable = `(() => {
  const parse = (c) => (c.match(/[\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] === 1) return c;
    }
    return [255, 255, 255];
  };
  const bad = new Set();
  let seen = 0;
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own && !e.placeholder || !e.checkVisibility()) continue;
    seen++;
    for (const color of [own && getComputedStyle(e).color, e.placeholder && getComputedStyle(e, '::placeholder').color]) {
      if (!color) continue;
      const [a, b] = [light(parse(color)), light(behind(e))].sort((x, y) => y - x);
      const ratio = (a + .05) / (b + .05);
      if (ratio < 4.5) bad.add(ratio.toFixed(2) + ' ' + e.tagName + ' ' + e.className + ' ' + color + ' ' + (e.textContent || e.placeholder).slice(0, 30));
    }
  }
  if (seen < 12) bad.add('only ' + seen + ' texts');
  return [...bad].join('\n');
})()`

// TestReadable: in both colour schemes all texts have enough contrast, and nothing is
// wider than the screen, which shows one view at a time on a phone.
func TestReadable(t *testing.T) {
	for scheme, setting := range map[string]string{"dark": "0", "light": "1"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			var changed atomic.Bool
			var streams atomic.Int64
			s := serve(t, New(Options{Version: "1.2.3", Snapshot: func() *tracker.Snapshot {
				snap := world()
				if changed.Load() {
					text := "# Page 1\n\nsecond line\n"
					snap.Servers[0].Resources[1].Text = &text
					snap.Servers[0].Resources[1].Digest[1] = 2
				}
				return snap
			}}), map[string]http.Handler{"GET /events": events(&streams)})
			p := tabPage{t, browser(t, 1280, 800, chromedp.Flag("blink-settings", "preferredColorScheme="+setting))}
			p.open(s.URL + "/?server=server-0000")
			p.until(`matchMedia('(prefers-color-scheme: ` + scheme + `)').matches`)
			p.until(`document.querySelectorAll('#resource-list .row').length > 3`)
			p.key("resource-list", "Home")
			p.key("resource-list", "ArrowDown")
			p.until(`document.querySelector('#detail-body').textContent.includes('first line')`)
			changed.Store(true)
			p.click("#tab-diff")
			p.until(`document.querySelectorAll('#detail-body .add').length > 0 && document.querySelectorAll('#feed-list .row').length > 2`)
			// Hidden characters of names are escaped.
			p.until(`document.querySelector('#resource-list').textContent.includes('\\u202e\\u001b[31m')`)
			p.until(`!/[\u202e\u001b]/.test(document.body.textContent)`)
			for _, screen := range []struct {
				name          string
				width, height int64
			}{{"desk", 1280, 800}, {"phone", 390, 844}, {"tablet", 820, 1180}} {
				if err := chromedp.Do(p.ctx, chromedp.EmulateViewport(screen.width, screen.height)); err != nil {
					t.Fatal(err)
				}
				views := []string{"servers", "resources", "detail", "feed"}
				if screen.name == "desk" {
					views = views[:1] // all are visible
				}
				for _, view := range views {
					if screen.name != "desk" {
						p.click(`nav [data-view="` + view + `"]`)
					}
					p.until(`document.documentElement.scrollWidth <= innerWidth`)
					p.screenshot(scheme + "-" + screen.name + "-" + view)
					bad, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](unreadable))
					if err != nil {
						t.Fatal(err)
					}
					if bad != "" {
						t.Errorf("on a %s these are hard to read in %s:\n%s", screen.name, view, bad)
					}
				}
			}
		})
	}
}

// TestManyThings: with 1,000 servers, 10,000 resources and continuous events, the page
// reacts within about a tenth of a second and leaves most of the time to the browser.
func TestManyThings(t *testing.T) {
	var streams atomic.Int64
	s := serve(t, New(Options{Version: "1.2.3", Snapshot: world}), map[string]http.Handler{"GET /events": events(&streams)})
	p := tabPage{t, browser(t, 1280, 800)}
	p.open(s.URL + "/?server=server-0000")
	p.until(`document.querySelectorAll('#resource-list .row').length > 3 && document.querySelectorAll('#feed-list .row').length > 2`)
	got, err := chromedp.Run(p.ctx, chromedp.Evaluate[map[string]float64](`(async () => {
		const $ = (id) => document.getElementById(id), out = {};
		const took = async (name, act) => {
			const all = [];
			for (let i = 0; i < 9; i++) {
				const began = performance.now();
				act(i);
				document.body.offsetHeight; // laid out
				all.push(performance.now() - began);
				await new Promise((done) => setTimeout(done, 20));
			}
			out[name] = all.sort((a, b) => a - b)[4];
		};
		await took('filter', (i) => { $('resource-filter').value = '0' + i; $('resource-filter').oninput(); });
		$('resource-filter').value = ''; $('resource-filter').oninput();
		await took('scroll', (i) => { $('resource-list').scrollTop = i * 40000; $('resource-list').dispatchEvent(new Event('scroll')); });
		await took('key', () => { $('server-list').dispatchEvent(new KeyboardEvent('keydown', { key: 'PageDown', bubbles: true })); });
		$('server-list').dispatchEvent(new KeyboardEvent('keydown', { key: 'Home', bubbles: true })); // has all resources
		let busy = 0;
		const watch = new PerformanceObserver((l) => { for (const e of l.getEntries()) busy += e.duration; });
		watch.observe({ type: 'longtask' });
		const began = performance.now();
		await new Promise((done) => setTimeout(done, 3000));
		watch.disconnect();
		out.busy = 100 * busy / (performance.now() - began);
		out.rows = document.querySelectorAll('.row').length;
		return out;
	})()`, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("median of 9, in ms, and %% of time in long tasks: %v", got)
	for _, act := range []string{"filter", "scroll", "key"} {
		if got[act] > 100 {
			t.Errorf("%s took %.0f ms", act, got[act])
		}
	}
	if got["busy"] > 40 || got["rows"] > 200 {
		t.Errorf("%.0f %% of the time is spent in long tasks, %.0f rows", got["busy"], got["rows"])
	}
}

// TestFlood: with 5,000 resources and 100 events per second the page stays smooth.
func TestFlood(t *testing.T) {
	flood := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := 1; ; i++ {
			select {
			case <-r.Context().Done():
				return
			case <-time.After(10 * time.Millisecond):
			}
			fmt.Fprintf(w, "id: ab-%d\nevent: resource.updated\ndata: {\"id\":\"ab-%d\",\"type\":\"resource.updated\",\"serverId\":\"server-0000\",\"resourceUri\":\"file:///0000%d.md\",\"timestamp\":%q}\n\n",
				i, i, i%10, time.Now().UTC().Format("2006-01-02T15:04:05.000Z"))
			_ = http.NewResponseController(w).Flush()
		}
	})
	snap := world()
	snap.Servers = snap.Servers[:12]
	snap.Servers[0].Resources = snap.Servers[0].Resources[:5000]
	_, d, _ := stored(t, func() *tracker.Snapshot { return snap })
	s := serve(t, d, map[string]http.Handler{"GET /events": flood})
	p := tabPage{t, browser(t, 1280, 800)}
	p.open(s.URL + "/?server=server-0000&uri=file:///00001.md")
	p.until(`document.querySelectorAll('#feed-list .row').length > 2`)
	got, err := chromedp.Run(p.ctx, chromedp.Evaluate[map[string]float64](`(async () => {
		let frames = 0, busy = 0;
		new PerformanceObserver((l) => { for (const e of l.getEntries()) busy += e.duration; }).observe({ type: 'longtask' });
		const end = performance.now() + 3000;
		await new Promise((done) => { const frame = (now) => { frames++; now < end ? requestAnimationFrame(frame) : done(); }; requestAnimationFrame(frame); });
		return { fps: frames / 3, busy: busy / 30 };
	})()`, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.0f frames per second, %.1f %% of the time in long tasks", got["fps"], got["busy"])
	if got["busy"] > 40 { // frames depend on the load of the machine, long tasks hardly
		t.Errorf("%.0f %% of the time is spent in long tasks", got["busy"])
	}
}
