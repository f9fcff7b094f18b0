package web_test

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/output/web"
)

func port(base string) string { return base[strings.LastIndexByte(base, ':')+1:] }

// Browsers send a cookie to all ports of a host. Servers at several ports do not disturb each
// other, and a login at one of them is none at another, under whatever name it is sent.
func TestCookieOfAPort(t *testing.T) {
	jar, _ := cookiejar.New(nil) // knows no ports either
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

// Behind a proxy that ends HTTPS the cookie has the port of the listener, and a name that no
// service without HTTPS can set; under another name it is not accepted.
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
