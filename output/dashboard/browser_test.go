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
			fmt.Fprintf(w, "id: ab-%d\nevent: resource.updated\ndata: {\"id\":\"ab-%d\",\"type\":\"resource.updated\",\"serverId\":\"server-0000\",\"resourceUri\":\"file:///00001.md\",\"timestamp\":%q,\"cause\":\"notify\",\"changed\":true,\"name\":\"<img src=x>\"}\n\n",
				i, i, time.Now().UTC().Format("2006-01-02T15:04:05.000Z"))
			_ = http.NewResponseController(w).Flush()
		}
	})
}

// changing is a world in which the second resource gets another text when changed is set.
func changing(changed *atomic.Bool) func() *status.Snapshot {
	before, after := world(12, 60), world(12, 60)
	for _, snap := range []*status.Snapshot{before, after} {
		snap.Servers[3].State, snap.Servers[3].Error = event.NeedsAuth, "initialize: authorization required (HTTP status 401): run mcptrack login server-0003"
	}
	text := "# Page 1\n\nsecond line\n"
	after.Servers[0].Resources[1].Text = &text
	after.Servers[0].Resources[1].Digest[1] = 2
	return func() *status.Snapshot {
		if changed.Load() {
			return after
		}
		return before
	}
}

func TestPageInChromium(t *testing.T) {
	var changed atomic.Bool
	var streams atomic.Int64
	s := serve(t, New(Options{Version: "1.2.3", Snapshot: changing(&changed)}), map[string]http.Handler{"GET /events": events(&streams)})
	p := chromium.Open(t, 1280, 800)
	p.Go(s.URL + "/?server=server-0000")
	p.Until(`document.querySelectorAll('#resource-list .row').length > 3 && document.querySelectorAll('#server-list .row').length > 3`)
	servers, resources := p.Text("#server-list"), p.Text("#resource-list")
	if !strings.Contains(servers, "server-0000") || !strings.Contains(servers, "<img src=x") || !strings.Contains(servers, "Backoff") || !strings.Contains(servers, "attempt 3") {
		t.Errorf("servers: %q", servers)
	}
	if !strings.Contains(servers, "\nrun mcptrack login server-0003") {
		t.Errorf("what to do about a server that needs a login is not a line of its own: %q", servers)
	}
	if !strings.Contains(resources, "file:///00001.md") {
		t.Errorf("resources: %q", resources)
	}
	key(p, "resource-list", "Home")
	key(p, "resource-list", "ArrowDown") // by keyboard: the second resource
	p.Until(`document.querySelector('#detail-body').textContent.includes('first line')`)
	changed.Store(true)
	p.Until(`document.querySelector('#detail-body').textContent.includes('second line')`) // while it is shown
	p.Click("#tab-diff")
	p.Until(`document.querySelectorAll('#detail-body .add').length > 0`)
	if diff := p.Text("#detail-body"); !strings.Contains(diff, "-first line") || !strings.Contains(diff, "+second line") {
		t.Errorf("diff %q", diff)
	}
	p.Until(`document.querySelector('#feed-list').textContent.includes('resource.updated')`)
	p.Screenshot("desktop")
	p.Until(`document.querySelectorAll('img, b, script:not([src])').length === 0 && document.title === 'mcptrack'`)
	p.Resize(390, 844)
	p.Until(`document.documentElement.scrollWidth <= 390`)
	p.Screenshot("phone")
	// A second tab shares the stream of the first.
	second := p.Another()
	second.Go(s.URL)
	second.Until(`document.querySelectorAll('#feed-list .row').length > 0`)
	if n := streams.Load(); n != 1 {
		t.Errorf("%d streams for two tabs", n)
	}
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
