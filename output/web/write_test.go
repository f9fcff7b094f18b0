package web_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/output/web"
)

// Only pages of the server itself, and programs with a token, can send requests that change something.
func TestWrites(t *testing.T) {
	t.Parallel()
	written := 0
	setup := func(s *web.Server) {
		s.Handle("POST /api/write", web.Write{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { written++ })})
	}
	const other, own = "https://app.example", "https://mcptrack.example"
	_, plain := start(t, web.Options{Origins: []string{other, own}}, setup)
	s, tokens := start(t, web.Options{Tokens: token(t), Origins: []string{other, own}}, setup)
	login, _ := ask(t, "POST", tokens+"/login", header{"Content-Type": "application/x-www-form-urlencoded"}, "token="+secret)
	cookie, _, _ := strings.Cut(login.Header.Get("Set-Cookie"), ";")
	bearer := "Bearer " + secret
	const same, cross = "same-origin", "cross-site"
	for name, test := range map[string]struct {
		url    string
		header header
		want   int
	}{
		"own page":                                {plain, header{"Origin": plain, "Sec-Fetch-Site": same}, 200},
		"own page, an old browser":                {plain, header{"Origin": plain}, 200},
		"own page without an origin":              {plain, header{"Sec-Fetch-Site": same}, 403},
		"a page on another port":                  {plain, header{"Origin": "http://127.0.0.1:1", "Sec-Fetch-Site": "same-site"}, 403},
		"a page of another site":                  {plain, header{"Origin": "https://evil.example", "Sec-Fetch-Site": cross}, 403},
		"a page without an origin":                {plain, header{"Origin": "null", "Sec-Fetch-Site": cross}, 403},
		"a page of an allowed origin":             {plain, header{"Origin": other, "Sec-Fetch-Site": cross}, 403},
		"the same, an old browser":                {plain, header{"Origin": other}, 403},
		"the same with a token":                   {plain, header{"Origin": other, "Authorization": bearer}, 403},
		"DNS rebinding":                           {plain, header{"Host": "evil.example", "Origin": "http://evil.example", "Sec-Fetch-Site": same}, 403},
		"behind a proxy that keeps the host":      {plain, header{"Host": "mcptrack.example", "Origin": own}, 200},
		"behind a proxy that changes the host":    {plain, header{"Origin": own, "Sec-Fetch-Site": same}, 200},
		"typed into the address bar":              {plain, header{"Origin": plain, "Sec-Fetch-Site": "none"}, 403},
		"a form":                                  {plain, header{"Origin": plain, "Content-Type": "text/plain"}, 415},
		"JSON with a charset":                     {plain, header{"Origin": plain, "Content-Type": "application/json; charset=utf-8"}, 200},
		"a program without anything":              {plain, header{}, 403},
		"no login":                                {tokens, header{"Origin": tokens, "Sec-Fetch-Site": same}, 401},
		"a wrong token":                           {tokens, header{"Authorization": "Bearer " + secret + "x"}, 401},
		"a program with the token":                {tokens, header{"Authorization": bearer}, 200},
		"a login":                                 {tokens, header{"Cookie": cookie, "Origin": tokens, "Sec-Fetch-Site": same}, 200},
		"a login used by a page on another port":  {tokens, header{"Cookie": cookie, "Origin": "http://127.0.0.1:1", "Sec-Fetch-Site": "same-site"}, 403},
		"a login used by a page of another site":  {tokens, header{"Cookie": cookie, "Origin": other, "Sec-Fetch-Site": cross}, 403},
		"a login used without an origin":          {tokens, header{"Cookie": cookie}, 403},
		"the token used by a page of another one": {tokens, header{"Authorization": bearer, "Origin": other, "Sec-Fetch-Site": cross}, 403},
	} {
		h := header{"Content-Type": "application/json"}
		maps.Copy(h, test.header)
		if h["Host"] == "evil.example" {
			h["Host"] += plain[strings.LastIndex(plain, ":"):]
		}
		before := written
		res, body := ask(t, "POST", test.url+"/api/write", h, "{}")
		if res.StatusCode != test.want || (written > before) != (test.want == 200) {
			t.Errorf("%s: %s %s", name, res.Status, body)
		}
	}
	// Browsers ask before they send JSON from an allowed origin, and may not.
	res, _ := ask(t, "OPTIONS", s.URL()+"/api/write", header{"Origin": other, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}, "")
	if allowed := res.Header.Get("Access-Control-Allow-Headers"); strings.Contains(strings.ToLower(allowed), "content-type") {
		t.Errorf("pages of other origins may send %s", allowed)
	}
}
