package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/mcptrack/mcptrack/core/tracker"
)

// browser is a real Chromium. Without one the test is skipped, and in CI it fails.
func browser(t *testing.T, width, height int, more ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	if _, err := exec.LookPath("chromium"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("Chromium is not installed; scripts/check.sh installs it")
		}
		t.Skip("Chromium is not installed; scripts/check.sh installs it")
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.NoSandbox, chromedp.WSURLReadTimeout(2*time.Minute), // a browser takes its time to start on a busy machine
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.WindowSize(width, height))
	opts = append(opts, more...)
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), opts...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	return ctx
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

func TestPageInChromium(t *testing.T) {
	var changed atomic.Bool
	var streams atomic.Int64
	snapshot := func() *tracker.Snapshot {
		snap := world()
		if changed.Load() {
			text := "# Page 1\n\nsecond line\n"
			snap.Servers[0].Resources[1].Text = &text
			snap.Servers[0].Resources[1].Digest[1] = 2
		}
		return snap
	}
	s := serve(t, New(Options{Version: "1.2.3", Snapshot: snapshot}), map[string]http.Handler{"GET /events": events(&streams)})
	p := tabPage{t, browser(t, 1280, 800)}
	p.open(s.URL + "/?server=server-0000")
	p.until(`document.querySelectorAll('#resource-list .row').length > 3`)
	servers, resources := p.text("#server-list"), p.text("#resource-list")
	if !strings.Contains(servers, "server-0000") || !strings.Contains(servers, "<img src=x") || !strings.Contains(servers, "Backoff") || !strings.Contains(servers, "attempt 3") {
		t.Errorf("servers: %q", servers)
	}
	if !strings.Contains(resources, "file:///00001.md") {
		t.Errorf("resources: %q", resources)
	}
	p.key("resource-list", "Home")
	p.key("resource-list", "ArrowDown") // by keyboard: the second resource
	p.until(`document.querySelector('#detail-body').textContent.includes('first line')`)
	changed.Store(true)
	p.until(`document.querySelector('#detail-body').textContent.includes('second line')`) // while it is shown
	p.click("#tab-diff")
	p.until(`document.querySelectorAll('#detail-body .add').length > 0`)
	if diff := p.text("#detail-body"); !strings.Contains(diff, "-first line") || !strings.Contains(diff, "+second line") {
		t.Errorf("diff %q", diff)
	}
	p.until(`document.querySelector('#feed-list').textContent.includes('resource.updated')`)
	p.screenshot("desktop")
	p.until(`document.querySelectorAll('.row').length < 200`) // of 11,000 things: the lists are virtual
	p.until(`document.querySelectorAll('img, b, script:not([src])').length === 0 && document.title === 'mcptrack'`)
	if err := chromedp.Do(p.ctx, chromedp.EmulateViewport(390, 844)); err != nil {
		t.Fatal(err)
	}
	p.until(`document.documentElement.scrollWidth <= 390`)
	p.screenshot("phone")
	// A second tab shares the stream of the first.
	ctx, cancel := chromedp.NewContext(p.ctx)
	defer cancel()
	second := tabPage{t, ctx}
	second.open(s.URL)
	second.until(`document.querySelectorAll('#feed-list .row').length > 0`)
	if n := streams.Load(); n != 1 {
		t.Errorf("%d streams for two tabs", n)
	}
}

// tabPage is a tab of the browser.
type tabPage struct {
	t   *testing.T
	ctx context.Context
}

func (p tabPage) open(address string) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, chromedp.Navigate(address)); err != nil {
		p.t.Fatal(err)
	}
}

// until waits for a condition in JavaScript.
func (p tabPage) until(condition string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, time.Minute)
	defer cancel()
	_, err := chromedp.Run(ctx, chromedp.Poll[bool](condition))
	for err != nil && ctx.Err() == nil { // the page was left meanwhile
		_, err = chromedp.Run(ctx, chromedp.Poll[bool](condition))
	}
	if err != nil {
		text, _ := chromedp.Run(p.ctx, chromedp.Evaluate[string]("location.href + ' ' + document.body.innerText"))
		p.t.Fatalf("%s: %v; the page is %.2000q", condition, err, text)
	}
}

func (p tabPage) text(selector string) string {
	p.t.Helper()
	got, err := chromedp.Run(p.ctx, chromedp.Text(selector))
	if err != nil {
		p.t.Fatal(err)
	}
	return got
}

func (p tabPage) click(selector string) {
	p.t.Helper()
	if _, err := chromedp.Run(p.ctx, chromedp.Click(selector)); err != nil {
		p.t.Fatal(err)
	}
}

func (p tabPage) key(list, name string) {
	p.t.Helper()
	press := fmt.Sprintf(`document.querySelector('#%s').dispatchEvent(new KeyboardEvent('keydown', {key: '%s', bubbles: true}))`, list, name)
	if _, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool](press)); err != nil {
		p.t.Fatal(err)
	}
}

// screenshot saves a picture if MCPTRACK_SCREENSHOTS names a directory.
func (p tabPage) screenshot(name string) {
	p.t.Helper()
	dir := os.Getenv("MCPTRACK_SCREENSHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600)
	}
	if err != nil {
		p.t.Error(err)
	}
}
