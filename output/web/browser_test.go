package web_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/output/internal/browsertest"
	"github.com/mcptrack/mcptrack/output/web"
)

// chromium is the browser of all tests of this package.
var chromium browsertest.Browser

// submit logs in.
func submit(p browsertest.Tab, token string) {
	p.T.Helper()
	p.Run(fmt.Sprintf(`document.querySelector('#token').value = %q; document.querySelector('button').click()`, token))
}

// TestLoginInChromium: people can log in with a browser and log out, and pages of
// other sites can do neither, nor read anything.
func TestLoginInChromium(t *testing.T) {
	for _, scheme := range []string{"dark", "light"} {
		t.Run(scheme, func(t *testing.T) {
			p := chromium.Open(t, 390, 844)
			p.Scheme(scheme)
			_, base := start(t, web.Options{Tokens: token(t)}, func(s *web.Server) {
				s.Handle("GET /{$}", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", "text/html")
					_, _ = io.WriteString(w, `<!doctype html><title>in</title><form method="post" action="/logout"><button>Log out</button></form>`)
				}))
			})
			p.Go(base + "/?server=docs")
			p.Until(`document.querySelector('#token') && getComputedStyle(document.querySelector('main')).borderRadius === '8px'`)
			p.Screenshot("login-" + scheme)
			submit(p, "wrong")
			p.Until(`document.querySelector('[role=alert]')?.textContent.includes('wrong')`)
			p.Screenshot("login-wrong-" + scheme)
			submit(p, secret)
			p.Until(`document.title === 'in' && location.search === '?server=docs'`)
			foreign := otherSite(t, base)
			p.Go(foreign)
			p.Until(`document.title === 'refused'`)
			for _, path := range []string{"/login", "/logout"} {
				p.Go(foreign + "?" + path)
				p.Until(`document.body.innerText.includes('pages of other sites are not allowed')`)
			}
			p.Go(base) // still logged in
			p.Until(`document.title === 'in'`)
			p.Click("button")
			p.Until(`document.querySelector('#token') !== null`)
			p.Go(base)
			p.Until(`document.querySelector('#token') !== null`)
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
