package dashboard

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
)

// TestSelectUnderPointer: a server that is selected with the mouse opens while the mouse is still
// over the rail.
func TestSelectUnderPointer(t *testing.T) {
	p, _ := openPage(t, 1280, 800, "?server=server-0004")
	p.Until(`document.querySelectorAll('#rail-list .row').length === 7`) // 5 servers, 2 errors
	p.Run(`document.querySelector('#rail-list').dispatchEvent(new PointerEvent('pointerenter', { pointerType: 'mouse' }))`)
	pick(p, "server-0000, ready, 60 resources")
	p.Until(`document.querySelector('#rail-list').textContent.includes('00001.md')`)
}

// TestSelectInFeed: a row of the feed opens its own change, also if that is not among the
// versions that the history returns, and a burst opens as the change whose lines the row counts.
func TestSelectInFeed(t *testing.T) {
	j, d, store := stored(t, fixed(world(2, 60)))
	yes, digest := true, func(i int) catalog.Digest { return catalog.Digest{7, byte(i)} }
	for i := range 53 {
		j.Contents().Put(digest(i), fmt.Sprintf("version %d\n", i))
	}
	for i := 51; i < 53; i++ {
		store("server-0000", "file:///00001.md", event.ResourceUpdated{Changed: &yes, PreviousDigest: digest(i - 1), Digest: digest(i)})
	}
	if err := j.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	live := newStream()
	s := serve(t, d, map[string]http.Handler{"GET /events": live})
	p := chromium.Open(t, 1280, 800)
	p.Go(s.URL)
	p.Until(`document.querySelector('#link').textContent === 'live' && document.querySelectorAll('#feed-list .row').length > 0`)
	began := time.Now().Add(-13 * time.Minute)
	for i := 1; i <= 40; i++ { // they are only in the feed
		live.say <- wire(t, event.Event{ID: event.FormatID("00000000000000cd", uint64(i)), ServerID: "server-0000", ResourceURI: "file:///00002.md", Timestamp: began.Add(time.Duration(i) * time.Second),
			Cause: event.CauseNotify, Payload: event.ResourceUpdated{Changed: &yes, PreviousDigest: digest(i - 1), Digest: digest(i)}})
	}
	p.Until(`[...document.querySelectorAll('#feed-list .row')].some((r) => r.textContent.includes('×40'))`)
	p.Run(`[...document.querySelectorAll('#feed-list .row')].find((r) => r.textContent.includes('×40')).click()`)
	p.Until(`document.querySelector('#detail-body .add .code')?.textContent === 'version 40' && document.querySelector('#detail-body .del .code').textContent === 'version 0'`)
}

// TestMistypedLinks: a link whose numbers are none shows the page.
func TestMistypedLinks(t *testing.T) {
	p, _ := openPage(t, 390, 844, "?after=abc&before=999999999999999999&range=x&view=nothing")
	p.Until(`document.querySelector('#detail').checkVisibility() && document.querySelector('#chart-range').value === ''`)
	p.Click(`nav [data-view="feed"]`)
	p.Until(`document.querySelectorAll('#feed-list .row').length === 3 && document.querySelector('#chart-title').textContent !== ''`)
}

// TestReasons: a request that fails and a page that cannot draw say different things.
func TestReasons(t *testing.T) {
	p, _ := openPage(t, 1280, 800, "?server=server-0000&uri=file:///00002.md")
	p.Until(`document.querySelector('#detail-title').textContent === '00002.md'`)
	p.Run(`window.real = fetch; window.fetch = async () => { throw new TypeError('network') }`)
	pick(p, "file:///00003.md")
	p.Until(`document.querySelector('#detail-body').innerText.trim() === 'mcptrack does not respond'`)
	p.Until(`document.querySelector('#tiles').innerText.trim() === 'mcptrack does not respond'`)
	p.Run(`window.fetch = async () => new Response('{"error":"the log is full"}', { status: 503 })`)
	p.Until(`document.querySelector('#tiles').innerText.trim() === 'the log is full'`)
	p.Run(`window.fetch = async (url, o) => String(url).startsWith('/api/servers') ? new Response('[null]') : real(url, o)`)
	p.Until(`document.querySelector('#tiles').innerText.startsWith('This page has an error, reload it: ')`)
	p.Run(`window.fetch = real`)
	p.Until(`document.querySelector('#tiles').innerText.includes('ready')`)
}

// TestLongNames: a name of 10 kB leaves room for what it names.
func TestLongNames(t *testing.T) {
	snap := world(2, 3)
	snap.Servers[0].ID = strings.Repeat("long \u202e<b>", 1200)
	long := "file:///" + strings.Repeat("x/", 5000) + "\u202ey.md"
	snap.Servers[0].Resources[2].URI = long
	s := serve(t, New(Options{Snapshot: fixed(snap)}), map[string]http.Handler{"GET /events": newStream()})
	for _, width := range []int64{1440, 390} {
		p := chromium.Open(t, width, 844)
		p.Go(s.URL)
		p.Until(`document.querySelectorAll('#rail-list .row').length > 1`)
		p.Run(`[...document.querySelectorAll('#rail-list .row')].find((r) => r.textContent.startsWith('▸long')).click()`)
		p.Until(`document.querySelector('#detail-title').textContent.startsWith('long')`)
		roomy := `document.querySelector('#detail').scrollHeight <= document.querySelector('#detail').clientHeight && document.querySelector('#detail-body').clientHeight > 200 && document.documentElement.scrollWidth <= innerWidth`
		p.Until(roomy)
		p.Run(`[...document.querySelectorAll('#rail-list .row')].find((r) => r.title.includes('x/x/x')).click()`)
		p.Until(`document.querySelector('#detail-body').textContent.includes('first line')`)
		p.Until(roomy)
		p.Screenshot(fmt.Sprint("long-", width))
	}
}
