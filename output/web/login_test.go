package web_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/output/internal/browsertest"
	"github.com/mcptrack/mcptrack/output/web"
)

func TestToken(t *testing.T) {
	_, base := start(t, web.Options{Tokens: token(t)}, nil)
	for _, tt := range []struct {
		path string
		h    header
		want int
	}{
		{"/events", nil, 401},
		{"/events?token=" + secret, nil, 401},
		{"/events", header{"Authorization": "Bearer " + secret[1:]}, 401},
		{"/events", header{"Authorization": "Basic " + secret}, 401},
		{"/events", header{"Authorization": "Bearer"}, 401},
		{"/events", header{"Cookie": "mcptrack-" + port(base) + "=" + secret}, 401},
		{"/events", header{"Authorization": "bearer " + secret}, 200},
		{"/healthz", nil, 200},
		{"/readyz", nil, 401},
		{"/", header{"Accept": "text/html"}, 303},
	} {
		res, text := ask(t, "GET", base+tt.path, tt.h, "")
		if res.StatusCode != tt.want || strings.Contains(text, secret) {
			t.Errorf("%s %v: %d, want %d", tt.path, tt.h, res.StatusCode, tt.want)
		}
	}
	tok := token(t)
	if text := fmt.Sprintf("%v %+v %#v %s", tok, tok, tok, web.Options{Tokens: tok}.Tokens); strings.Contains(text, secret) {
		t.Errorf("a token shows: %s", text)
	}
}

func TestLogin(t *testing.T) {
	_, base := start(t, web.Options{Tokens: token(t)}, nil)
	jar, _ := cookiejar.New(nil)
	client := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	post := func(tok string) *http.Response {
		res, err := client.PostForm(base+"/login", url.Values{"token": {tok}})
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res
	}
	if res := post("wrong"); res.StatusCode != 401 || len(res.Cookies()) != 0 {
		t.Errorf("a wrong token: %d %v", res.StatusCode, res.Cookies())
	}
	res := post(secret + "\n")
	if res.StatusCode != 303 || len(res.Cookies()) != 1 {
		t.Fatalf("the token: %d %v", res.StatusCode, res.Cookies())
	}
	c := res.Cookies()[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || strings.Contains(c.Value, secret) || c.Secure {
		t.Errorf("the cookie is %v", c)
	}
	if res, _ := ask(t, "POST", base+"/login", header{"Content-Type": "application/x-www-form-urlencoded", "X-Forwarded-Proto": "https"}, "token="+secret); res.Cookies()[0].Secure {
		t.Error("a header of no trusted proxy makes the cookie secure")
	}
	if res, _ := ask(t, "GET", base+"/events", header{"Cookie": c.Name + "=" + c.Value}, ""); res.StatusCode != 200 {
		t.Errorf("with the cookie: %d", res.StatusCode)
	}
	flipped := "A" + c.Value[1:]
	if flipped == c.Value {
		flipped = "B" + c.Value[1:]
	}
	if res, _ := ask(t, "GET", base+"/events", header{"Cookie": c.Name + "=" + flipped}, ""); res.StatusCode != 401 {
		t.Errorf("with a forged cookie: %d", res.StatusCode)
	}
	if res, _ := ask(t, "POST", base+"/login", header{"Content-Type": "application/x-www-form-urlencoded"},
		"token="+strings.Repeat("x", 1<<20)); res.StatusCode != 400 {
		t.Errorf("a token of 1 MiB: %d", res.StatusCode)
	}
}

func port(base string) string { return base[strings.LastIndexByte(base, ':')+1:] }

// Browsers send a cookie to all ports of a host. Servers on several ports do not interfere with
// each other: a login at one is not valid at another, under whatever name it is sent.
func TestCookieOfAPort(t *testing.T) {
	jar, _ := cookiejar.New(nil) // it also ignores ports
	client := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	_, one := start(t, web.Options{Tokens: token(t)}, nil)
	_, two := start(t, web.Options{Tokens: token(t)}, nil)
	var cookies []*http.Cookie
	for _, base := range []string{one, two} {
		res, err := client.PostForm(base+"/login", url.Values{"token": {secret}})
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if got := res.Cookies(); len(got) != 1 || got[0].Name != "mcptrack-"+port(base) || got[0].Path != "/" || got[0].Domain != "" || !got[0].HttpOnly || got[0].SameSite != http.SameSiteStrictMode {
			t.Fatalf("%v", got)
		}
		cookies = append(cookies, res.Cookies()[0])
	}
	for _, base := range []string{one, two} {
		res, err := client.Get(base + "/events")
		if err != nil {
			t.Fatal(err)
		}
		if _ = res.Body.Close(); res.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", base, res.Status)
		}
	}
	for _, name := range []string{cookies[0].Name, cookies[1].Name, "mcptrack", "__Host-" + cookies[1].Name} {
		if res, _ := ask(t, "GET", two+"/events", header{"Cookie": name + "=" + cookies[0].Value}, ""); res.StatusCode != http.StatusUnauthorized {
			t.Errorf("the login of the other port as %s: %s", name, res.Status)
		}
	}
}

// Behind a proxy that terminates HTTPS, the name of the cookie contains the port of the listener,
// and a service without HTTPS cannot set it. Under another name the cookie is not accepted.
func TestCookieBehindHTTPS(t *testing.T) {
	_, base := start(t, web.Options{Tokens: token(t), TrustProxy: true, Origins: []string{"https://dash.example:8443"}}, nil)
	h := header{"Host": "dash.example:8443", "X-Forwarded-Proto": "https", "X-Forwarded-Port": "8443", "Content-Type": "application/x-www-form-urlencoded"}
	res, _ := ask(t, "POST", base+"/login", h, "token="+url.QueryEscape(secret))
	if len(res.Cookies()) != 1 {
		t.Fatal(res.Status)
	}
	c := res.Cookies()[0]
	if c.Name != "__Host-mcptrack-"+port(base) || !c.Secure || c.Path != "/" || c.Domain != "" {
		t.Errorf("%v", c)
	}
	for name, want := range map[string]int{c.Name: 200, strings.TrimPrefix(c.Name, "__Host-"): 401, "__Host-mcptrack-8443": 401} {
		h["Cookie"] = name + "=" + c.Value
		if res, _ := ask(t, "GET", base+"/events", h, ""); res.StatusCode != want {
			t.Errorf("%s: %s, want %d", name, res.Status, want)
		}
	}
	h["Cookie"] = c.Name + "=" + c.Value
	res, _ = ask(t, "POST", base+"/logout", h, "")
	if got := res.Cookies(); len(got) != 1 || got[0].Name != c.Name || got[0].MaxAge >= 0 {
		t.Errorf("logout: %s, %v", res.Status, got)
	}
	if res, _ := ask(t, "GET", base+"/events", h, ""); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("after the logout: %s", res.Status)
	}
}

// chromium is the browser of all tests of this package.
var chromium browsertest.Browser

// submit submits the login form.
func submit(p browsertest.Tab, token string) {
	p.T.Helper()
	p.Run(fmt.Sprintf(`document.querySelector('#token').value = %q; document.querySelector('button').click()`, token))
}

// People can log in and out with a browser. Pages of other sites can do neither, nor read
// anything.
func TestRealLogin(t *testing.T) {
	p := chromium.Open(t, 390, 844)
	_, base := start(t, web.Options{Tokens: token(t)}, func(s *web.Server) {
		s.Handle("GET /{$}", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, `<!doctype html><title>in</title><form method="post" action="/logout"><button>Log out</button></form>`)
		}))
	})
	p.Go(base + "/?server=docs")
	p.Until(`document.querySelector('#token') && getComputedStyle(document.querySelector('main')).borderRadius === '8px'`)
	submit(p, "wrong")
	p.Until(`document.querySelector('[role=alert]')?.textContent.includes('wrong')`)
	for _, scheme := range []string{"dark", "light"} {
		p.Scheme(scheme)
		p.Until(`matchMedia('(prefers-color-scheme: ` + scheme + `)').matches`)
		if found := p.Axe(); found != "" {
			t.Errorf("violations in %s:\n%s", scheme, found)
		}
	}
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
}

// otherSite serves a page that tries to read from base, or to send the form that its query names.
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
