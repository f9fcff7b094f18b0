package dashboard

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mcptrack/mcptrack/core/tracker"
)

// TestDiffOfLongTexts: texts of any number of lines can be compared; the page shows a
// limited number of lines and counts the others.
func TestDiffOfLongTexts(t *testing.T) {
	const n = 300_000
	var now atomic.Pointer[string]
	set := func(text string) { now.Store(&text) }
	set(strings.Repeat("\n", n))
	var streams atomic.Int64
	s := serve(t, New(Options{Snapshot: func() *tracker.Snapshot {
		snap := world()
		text, r := now.Load(), &snap.Servers[0].Resources[1]
		r.Text, r.Size, r.Digest[1] = text, int64(len(*text)), byte(len(*text)%251)
		return snap
	}}), map[string]http.Handler{"GET /events": events(&streams)})
	p := tabPage{t, browser(t, 1280, 800)}
	p.open(s.URL + "/?server=server-0000&tab=diff")
	p.until(`document.querySelectorAll('#resource-list .row').length > 3`)
	p.key("resource-list", "Home")
	p.key("resource-list", "ArrowDown")
	p.until(`document.querySelector('#detail-meta').textContent.includes('293.0 KiB')`)
	lines := strings.Repeat("one\ntwo\n", n/2)
	set(lines)
	p.until(`document.querySelector('#detail-body').textContent.includes('299000 more lines of the new text')`) // comparing all pairs would take too long
	p.until(`document.querySelectorAll('#detail-body .del').length === 1000 && document.querySelectorAll('#detail-body .add').length === 1000`)
	set("one\n" + lines + "two\n" + "three\n" + lines)
	p.until(`document.querySelector('#detail-body').textContent.includes('298003 more lines of the new text')`)
	p.until(`document.querySelectorAll('#detail-body span').length < 2100`)
}
