package servercard_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mcptrack/mcptrack/core/guarded"
	"github.com/mcptrack/mcptrack/core/ipscope/ipscopetest"
	"github.com/mcptrack/mcptrack/core/servercard"
)

// internet is hosts that are reached through a proxy, as a public host is in an environment with one. It
// serves documents by URL and records the requests.
type internet struct {
	pages map[string]string // by URL; "-> URL" is a redirect, "<html" a page
	mu    sync.Mutex
	asked []string // URLs
}

func (n *internet) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	u := "http://" + q.Host + q.URL.Path
	n.mu.Lock()
	n.asked = append(n.asked, u)
	n.mu.Unlock()
	page, ok := n.pages[u]
	to, redirect := strings.CutPrefix(page, "-> ")
	switch {
	case !ok:
		http.NotFound(w, q)
	case redirect:
		http.Redirect(w, q, to, http.StatusFound)
	case strings.HasPrefix(page, "<html"):
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, page)
	default:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, page)
	}
}

// discover looks for cards with http://public.example, or another address, on the internet.
func (n *internet) discover(t *testing.T, address string) (*servercard.Result, error) {
	t.Helper()
	a, err := servercard.ParseAddress(address)
	must(t, err)
	s := httptest.NewServer(n)
	defer s.Close()
	proxy, err := url.Parse(s.URL)
	must(t, err)
	return servercard.Discover(t.Context(), a, servercard.Options{Guard: guarded.Options{
		Proxy: func(*http.Request) (*url.URL, error) { return proxy, nil },
		Resolver: ipscopetest.Resolver(func(host string, _ int) []string {
			return map[string][]string{"public.example": {"93.184.215.14"}, "mcp.example": {"93.184.215.15"},
				"rebind.example": {"10.0.0.2"}, "mixed.example": {"93.184.215.14", "127.0.0.1"}, "meta.example": {"169.254.169.254"}}[host]
		}),
	}})
}

func card(name string, urls ...string) string {
	c := servercard.Card{Schema: servercard.Schema, Name: "com.example/" + name, Version: "1.0.0", Description: "It is " + name + "."}
	for _, u := range urls {
		c.Remotes = append(c.Remotes, servercard.Remote{Type: servercard.StreamableHTTP, URL: u})
	}
	text, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Every place is tried in order, until one has a card; catalogs contain cards or lead to them.
func TestPlaces(t *testing.T) {
	t.Parallel()
	const at = "http://public.example"
	one := card("one", "https://mcp.example/mcp")
	entry := func(member, value string) string {
		return `{"specVersion":"1.0","entries":[{"identifier":"a","type":"application/a2a-agent-card+json","url":"http://public.example/a2a"},{"identifier":"x","` + member + `",` + value + `}]}`
	}
	byType := `type":"application/mcp-server-card+json`
	for _, c := range []struct {
		address string
		pages   map[string]string
		want    string // names of the cards, or part of the error
		asked   []string
	}{
		{at, map[string]string{at + servercard.CatalogPath: entry(byType, `"data":`+one)}, "com.example/one", []string{"/.well-known/ai-catalog.json"}},
		{at, map[string]string{at + servercard.CatalogPath: entry(byType, `"url":"/card"`), at + "/card": one}, "com.example/one", []string{"/.well-known/ai-catalog.json", "/card"}},
		{at, map[string]string{at + servercard.CatalogPath: entry(`mediaType":"application/mcp-server+json`, `"url":"/card"`), at + "/card": one}, "com.example/one", nil},
		{at, map[string]string{at + servercard.CatalogPath: entry(`type":"application/ai-catalog+json`, `"url":"/more.json"`), at + "/more.json": entry(byType, `"data":`+one)}, "com.example/one", nil},
		{at, map[string]string{at + "/server-card": one}, "com.example/one", []string{"/.well-known/ai-catalog.json", "/server-card"}},
		{at + "/", map[string]string{at + servercard.CardPath: one}, "com.example/one", []string{"/.well-known/ai-catalog.json", "/server-card", "/.well-known/mcp/server-card.json"}},
		{at, map[string]string{at + "/.well-known/mcp/catalog.json": entry(byType, `"data":`+one)}, "com.example/one", nil},
		{at, map[string]string{at + "/.well-known/ard.json": entry(byType, `"data":`+one)}, "com.example/one", nil},
		{at, map[string]string{at + servercard.CatalogPath: "-> /moved.json", at + "/moved.json": entry(byType, `"data":`+one)}, "com.example/one", nil},
		{at + "/cards/x.json", map[string]string{at + "/cards/x.json": one}, "com.example/one", []string{"/cards/x.json"}},
		// the URL of an endpoint: its own card first, and only what has it as a remote
		{at + "/mcp", map[string]string{at + "/mcp/server-card": card("own", at+"/mcp", "https://mcp.example/mcp")}, "com.example/own", []string{"/mcp/server-card"}},
		{at + "/mcp", map[string]string{at + servercard.CatalogPath: entry(byType, `"data":`+one)}, "the card of com.example/one, which has other endpoints", nil},
		// what is not a card
		{at, nil, "http://public.example has no usable server card (tried /.well-known/ai-catalog.json: HTTP status 404; /server-card: HTTP status 404; /.well-known/mcp/server-card.json: HTTP status 404; ", nil},
		{at, map[string]string{at + servercard.CatalogPath: "<html>"}, "ai-catalog.json: an HTML page", nil},
		{at, map[string]string{at + servercard.CatalogPath: `{"entries":[]}`}, "a catalog without MCP servers", nil},
		{at, map[string]string{at + servercard.CatalogPath: "-> https://elsewhere.example/x"}, "redirects to another origin, https://elsewhere.example/x, which is not followed", nil},
		{at, map[string]string{at + "/server-card": "[]"}, "server-card: it is not a JSON object", nil},
		{at, map[string]string{at + "/server-card": `{"a":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + "}"}, "nested more than 64 levels deep", nil},
		{at, map[string]string{at + "/server-card": `{"a":"` + strings.Repeat("a", 600<<10) + `"}`}, "the response is larger than", nil},
		{at, map[string]string{at + "/server-card": card("none")}, "the card of com.example/none, which has no remotes", nil},
		{at, map[string]string{at + "/server-card": `{"name":["a"]}`}, `not a server card: member "name" has the wrong type`, nil},
		{at, map[string]string{at + "/server-card": `{"version":"1"}`}, "not a server card: it has no usable name", nil},
	} {
		n := &internet{pages: c.pages}
		r, err := n.discover(t, c.address)
		var got string
		if err != nil {
			got = err.Error()
		} else {
			for _, l := range r.Cards {
				got += l.Name
			}
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s %v: %s, want %s", c.address, c.pages, got, c.want)
		}
		if err == nil && len(r.Cards[0].Usable) != 1 {
			t.Errorf("%s: remotes %v", c.address, r.Cards[0].Usable)
		}
		var paths []string
		for _, u := range n.asked {
			paths = append(paths, strings.TrimPrefix(u, at))
		}
		if c.asked != nil && !slices.Equal(paths, c.asked) {
			t.Errorf("%s: asked for %v", c.address, paths)
		}
	}
}

// hostileURLs are what a public server must not lead to, with the reason that users read.
func hostileURLs() map[string]string {
	urls := map[string]string{
		"http://mcp.example/mcp":             "is not https",
		"https://user:pw@mcp.example/mcp":    "contains a user or a password",
		"https://localhost/mcp":              "is a private address",
		"https://a.localhost/mcp":            "is a private address",
		"https://rebind.example/mcp":         "the host has a private address",
		"https://mixed.example/mcp":          "the host has a private address",
		"https://meta.example/latest":        "the host has a private address",
		"ftp://mcp.example/mcp":              "https",
		"file:///etc/passwd":                 "valid URL",
		"javascript:alert(1)":                "valid URL",
		"https:mcp.example":                  "valid URL",
		"https://mcp.example/\u202e":         "valid URL",
		"https://[::ffff:169.254.169.254]/x": "is a private address",
	}
	for _, address := range ipscopetest.NotPublic() {
		if strings.Contains(address, ":") {
			address = "[" + address + "]"
		}
		urls["https://"+address+"/mcp"] = "is a private address"
		urls["http://"+address+"/mcp"] = " " // not https, or private
	}
	return urls
}

// An entry of a catalog leads nowhere but to public hosts, and a card has no other remotes; nothing is
// sent there.
func TestHostileURLs(t *testing.T) {
	t.Parallel()
	const at = "http://public.example"
	for hostile, why := range hostileURLs() {
		quoted, _ := json.Marshal(hostile)
		for what, pages := range map[string]map[string]string{
			"entry":    {at + servercard.CatalogPath: `{"entries":[{"type":"application/mcp-server-card+json","url":` + string(quoted) + `}]}`},
			"catalog":  {at + servercard.CatalogPath: `{"entries":[{"type":"application/ai-catalog+json","url":` + string(quoted) + `}]}`},
			"redirect": {at + servercard.CatalogPath: `{"entries":[{"type":"application/mcp-server-card+json","url":"/card"}]}`, at + "/card": "-> " + hostile},
			"remote":   {at + "/server-card": card("x", hostile)},
			"default":  {at + "/server-card": `{"name":"a/b","remotes":[{"type":"sse","url":"{u}","variables":{"u":{"default":` + string(quoted) + `}}}]}`},
		} {
			n := &internet{pages: pages}
			_, err := n.discover(t, at)
			none, ok := errors.AsType[*servercard.NotFoundError](err)
			if !ok {
				t.Errorf("%s %s is accepted: %v", what, hostile, err)
				continue
			}
			if what != "redirect" && !strings.Contains(strings.ReplaceAll(none.Error(), "neither a valid", "no valid"), why) {
				t.Errorf("%s %s: %v", what, hostile, none)
			}
			if strings.Contains(none.Error(), "pw") || strings.Contains(none.Error(), "\u202e") {
				t.Errorf("%s %s: the error has it: %v", what, hostile, none)
			}
			for _, u := range n.asked {
				if !strings.HasPrefix(u, at+"/") {
					t.Errorf("%s %s: a request was sent to %s", what, hostile, u)
				}
			}
		}
	}
}

// Templates of URLs hide no address.
func TestTemplates(t *testing.T) {
	t.Parallel()
	for template, c := range map[string]struct {
		variables string
		want      string // the example, or part of an error
	}{
		"https://{tenant}.example.com/mcp":  {`{"tenant":{"default":"default"}}`, "https://default.example.com/mcp"},
		"https://{tenant}.example.net/mcp":  {`{}`, "https://tenant.example.net/mcp"},
		"https://{a}.example.com/{b}":       {`{"a":{"value":"x"},"b":{"default":"y"}}`, "https://x.example.com/y"},
		"{url}":                             {`{}`, "none"},
		"{base}/mcp":                        {`{}`, "none"},
		"{scheme}://169.254.169.254/":       {`{}`, "neither https nor http"},
		"{x}//169.254.169.254/":             {`{}`, "no valid URL"},
		"https://{t}.example.com/mcp":       {`{"t":{"default":"169.254.169.254/"}}`, "https://169.254.169.254/.example.com/mcp"},
		"https://{u}example.com/mcp":        {`{"u":{"default":"me:pw@"}}`, "contains a user or a password"},
		"https://example.com/{not-a-name}":  {`{}`, "https://example.com/%7Bnot-a-name%7D"},
		"https://example.com/{a}{b}{c}{d}/": {`{"a":{"default":"1"}}`, "https://example.com/1bcd/"},
	} {
		c2, err := servercard.Parse([]byte(`{"name":"a/b","remotes":[{"type":"sse","url":"` + template + `","variables":` + c.variables + `}]}`))
		must(t, err)
		u, err := c2.Remotes[0].Example()
		got := "none"
		switch {
		case err != nil:
			got = err.Error()
		case u != nil:
			got = u.String()
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", template, got, c.want)
		}
	}
}

// A user who names this machine reaches it, and its card leads to it, under any name, but to no other
// private host.
func TestThisMachine(t *testing.T) {
	t.Parallel()
	var page string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path != "/mcp/server-card" {
			http.NotFound(w, q)
			return
		}
		fmt.Fprint(w, page)
	}))
	defer s.Close()
	a, err := servercard.ParseAddress(s.URL + "/mcp/server-card")
	must(t, err)
	port := a.URL.Port()
	page = card("local", s.URL+"/mcp", "http://localhost:"+port+"/mcp", "https://10.0.0.1/mcp", "http://169.254.169.254/mcp", "https://[fd00::1]/mcp")
	r, err := servercard.Discover(t.Context(), a, servercard.Options{})
	must(t, err)
	if len(r.Cards) != 1 || len(r.Cards[0].Usable) != 2 || len(r.Cards[0].Refused) != 3 || len(r.Refused) != 0 {
		t.Errorf("%+v", r.Cards)
	}
}

// One discovery makes a bounded number of requests, whatever catalogs contain.
func TestBounds(t *testing.T) {
	t.Parallel()
	const at = "http://public.example"
	var many, loop []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf(`{"type":"application/mcp-server-card+json","url":"/c%d"}`, i))
		loop = append(loop, fmt.Sprintf(`{"type":"application/ai-catalog+json","url":"/.well-known/ai-catalog.json?%d"}`, i))
	}
	var inline []string
	for i := range 1000 {
		inline = append(inline, `{"type":"application/mcp-server-card+json","data":`+card(fmt.Sprint("s", i), "https://mcp.example/"+fmt.Sprint(i))+`}`)
	}
	for what, entries := range map[string][]string{"cards": many, "loop": loop, "inline": inline} {
		n := &internet{pages: map[string]string{at + servercard.CatalogPath: `{"entries":[` + strings.Join(entries, ",") + `]}`}}
		r, err := n.discover(t, at)
		if len(n.asked) > 24 || err == nil && len(r.Cards) > 32 {
			t.Errorf("%s: %d requests, %v", what, len(n.asked), err)
		}
	}
}

// A host that does not answer is asked once.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.NotFoundHandler())
	address := s.URL
	s.Close()
	a, err := servercard.ParseAddress(address)
	must(t, err)
	_, err = servercard.Discover(t.Context(), a, servercard.Options{})
	if none, ok := errors.AsType[*servercard.NotFoundError](err); !ok || !none.Unreachable || len(none.Tried) != 1 {
		t.Errorf("%v", err)
	}
}

// What looks like an address, and what it is.
func TestAddresses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"resend.com": "https://resend.com", "resend.com/mcp": "https://resend.com/mcp", "https://resend.com": "https://resend.com",
		"localhost": "http://localhost", "127.0.0.1:8723": "http://127.0.0.1:8723", "[::1]:80/x": "http://[::1]:80/x", "::1": "http://[::1]",
		"HTTP://Example.com/A": "http://example.com/A", "host:8080": "https://host:8080",
		"claude-code": "", "docs": "", "my.x": "", "": "", "a b.com": "",
		"ftp://x.example": "error", "https://u:p@x.example": "error", "u:p@x.example": "", "https://x.example/?q": "error", "https://x.example#f": "error",
		"https://": "error", "https://x.example/ä": "error", "https:///mcp": "error",
	} {
		got := ""
		if servercard.IsAddress(text) {
			a, err := servercard.ParseAddress(text)
			if got = "error"; err == nil {
				got = a.URL.String()
			}
		}
		if got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

// The official examples are read.
func TestOfficialExamples(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"minimal.json", "templated-remote.json"} {
		data, err := os.ReadFile(filepath.Join("testdata", "official", name))
		must(t, err)
		if c, err := servercard.Parse(data); err != nil || c.Schema != servercard.Schema || c.Label() == "" {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
