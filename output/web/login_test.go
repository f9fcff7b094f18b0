package web_test

import (
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

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
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || strings.Contains(c.Value, secret) {
		t.Errorf("the cookie is %v", c)
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
