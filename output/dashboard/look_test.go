package dashboard

import "github.com/mcptrack/mcptrack/output/internal/browsertest"

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

// readable fails the test if, in one of the colour schemes, a text has not enough contrast, or
// something is wider than the screen, which shows one view at a time on a phone.
func readable(p browsertest.Tab, views ...string) {
	p.T.Helper()
	for _, scheme := range []string{"dark", "light"} {
		p.Scheme(scheme)
		p.Until(`matchMedia('(prefers-color-scheme: ` + scheme + `)').matches && !document.querySelector('.settling')`)
		for _, width := range []int64{1280, 820, 390} {
			p.Resize(width, 800)
			shown := views
			if width == 1280 {
				shown = []string{""} // all are visible
			}
			for _, view := range shown {
				if view != "" {
					p.Click(`nav [data-view="` + view + `"]`)
				}
				p.Until(`document.documentElement.scrollWidth <= innerWidth`)
				if bad := p.String(unreadable); bad != "" {
					p.T.Errorf("at a width of %d these are hard to read in %s %s:\n%s", width, scheme, view, bad)
				}
			}
		}
	}
	p.Resize(1280, 800)
}
