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

// TestRealSelectInFeed: a row of the feed opens its own change, also if that is not among the
// versions that the history returns, and a burst opens as the change whose lines the row counts.
func TestRealSelectInFeed(t *testing.T) {
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
	p.Until(`(() => { const found = [...document.querySelectorAll('#feed-list .row')].find((r) => r.textContent.includes('×40')); found?.click(); return !!found; })()`)
	p.Until(`document.querySelector('#detail-body .add .code')?.textContent === 'version 40' && document.querySelector('#detail-body .del .code').textContent === 'version 0'`)
}

// TestRealReasons: a request that fails and a page that cannot draw say different things.
func TestRealReasons(t *testing.T) {
	p, _ := openPage(t, "?server=server-0000&uri=file:///00002.md")
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

// TestRealLongNames: a name of 3 kB leaves room for what it names.
func TestRealLongNames(t *testing.T) {
	snap := world(2, 3)
	snap.Servers[0].ID = strings.Repeat("long \u202e<b>", 300)
	long := "file:///" + strings.Repeat("x/", 1500) + "\u202ey.md"
	snap.Servers[0].Resources[2].URI = long
	s := serve(t, New(Options{Snapshot: fixed(snap)}), map[string]http.Handler{"GET /events": newStream()})
	p := chromium.Open(t, 1440, 844)
	for _, width := range []int64{1440, 390} {
		p.Resize(width, 844)
		p.Go(s.URL)
		p.Until(`document.querySelectorAll('#rail-list .row').length > 1`)
		p.Until(`(() => { const found = [...document.querySelectorAll('#rail-list .row')].find((r) => r.textContent.startsWith('▸long')); found?.click(); return !!found; })()`)
		p.Until(`document.querySelector('#detail-title').textContent.startsWith('long')`)
		roomy := `document.querySelector('#detail').scrollHeight <= document.querySelector('#detail').clientHeight && document.querySelector('#detail-body').clientHeight > 200 && document.documentElement.scrollWidth <= innerWidth`
		p.Until(roomy)
		p.Until(`(() => { const found = [...document.querySelectorAll('#rail-list .row')].find((r) => r.title.includes('x/x/x')); found?.click(); return !!found; })()`)
		p.Until(`document.querySelector('#detail-body').textContent.includes('first line')`)
		p.Until(roomy)
	}
}
