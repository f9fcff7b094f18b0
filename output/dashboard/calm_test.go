package dashboard

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/output/internal/browsertest"
)

// stopClock makes the timers of a page that are set from now on, with a second or more, wait until pass is called
// with their milliseconds.
func stopClock(p browsertest.Tab) (pass func(ms int)) {
	p.T.Helper()
	p.Run(`{ window.waiting = new Map(); const set = setTimeout, unset = clearTimeout; let last = 1e9;
		window.setTimeout = (f, ms, ...more) => !(ms >= 1000) ? set(f, ms, ...more) : (waiting.set(++last, { f, ms }), last);
		window.clearTimeout = (id) => { unset(id); waiting.delete(id); } }`)
	return func(ms int) {
		p.T.Helper()
		p.Run(fmt.Sprintf(`for (const [id, t] of [...waiting]) if (t.ms === %d) { waiting.delete(id); t.f(); }`, ms))
	}
}

// pointer moves the mouse into an element, or out of it.
func pointer(p browsertest.Tab, selector, what string) {
	p.T.Helper()
	p.Run(fmt.Sprintf(`document.querySelector('%s').dispatchEvent(new PointerEvent('pointer%s', { pointerType: 'mouse' }))`, selector, what))
}

// TestRealFollowing: following the newest change, the panel changes once in a while and never while somebody reads
// it; a button says how much waits and goes there. No title is shown before its text.
func TestRealFollowing(t *testing.T) {
	_, d, _ := stored(t, fixed(world(2, 60)))
	live := newStream()
	s := serve(t, d, map[string]http.Handler{"GET /events": live})
	p := chromium.Open(t, 1280, 800)
	p.Go(s.URL)
	p.Until(`document.querySelector('#link').textContent === 'live' && document.querySelectorAll('#rail-list .row').length > 1`)
	p.Run(`window.titles = new Set(); new MutationObserver(() => requestAnimationFrame(() => titles.add(document.querySelector('#detail-title').textContent + (document.querySelector('#detail-body').textContent.includes('loading') ? ' loading' : ''))))
		.observe(document.querySelector('#detail'), { childList: true, subtree: true, characterData: true })`)
	pass, yes, seq := stopClock(p), true, uint64(0)
	change := func(all ...byte) {
		t.Helper()
		for _, n := range all {
			seq++
			live.say <- wire(t, event.Event{ID: event.FormatID("00000000000000cd", seq), Seq: seq, ServerID: "server-0000", ResourceURI: fmt.Sprintf("file:///%05d.md", n), Timestamp: time.Now(),
				Payload: event.ResourceUpdated{Changed: &yes, Digest: catalog.Digest{n, 1}}})
		}
	}
	shows := func(title, queue string) {
		t.Helper()
		p.Until(fmt.Sprintf(`document.querySelector('#detail-title').textContent === %q && document.querySelector('#queue').textContent === %q`, title, queue))
	}
	change(1)
	shows("00001.md", "")
	change(2, 3, 2, 4, 3) // too soon
	shows("00001.md", "3 newer")
	pass(4000)
	shows("00003.md", "")
	pointer(p, "#detail", "enter")
	change(5, 6)
	shows("00003.md", "2 newer")
	pass(4000) // somebody points at it
	change(7)
	shows("00003.md", "3 newer")
	p.Run(`getSelection().selectAllChildren(document.querySelector('#detail-title'))`)
	pointer(p, "#detail", "leave")
	change(8) // somebody has selected a text
	shows("00003.md", "4 newer")
	p.Click("#queue")
	shows("00008.md", "")
	pointer(p, "#detail", "leave")
	p.Run(`document.querySelector('#detail-body').firstChild.style.height = '4000px'; document.querySelector('#detail-body').scrollTop = 500`)
	pass(4000)
	change(9) // it is scrolled
	shows("00008.md", "1 newer")
	p.Run(`document.querySelector('#detail-body').scrollTop = 0`)
	shows("00009.md", "")
	// A selected resource changes as calmly.
	pick(p, "file:///00012.md")
	shows("00012.md", "")
	pass(4000)
	pointer(p, "#detail", "enter")
	change(13, 12)
	shows("00012.md", "1 newer")
	pointer(p, "#detail", "leave")
	shows("00012.md", "")
	if bad := p.String(`[...titles].filter((t) => !/^Newest change$|^\d+\.md$|^00012\.md loading$/.test(t)).join()`); bad != "" {
		t.Errorf("these titles are shown for a moment: %s", bad)
	}
}
