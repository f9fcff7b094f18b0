package servercard_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/servercard"
)

// The card of an endpoint is requested where it may be, conditionally, and without credentials; only the
// server can say that it is gone.
func TestFetch(t *testing.T) {
	t.Parallel()
	var asked []string
	pages := map[string]string{}
	status := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		asked = append(asked, q.URL.RequestURI()+q.Header.Get("If-None-Match"))
		if q.Header.Get("Authorization")+q.Header.Get("Cookie") != "" {
			t.Errorf("credentials are sent: %v", q.Header)
		}
		page, ok := pages[q.URL.Path]
		switch {
		case status != 0:
			w.WriteHeader(status)
		case !ok:
			http.NotFound(w, q)
		case q.Header.Get("If-None-Match") == `"`+fmt.Sprint(len(page))+`"`:
			w.WriteHeader(http.StatusNotModified)
		default:
			w.Header().Set("ETag", `"`+fmt.Sprint(len(page))+`"`)
			fmt.Fprint(w, page)
		}
	}))
	defer s.Close()
	endpoint := s.URL + "/mcp"
	var last servercard.Seen
	step := func(what string, fails bool, name string, requests ...string) {
		t.Helper()
		asked = nil
		seen, err := servercard.Fetch(t.Context(), endpoint+"?key=secret", last)
		got := ""
		if seen.Card != nil {
			got = seen.Card.Name
		}
		if (err != nil) != fails || got != name || strings.Join(asked, " ") != strings.Join(requests, " ") {
			t.Errorf("%s: %q, %v, asked for %v", what, got, err, asked)
		}
		last = seen
	}
	step("none", false, "", "/mcp/server-card", "/.well-known/mcp/server-card.json")
	status = http.StatusUnauthorized
	step("all needs a login", false, "", "/mcp/server-card", "/.well-known/mcp/server-card.json")
	status = http.StatusInternalServerError
	step("broken", true, "", "/mcp/server-card")
	status = 0
	pages["/.well-known/mcp/server-card.json"] = card("other", s.URL+"/other")
	step("of another server", false, "", "/mcp/server-card", "/.well-known/mcp/server-card.json")
	pages["/.well-known/mcp/server-card.json"] = card("draft", endpoint)
	step("of a draft", false, "com.example/draft", "/mcp/server-card", "/.well-known/mcp/server-card.json")
	before := last.Digest
	tag := `"` + fmt.Sprint(len(pages["/.well-known/mcp/server-card.json"])) + `"`
	step("the same", false, "com.example/draft", "/.well-known/mcp/server-card.json"+tag)
	pages["/.well-known/mcp/server-card.json"] += " "
	step("other white space", false, "com.example/draft", "/.well-known/mcp/server-card.json"+tag)
	if last.Digest != before || before.IsZero() {
		t.Error("the digest depends on white space")
	}
	status = http.StatusServiceUnavailable
	step("busy", true, "com.example/draft", "/.well-known/mcp/server-card.json"+`"`+fmt.Sprint(len(pages["/.well-known/mcp/server-card.json"]))+`"`)
	status = http.StatusForbidden
	step("refused", true, "com.example/draft", "/.well-known/mcp/server-card.json"+`"`+fmt.Sprint(len(pages["/.well-known/mcp/server-card.json"]))+`"`)
	status = 0
	pages["/.well-known/mcp/server-card.json"] = "<html>"
	step("no JSON any more", true, "com.example/draft", "/.well-known/mcp/server-card.json"+`"`+fmt.Sprint(len(card("draft", endpoint))+1)+`"`)
	delete(pages, "/.well-known/mcp/server-card.json")
	step("gone", false, "", "/.well-known/mcp/server-card.json"+`"`+fmt.Sprint(len(card("draft", endpoint))+1)+`"`)
	pages["/mcp/server-card"] = card("own")
	step("its own", false, "com.example/own", "/mcp/server-card")
}
