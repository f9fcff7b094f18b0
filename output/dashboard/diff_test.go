package dashboard

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mcptrack/mcptrack/core/status"
)

// TestDiffOfLongTexts: texts of any number of lines can be compared; the page shows a
// limited number of lines and counts the others.
func TestDiffOfLongTexts(t *testing.T) {
	const n = 300_000
	var now atomic.Pointer[status.Snapshot]
	set := func(text string) {
		snap := world(12, 60)
		r := &snap.Servers[0].Resources[1]
		r.Text, r.Size, r.Digest[1] = &text, int64(len(text)), byte(len(text)%251)
		now.Store(snap)
	}
	set(strings.Repeat("\n", n))
	var streams atomic.Int64
	s := serve(t, New(Options{Snapshot: now.Load}), map[string]http.Handler{"GET /events": events(&streams)})
	p := chromium.Open(t, 1280, 800)
	p.Go(s.URL + "/?server=server-0000&tab=diff")
	p.Until(`document.querySelectorAll('#resource-list .row').length > 3`)
	key(p, "resource-list", "Home")
	key(p, "resource-list", "ArrowDown")
	p.Until(`document.querySelector('#detail-meta').textContent.includes('293.0 KiB')`)
	lines := strings.Repeat("one\ntwo\n", n/2)
	set(lines)
	p.Until(`document.querySelector('#detail-body').textContent.includes('299000 more lines of the new text')`) // comparing all pairs would take too long
	p.Until(`document.querySelectorAll('#detail-body .del').length === 1000 && document.querySelectorAll('#detail-body .add').length === 1000`)
	set("one\n" + lines + "two\n" + "three\n" + lines)
	p.Until(`document.querySelector('#detail-body').textContent.includes('298003 more lines of the new text')`)
	p.Until(`document.querySelectorAll('#detail-body span').length < 2100`)
}
