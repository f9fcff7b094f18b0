package dashboard

import (
	"net/http"
	"sync/atomic"
	"testing"
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
	for _, scheme := range []string{"dark", "light"} {
		t.Run(scheme, func(t *testing.T) {
			var streams atomic.Int64
			d, change := changing(t)
			s := serve(t, d, map[string]http.Handler{"GET /events": events(&streams)})
			p := chromium.Open(t, 1280, 800)
			p.Scheme(scheme)
			p.Go(s.URL + "/?server=server-0000")
			p.Until(`matchMedia('(prefers-color-scheme: ` + scheme + `)').matches`)
			pick(p, "file:///00001.md")
			p.Until(`document.querySelector('#detail-body').textContent.includes('first line')`)
			change()
			p.Until(`document.querySelectorAll('#detail-body .add').length > 0 && document.querySelectorAll('#feed-list .row').length > 0`)
			// Hidden characters of names are escaped.
			p.Until(`document.querySelector('#rail-list').textContent.includes('\\u202e\\u001b[31m')`)
			p.Until(`!/[\u202e\u001b]/.test(document.body.textContent)`)
			for _, screen := range []struct {
				name          string
				width, height int64
			}{{"desk", 1280, 800}, {"phone", 390, 844}, {"tablet", 820, 1180}} {
				p.Resize(screen.width, screen.height)
				views := []string{"rail", "detail", "feed"}
				if screen.name == "desk" {
					views = views[:1] // all are visible
				}
				for _, view := range views {
					if screen.name != "desk" {
						p.Click(`nav [data-view="` + view + `"]`)
					}
					p.Until(`document.documentElement.scrollWidth <= innerWidth`)
					p.Screenshot(scheme + "-" + screen.name + "-" + view)
					if bad := p.String(unreadable); bad != "" {
						t.Errorf("on a %s these are hard to read in %s:\n%s", screen.name, view, bad)
					}
				}
			}
		})
	}
}
