package servercard_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/mcptrack/mcptrack/core/servercard"
)

// Our card is valid by the official schema, and its catalog leads to it, as Discover finds it.
func TestOwnCard(t *testing.T) {
	t.Parallel()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	schema, err := c.Compile("testdata/official/schema.json#/$defs/ServerCard")
	must(t, err)
	for _, token := range []bool{false, true} {
		own := servercard.Own{Name: "mcptrack-test", Title: "Test", Description: "A test.", Version: "1.2.3", Path: "/mcp", Token: token}
		mux := http.NewServeMux()
		s := httptest.NewServer(mux)
		defer s.Close()
		for path, h := range own.Routes(func(q *http.Request) string { return "http://" + q.Host }) {
			mux.Handle(path, h)
		}
		for _, path := range []string{"/mcp/server-card", "/.well-known/mcp/server-card.json", "/.well-known/ai-catalog.json"} {
			p, text := ask(t, http.MethodGet, s.URL+path, "")
			want := servercard.CardType
			if path == servercard.CatalogPath {
				want = servercard.CatalogType
			}
			if p.StatusCode != http.StatusOK || p.Header.Get("Content-Type") != want || p.Header.Get("Cache-Control") != "public, max-age=3600" || p.Header.Get("ETag") == "" {
				t.Errorf("%s: %d %v", path, p.StatusCode, p.Header)
			}
			if path != servercard.CatalogPath {
				doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
				if err == nil {
					err = schema.Validate(doc)
				}
				if err != nil {
					t.Errorf("%s: %v\n%s", path, err, text)
				}
			}
			for known, status := range map[string]int{p.Header.Get("ETag"): 304, `"x", W/` + p.Header.Get("ETag"): 304, "*": 304, `"x"`: 200} {
				if again, body := ask(t, http.MethodGet, s.URL+path, known); again.StatusCode != status || (status == 304) != (body == "") {
					t.Errorf("%s with If-None-Match %s: %d %q", path, known, again.StatusCode, body)
				}
			}
			if p, _ := ask(t, http.MethodPost, s.URL+path, ""); p.StatusCode != http.StatusMethodNotAllowed {
				t.Errorf("POST %s: %d", path, p.StatusCode)
			}
		}
		a, err := servercard.ParseAddress(s.URL)
		must(t, err)
		r, err := servercard.Discover(t.Context(), a, servercard.Options{})
		must(t, err)
		remote := r.Cards[0].Usable[0]
		if len(r.Tried) != 1 || r.Cards[0].Name != "io.github.mcptrack/mcptrack-test" || remote.URL != s.URL+"/mcp" || len(remote.Headers) > 0 != token {
			t.Errorf("%+v, tried %v", r.Cards, r.Tried)
		}
	}
	// The schema says what the tests rely on.
	for text, valid := range map[string]bool{`{}`: false, `{"$schema":"` + servercard.Schema + `","name":"a/b","version":"1","description":"x"}`: true,
		`{"$schema":"` + servercard.Schema + `","name":"a","version":"1","description":"x"}`: false} {
		var doc any
		must(t, json.Unmarshal([]byte(text), &doc))
		if err := schema.Validate(doc); (err == nil) != valid {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func ask(t *testing.T, method, url, etag string) (*http.Response, string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	must(t, err)
	if etag != "" {
		q.Header.Set("If-None-Match", etag)
	}
	p, err := http.DefaultClient.Do(q)
	must(t, err)
	defer func() { _ = p.Body.Close() }()
	text, err := io.ReadAll(p.Body)
	must(t, err)
	return p, string(text)
}
