package upstream

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mcptrack/mcptrack/core/config"
)

// fixture is a real HTTP server with a catalog, and an upstream that has read it.
type fixture struct {
	*testing.T
	*Upstream
	server *httptest.Server
	end    func() // ends Run, and waits for it
}

func withAPI(t *testing.T, catalog string, handle http.HandlerFunc, change ...func(*Options)) *fixture {
	t.Helper()
	w := &fixture{T: t}
	w.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch strings.TrimPrefix(r.URL.Path, "/base") {
		case "/api/version":
			_, _ = io.WriteString(rw, `{"version":"1.2","build":"b7","git_commit":"abc","secret":"not shown"}`)
		case "/api/mcp/tools":
			_, _ = io.WriteString(rw, catalog)
		default:
			handle(rw, r)
		}
	}))
	t.Cleanup(w.server.Close)
	opts := Options{URL: w.server.URL + "/base/", Version: "9.9"}
	for _, c := range change {
		c(&opts)
	}
	u, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	w.Upstream = u
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan struct{})
	w.end = sync.OnceFunc(func() { cancel(); <-ran })
	go func() { defer close(ran); u.Run(ctx) }()
	t.Cleanup(w.end)
	if err := u.Settled(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

// call returns the text of the result and whether it is an error.
func (w *fixture) call(name, arguments string) (string, bool) {
	w.Helper()
	raw, err := w.Call(w.Context(), name, json.RawMessage(arguments))
	if err != nil {
		w.Fatalf("%s: %v", name, err)
	}
	var r struct {
		Content []struct{ Type, Text string }
		IsError bool
	}
	if err := json.Unmarshal(raw, &r); err != nil || len(r.Content) != 1 || r.Content[0].Type != "text" {
		w.Fatalf("%s: %s, %v", name, raw, err)
	}
	return r.Content[0].Text, r.IsError
}

// echo answers with the request.
func echo(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	_, _ = fmt.Fprintf(rw, "%s %s %s %s", r.Method, r.URL.RequestURI(), r.Header.Get("Content-Type"), body)
}

const routes = `[{"name":"get","method":"GET","path":"/api/notes/{id}/{n}","params":[{"name":"id","in":"path"},{"name":"n","type":"number","in":"path"},
  {"name":"q","in":"query"},{"name":"many","type":"array","in":"query"},{"name":"o","type":"object","in":"query"},{"name":"flag","type":"boolean"},{"name":"i","type":"integer"}]},
 {"name":"put","method":"PUT","path":"/api/notes/{id}","params":[{"name":"id","in":"path"},{"name":"z","in":"body","type":"number","required":true},{"name":"a","in":"body"},{"name":"l","type":"array"}]},
 {"name":"post","method":"POST","path":"/api/all","params":[{"name":"x","type":"object"}]},
 {"name":"delete","method":"DELETE","path":"/api/notes/{id}","params":[{"name":"id"},{"name":"force","type":"boolean"}]},
 {"name":"file","method":"GET","path":"/api/files/v{x}{y}.json","params":[{"name":"x"},{"name":"y"}]},
 {"name":"pair","method":"GET","path":"/api/files/{x}{y}/z","params":[{"name":"x"},{"name":"y"}]}]`

func TestCallRoutes(t *testing.T) {
	w := withAPI(t, routes, echo)
	for _, test := range []struct{ tool, arguments, want string }{
		{"get", `{"id":"a bü?#%","n":12345678901234567890.50}`, "GET /base/api/notes/a%20b%C3%BC%3F%23%25/12345678901234567890.50  "},
		{"get", `{"id":"a","n":1,"q":"x&y=1","many":["a",2,true,{"k": [1]}],"o":{"a": "b"},"flag":false,"i":-3}`,
			"GET /base/api/notes/a/1?flag=false&i=-3&many=a&many=2&many=true&many=%7B%22k%22%3A%5B1%5D%7D&o=%7B%22a%22%3A%22b%22%7D&q=x%26y%3D1  "},
		{"get", `{"id":"a","n":1,"q":null,"many":[]}`, "GET /base/api/notes/a/1  "},
		{"put", `{"a":"t","z":1.0,"id":"i","l":[1, {"x":"<"}]}`, `PUT /base/api/notes/i application/json {"z":1.0,"a":"t","l":[1, {"x":"<"}]}`},
		{"post", ``, "POST /base/api/all  "},
		{"post", `null`, "POST /base/api/all  "},
		{"post", `{"x":{}}`, `POST /base/api/all application/json {"x":{}}`},
		{"delete", `{"id":"é","force":true}`, "DELETE /base/api/notes/%C3%A9?force=true  "},
		{"file", `{"x":"1","y":"a..b"}`, "GET /base/api/files/v1a..b.json  "},
	} {
		if got, failed := w.call(test.tool, test.arguments); failed || got != test.want {
			t.Errorf("%s %s:\n got %s\nwant %s", test.tool, test.arguments, got, test.want)
		}
	}
}

// Invalid arguments are reported to the caller, and nothing is sent.
func TestCallRefusesArguments(t *testing.T) {
	w := withAPI(t, routes, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	for arguments, want := range map[string]string{
		`[]`:                                  "object",
		`{`:                                   "object",
		`"x"`:                                 "object",
		`{}`:                                  `"id" is required`,
		`{"id":null,"n":1}`:                   `"id" is required`,
		`{"id":5,"n":1}`:                      `"id" must be of type string`,
		`{"id":"a","n":"1"}`:                  `"n" must be of type number`,
		`{"id":"a","n":1,"many":"x"}`:         `"many" must be of type array`,
		`{"id":"a","n":1,"o":[]}`:             `"o" must be of type object`,
		`{"id":"a","n":1,"flag":"true"}`:      `"flag" must be of type boolean`,
		`{"id":"a","n":1,"i":1.5}`:            `"i" must be of type integer`,
		`{"id":"a","n":1,"nope":1}`:           `unknown parameter "nope"`,
		`{"id":"","n":1}`:                     "a single path segment",
		`{"id":".","n":1}`:                    "a single path segment",
		`{"id":"..","n":1}`:                   "a single path segment",
		`{"id":"../../admin","n":1}`:          "a single path segment",
		`{"id":"a/../b","n":1}`:               "a single path segment",
		`{"id":"..\\b","n":1}`:                "a single path segment",
		`{"id":"%2e%2e","n":1}`:               "a single path segment",
		`{"id":"%252e%252e%252fadmin","n":1}`: "a single path segment",
		`{"id":"a/b","n":1}`:                  "a single path segment",
		`{"id":"a%2fb","n":1}`:                "a single path segment",
		`{"id":"a%5Cb","n":1}`:                "a single path segment",
		`{"id":"a%252Fb","n":1}`:              "a single path segment",
		`{"id":"a\\b","n":1}`:                 "a single path segment",
		`{"id":"a\u0000","n":1}`:              "a single path segment",
		`{"id":"a\r\nX: y","n":1}`:            "a single path segment",
		`{"id":"a","n":1,"q":"` + strings.Repeat("x", maxURL) + `"}`: "longer than 64 KiB",
	} {
		if got, failed := w.call("get", arguments); !failed || !strings.Contains(got, want) {
			t.Errorf("%.80s: %.200s, want %s", arguments, got, want)
		}
	}
	// Each value is harmless, but together they are a dot segment when decoded twice.
	if got, failed := w.call("pair", `{"x":"%","y":"2e%2e"}`); !failed || !strings.Contains(got, "segments") {
		t.Errorf("%s", got)
	}
	if got, failed := w.call("pair", `{"x":"a%","y":"2fb"}`); !failed || !strings.Contains(got, "adds segments to the path") {
		t.Errorf("%s", got)
	}
	if _, err := w.Call(t.Context(), "nope\x1b[31m", nil); !errors.Is(err, ErrUnknownTool) || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("an unknown tool: %v", err)
	}
}

func TestCallAnswers(t *testing.T) {
	var answer http.HandlerFunc
	w := withAPI(t, tool("a"), func(rw http.ResponseWriter, r *http.Request) { answer(rw, r) })
	as := func(status int, kind, body string) {
		answer = func(rw http.ResponseWriter, _ *http.Request) {
			if kind != "" {
				rw.Header().Set("Content-Type", kind)
			}
			rw.WriteHeader(status)
			_, _ = io.WriteString(rw, body)
		}
	}
	for _, test := range []struct {
		status     int
		body, want string
		failed     bool
	}{
		{200, `{"a":"<ü>"}`, `{"a":"<ü>"}`, false},
		{201, "made", "made", false},
		{204, "", "HTTP 204 No Content", false},
		{404, `{"error":"no such note"}`, "GET /api/a: HTTP 404 Not Found\n{\"error\":\"no such note\"}", true},
		{500, "", "GET /api/a: HTTP 500 Internal Server Error", true},
		{304, "", "GET /api/a: HTTP 304 Not Modified", true},
		{299, "odd", "odd", false},
		{599, "\xff\x00", "GET /api/a: HTTP 599\n\ufffd\x00", true},
	} {
		as(test.status, "", test.body)
		if got, failed := w.call("a", ""); got != test.want || failed != test.failed {
			t.Errorf("%d %q: %q, %t", test.status, test.body, got, failed)
		}
	}
	as(500, "", strings.Repeat("ä", 1<<20))
	if got, failed := w.call("a", ""); !failed || len(got) > maxErrorText+100 || !strings.HasSuffix(got, "ä…") {
		t.Errorf("%d bytes of an error", len(got))
	}
	as(200, "", strings.Repeat("x", MaxAnswerBytes+1))
	if got, failed := w.call("a", ""); !failed || !strings.Contains(got, "larger than 50 MiB") {
		t.Errorf("%.200s", got)
	}
	binary := "\x89PNG\xff\x00"
	coded := base64.StdEncoding.EncodeToString([]byte(binary))
	for kind, want := range map[string]string{
		"image/png; x=1":  `{"type":"image","data":"` + coded + `","mimeType":"image/png"}`,
		"audio/wav":       `{"type":"audio","data":"` + coded + `","mimeType":"audio/wav"}`,
		"application/pdf": `{"type":"resource","resource":{"uri":"` + w.server.URL + `/base/api/a","mimeType":"application/pdf","blob":"` + coded + `"}}`,
		";;":              `{"type":"resource","resource":{"uri":"` + w.server.URL + `/base/api/a","mimeType":"application/octet-stream","blob":"` + coded + `"}}`,
	} {
		as(200, kind, binary)
		if got, err := w.Call(t.Context(), "a", nil); err != nil || string(got) != `{"content":[`+want+`]}` {
			t.Errorf("%s: %s, %v", kind, got, err)
		}
	}
}

// Redirects within the origin are followed; others fail before anything is sent.
func TestRedirects(t *testing.T) {
	foreign := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the other origin got %s %s with %v", r.Method, r.URL, r.Header)
	}))
	t.Cleanup(foreign.Close)
	var to string
	w := withAPI(t, tool("a"), func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/here") {
			_, _ = io.WriteString(rw, "here "+r.Header.Get("X-Key"))
			return
		}
		http.Redirect(rw, r, to, http.StatusTemporaryRedirect)
	}, func(o *Options) { o.Header = http.Header{"X-Key": {"k3y"}} })
	to = "/base/api/here"
	if got, failed := w.call("a", ""); failed || got != "here k3y" {
		t.Errorf("%q", got)
	}
	other, _ := url.Parse(foreign.URL)
	for _, to = range []string{foreign.URL + "/x", "//" + other.Host + "/x", "https://" + strings.TrimPrefix(w.server.URL, "http://") + "/base/api/here", "ftp://h/x"} {
		if got, failed := w.call("a", ""); !failed || !strings.Contains(got, "another origin") {
			t.Errorf("%s: %q", to, got)
		}
	}
	to = "/base/api/again"
	if got, failed := w.call("a", ""); !failed || !strings.Contains(got, "more than 5 times") {
		t.Errorf("%q", got)
	}
}

// Only our own headers are sent, no cookie is stored, and no credential is ever logged.
func TestCredentials(t *testing.T) {
	var sent atomic.Pointer[http.Header]
	handle := func(rw http.ResponseWriter, r *http.Request) {
		header := r.Header.Clone()
		header.Set("Host", r.Host)
		sent.Store(&header)
		http.SetCookie(rw, &http.Cookie{Name: "c", Value: "1"})
		rw.WriteHeader(http.StatusTeapot)
	}
	var log bytes.Buffer
	w := withAPI(t, tool("a"), handle, func(o *Options) {
		*o = FromConfig(config.Server{URL: config.NewSecret(strings.Replace(o.URL, "http://", "http://user:pa55@", 1)),
			Headers: map[string]config.Secret{"x-key": config.NewSecret("k3y"), "Host": config.NewSecret("virtual.example")}})
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		jar, _ := cookiejar.New(nil)
		o.Client = &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}
	})
	type inbound struct{}
	ctx := context.WithValue(t.Context(), inbound{}, "Bearer A")
	for range 2 {
		if _, err := w.Call(ctx, "a", nil); err != nil {
			t.Fatal(err)
		}
	}
	header := *sent.Load()
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte("user:pa55"))
	if header.Get("Authorization") != want || header.Get("X-Key") != "k3y" || header.Get("Host") != "virtual.example" || header.Get("Cookie") != "" {
		t.Errorf("sent %v", header)
	}
	for name := range header {
		if !strings.Contains(" Authorization Connection X-Key Host Accept Accept-Encoding User-Agent ", " "+name+" ") {
			t.Errorf("sent %s", name)
		}
	}
	text, _ := w.call("a", "")
	w.server.Close()
	gone, failed := w.call("a", "")
	version, _ := w.call("get_version", "")
	w.end() // ends the log writer
	for _, shown := range []string{text, gone, version, w.display, fmt.Sprintf("%+v", w.Status()), log.String()} {
		if strings.Contains(shown, "pa55") || strings.Contains(shown, "k3y") || strings.Contains(shown, "user") {
			t.Errorf("shown: %s", shown)
		}
	}
	if !failed || !strings.Contains(gone, "refused") || !strings.HasPrefix(gone, "GET /api/a: ") {
		t.Errorf("a server that is gone: %s", gone)
	}
	if !strings.Contains(version, `"server":{"error":"GET /api/version: `) {
		t.Errorf("get_version of a server that is gone: %s", version)
	}
}

// An error of an API that echoes the request leaks no credentials.
func TestErrorsAreRedacted(t *testing.T) {
	const token, path = `t0k"en/+value`, "/s3cr3tpath"
	basic := base64.StdEncoding.EncodeToString([]byte("someuser:pa55word"))
	answers := []func(r *http.Request) string{
		func(r *http.Request) string { return fmt.Sprintf("%v %s", r.Header, r.URL) },
		func(r *http.Request) string { return string(quoted(r.Header.Get("X-Key"))) + r.URL.Path },
		func(r *http.Request) string { return url.QueryEscape(r.Header.Get("X-Key")) },
		func(*http.Request) string { return "key " + token + strings.Repeat("x", maxErrorText) },
		func(*http.Request) string { return strings.Repeat("x", maxErrorText-6) + token },
		func(*http.Request) string { return "someuser pa55word" },
		func(*http.Request) string { return strings.Repeat(token, maxErrorText) },
	}
	n := 0
	w := withAPI(t, tool("a"), func(rw http.ResponseWriter, r *http.Request) {
		rw.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(rw, answers[n](r))
	}, func(o *Options) {
		*o = FromConfig(config.Server{URL: config.NewSecret(strings.Replace(o.URL, "http://", "http://someuser:pa55word@", 1)),
			Headers: map[string]config.Secret{"X-Key": config.NewSecret("Bearer " + token)}, Secrets: []config.Secret{config.NewSecret(path)}})
	})
	for n = range answers {
		got, failed := w.call("a", "")
		if !failed || !strings.Contains(got, "HTTP 403") {
			t.Errorf("%d: %s", n, got)
		}
		for _, secret := range []string{token, "t0k", "en/+", url.QueryEscape(token), basic, "someuser", "pa55word", path} {
			if strings.Contains(got, secret) {
				t.Errorf("%d: %s in %.300s", n, secret, got)
			}
		}
	}
}

func TestGetVersion(t *testing.T) {
	w := withAPI(t, "[]", echo)
	want := `{"mcptrack":{"version":"9.9"},"server":{"version":"1.2","build":"b7","commit":"abc"}}`
	if got, failed := w.call("get_version", "{}"); failed || got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// A call ends with its context, and after Options.Timeout.
func TestCallEnds(t *testing.T) {
	free := make(chan struct{})
	asked := make(chan struct{}, 2)
	w := withAPI(t, tool("a"), func(http.ResponseWriter, *http.Request) { asked <- struct{}{}; <-free },
		func(o *Options) { o.Timeout = 1 })
	if got, failed := w.call("a", ""); !failed || !strings.Contains(got, "no response within 1ns") {
		t.Errorf("%s", got)
	}
	w.opts.Timeout = DefaultTimeout
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	go func() { <-asked; cancel(enough) }()
	if _, err := w.Call(ctx, "a", nil); !errors.Is(err, enough) {
		t.Errorf("%v", err)
	}
	close(free)
}

func TestNewRefuses(t *testing.T) {
	for _, address := range []string{"", "::", "h/x", "ftp://h", "http://", "http:///x", "https://h?x=pa55", "https://h/?", "https://h#pa55", "https://u:pa55@h:port/"} {
		if _, err := New(Options{URL: address}); err == nil || strings.Contains(err.Error(), "pa55") {
			t.Errorf("%q: %v", address, err)
		}
	}
	if _, err := New(Options{URL: "http://h", Interval: -1}); err == nil {
		t.Error("a negative interval")
	}
	u, err := New(Options{URL: " HTTPS://u:p@h.example:1/a%2Fb// "})
	if err != nil || u.display != "https://h.example:1/a%2Fb" {
		t.Errorf("%v, %v", u, err)
	}
	if c := u.Catalog(); len(c.Tools) != 1 || c.Tools[0].Key != getVersion {
		t.Errorf("%+v", c)
	}
}
