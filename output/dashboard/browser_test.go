package dashboard

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/output/internal/browsertest"
)

// chromium is the browser of all tests of this package.
var chromium browsertest.Browser

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(browsertest.Tests{M: m, Browser: &chromium})
}

// events serves an event stream with an update every 200 ms.
func events(streams *atomic.Int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		streams.Add(1)
		w.Header().Set("Content-Type", "text/event-stream")
		for i := 1; ; i++ {
			select {
			case <-r.Context().Done():
				return
			case <-time.After(200 * time.Millisecond):
			}
			fmt.Fprintf(w, "id: ab-%d\ndata: {\"id\":\"ab-%d\",\"type\":\"resource.updated\",\"serverId\":\"server-0000\",\"resourceUri\":\"file:///00001.md\",\"timestamp\":%q,\"cause\":\"notify\",\"changed\":true,\"name\":\"<img src=x>\"}\n\n",
				i, i, time.Now().UTC().Format("2006-01-02T15:04:05.000Z"))
			_ = http.NewResponseController(w).Flush()
		}
	})
}

// changing is a dashboard over a log. The returned function changes the text of the second resource,
// and stores the event.
func changing(t *testing.T) (d *Dashboard, change func()) {
	t.Helper()
	before, after := world(12, 60), world(12, 60)
	for _, snap := range []*status.Snapshot{before, after} {
		snap.Servers[3].State, snap.Servers[3].Error = event.NeedsAuth, "initialize: authorization required (HTTP status 401): run mcptrack login server-0003"
	}
	text := "# Page 1\n\nsecond line\n"
	was, now := before.Servers[0].Resources[1], &after.Servers[0].Resources[1]
	now.Text, now.Digest[1] = &text, 2
	var changed atomic.Bool
	j, d, store := stored(t, func() *status.Snapshot {
		if changed.Load() {
			return after
		}
		return before
	})
	d.opts.Version = "1.2.3"
	return d, func() {
		j.Contents().Put(was.Digest, *was.Text)
		j.Contents().Put(now.Digest, text)
		yes := true
		store("server-0000", was.URI, event.ResourceUpdated{Digest: now.Digest, PreviousDigest: was.Digest, Changed: &yes, MimeType: "text/markdown"})
		if err := j.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		changed.Store(true)
	}
}

func TestRealChange(t *testing.T) {
	var streams atomic.Int64
	d, change := changing(t)
	s := serve(t, d, map[string]http.Handler{"GET /events": events(&streams)})
	p := chromium.Open(t, 1280, 800)
	p.Go(s.URL + "/?server=server-0000")
	p.Until(`document.querySelectorAll('#rail-list .row').length > 15`)
	rail := p.Text("#rail-list")
	for _, want := range []string{"server-0000", "<img src=x", "retrying", "needs login", "run mcptrack login server-0003", "00001.md"} {
		if !strings.Contains(rail, want) {
			t.Errorf("the rail has no %q: %q", want, rail)
		}
	}
	pick(p, "file:///00001.md")
	p.Until(`document.querySelector('#detail-body').textContent.includes('first line')`)
	key(p, "rail-list", "ArrowDown") // by keyboard: the next resource, and back
	p.Until(`document.querySelector('#detail-title').textContent === '00002.md'`)
	key(p, "rail-list", "ArrowUp")
	p.Until(`document.querySelector('#detail-title').textContent === '00001.md'`)
	change()
	p.Until(`document.querySelectorAll('#detail-body .add').length > 0`) // while it is shown
	if diff := p.Text("#detail-body"); !strings.Contains(diff, "first line") || !strings.Contains(diff, "second line") {
		t.Errorf("diff %q", diff)
	}
	// Signs are in a gutter, and only the words that differ are marked.
	if signs := p.String(`[...document.querySelectorAll('#detail-body .sign')].map((e) => e.textContent || ' ').join('')`); signs != "  −+" {
		t.Errorf("signs %q", signs)
	}
	if marks := p.String(`[...document.querySelectorAll('#detail-body mark')].map((e) => e.parentElement.parentElement.className + ':' + e.textContent).join(' ')`); marks != "del:first add:second" {
		t.Errorf("marks %q", marks)
	}
	p.Until(`document.querySelector('#feed-list').textContent.includes('updated')`)
	// Hidden characters of names are escaped.
	p.Until(`document.querySelector('#rail-list').textContent.includes('\\u202e\\u001b[31m') && !/[\u202e\u001b]/.test(document.body.textContent)`)
	readable(p, "rail", "feed", "detail")
	p.Until(`document.querySelectorAll('img, b:not(#tiles b), script:not([src])').length === 0 && document.title === 'mcptrack'`)
	p.Click("#tab-rendered")
	p.Until(`document.querySelector('#detail-body h1')?.textContent === 'Page 1' && document.querySelector('#detail-body p').textContent === 'second line'`)
	p.Click("#older")
	p.Until(`document.querySelector('#detail-body p')?.textContent === 'first line'`)
	p.Click("#tab-content")
	p.Until(`document.querySelector('#detail-body pre')?.textContent === '# Page 1\n\nfirst line\n'`)
	// A second tab shares the stream of the first.
	second := p.Another()
	second.Go(s.URL)
	second.Until(`document.querySelectorAll('#feed-list .row').length > 0`)
	if n := streams.Load(); n != 1 {
		t.Errorf("%d streams for two tabs", n)
	}
}

// pick clicks the row of the rail that has a title.
func pick(p browsertest.Tab, title string) {
	p.T.Helper()
	row := fmt.Sprintf(`[...document.querySelectorAll('#rail-list .row')].find((r) => r.title === %q)`, title)
	p.Until(row)
	p.Run(row + `.click()`)
}

// key presses a key in a list.
func key(p browsertest.Tab, list, name string) {
	p.T.Helper()
	p.Run(fmt.Sprintf(`document.querySelector('#%s').dispatchEvent(new KeyboardEvent('keydown', {key: '%s', bubbles: true}))`, list, name))
}

// reload reloads the page.
func reload(p browsertest.Tab) {
	p.T.Helper()
	p.Run(`window.old = true`)
	p.Run(`location.reload()`)
	p.Until(`!window.old && document.readyState === 'complete'`)
}

// setInput types into a filter or chooses an option.
func setInput(p browsertest.Tab, id, value string) {
	p.T.Helper()
	p.Run(fmt.Sprintf(`document.querySelector('#%s').value = %q; document.querySelector('#%s').oninput()`, id, value, id))
}
