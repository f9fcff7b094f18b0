package web_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/mcptrack/mcptrack/output/web"
)

// tab is a tab of a real Chromium. Without one the test is skipped; in CI it fails.
type tab struct {
	t   *testing.T
	ctx context.Context
}

func newTab(t *testing.T, scheme string) tab {
	t.Helper()
	if _, err := exec.LookPath("chromium"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("Chromium is not installed; scripts/check.sh installs it")
		}
		t.Skip("Chromium is not installed; scripts/check.sh installs it")
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"),
		chromedp.NoSandbox, chromedp.WSURLReadTimeout(2*time.Minute), chromedp.Flag("disable-dev-shm-usage", true), chromedp.WindowSize(390, 844),
		chromedp.Flag("blink-settings", "preferredColorScheme="+map[string]string{"dark": "0", "light": "1"}[scheme]))...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	return tab{t, ctx}
}

func (p tab) open(address string) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, chromedp.Navigate(address)); err != nil {
		p.t.Fatal(err)
	}
}

// until waits for a condition in JavaScript.
func (p tab) until(condition string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, time.Minute)
	defer cancel()
	_, err := chromedp.Run(ctx, chromedp.Poll[bool](condition))
	for err != nil && ctx.Err() == nil { // the page was left meanwhile
		_, err = chromedp.Run(ctx, chromedp.Poll[bool](condition))
	}
	if err != nil {
		body, _ := chromedp.Run(p.ctx, chromedp.Evaluate[string]("location.href + ' ' + document.body.innerText"))
		p.t.Fatalf("%s: %v; the page is %q", condition, err, body)
	}
}

func (p tab) submit(token string) {
	p.t.Helper()
	script := fmt.Sprintf(`document.querySelector('#token').value = %q; document.querySelector('button').click(); true`, token)
	if _, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool](script)); err != nil {
		p.t.Fatal(err)
	}
}

// screenshot saves a picture if MCPTRACK_SCREENSHOTS names a directory.
func (p tab) screenshot(name string) {
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

// TestLoginInChromium: people can log in with a browser and log out, and pages of
// other sites can do neither, nor read anything.
func TestLoginInChromium(t *testing.T) {
	for _, scheme := range []string{"dark", "light"} {
		t.Run(scheme, func(t *testing.T) {
			p := newTab(t, scheme)
			_, base := start(t, web.Options{Token: token(t)}, func(s *web.Server) {
				s.Handle("GET /{$}", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", "text/html")
					_, _ = io.WriteString(w, `<!doctype html><title>in</title><form method="post" action="/logout"><button>Log out</button></form>`)
				}))
			})
			p.open(base + "/?server=docs")
			p.until(`document.querySelector('#token') && getComputedStyle(document.querySelector('main')).borderRadius === '8px'`)
			p.screenshot("login-" + scheme)
			p.submit("wrong")
			p.until(`document.querySelector('[role=alert]')?.textContent.includes('wrong')`)
			p.screenshot("login-wrong-" + scheme)
			p.submit(secret)
			p.until(`document.title === 'in' && location.search === '?server=docs'`)
			foreign := otherSite(t, base)
			p.open(foreign)
			p.until(`document.title === 'refused'`)
			for _, path := range []string{"/login", "/logout"} {
				p.open(foreign + "?" + path)
				p.until(`document.body.innerText.includes('pages of other sites are not allowed')`)
			}
			p.open(base) // still logged in
			p.until(`document.title === 'in'`)
			if _, err := chromedp.Run(p.ctx, chromedp.Click("button")); err != nil {
				t.Fatal(err)
			}
			p.until(`document.querySelector('#token') !== null`)
			p.open(base)
			p.until(`document.querySelector('#token') !== null`)
		})
	}
}

// otherSite is a page that tries to read from base, or to send the form that its query
// names.
func otherSite(t *testing.T, base string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.URL.RawQuery != "" {
			fmt.Fprintf(w, `<!doctype html><form method="post" action="%s%s"><input name="token" value="%s"></form><script>document.forms[0].submit()</script>`, base, r.URL.RawQuery, secret)
			return
		}
		fmt.Fprintf(w, `<!doctype html><title>trying</title><script>
			fetch('%s/events', {credentials: 'include'}).then((r) => r.text()).then((t) => document.title = t, () => document.title = 'refused')</script>`, base)
	}))
	t.Cleanup(s.Close)
	return strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
}
