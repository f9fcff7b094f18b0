package remote

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/printable"
)

// The errors about a program other than serve-sse say what it is, not what it did not say.
func TestOtherPrograms(t *testing.T) {
	page := func(contentType string) *httptest.Server {
		return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			_, _ = io.WriteString(w, "<html>")
		}))
	}
	ssh := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, _ := http.NewResponseController(w).Hijack()
		_, _ = io.WriteString(c, "SSH-2.0-OpenSSH_9.6\r\n")
		_ = c.Close()
	}))
	for srv, want := range map[*httptest.Server]string{page("text/html; charset=utf-8"): "responded with text/html", page("\x1b[2Jx"): "headers that are not valid", ssh: "does not speak HTTP"} {
		t.Cleanup(srv.Close)
		base, err := url.Parse(srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		var into map[string]any
		client := Client{Base: base}
		for what, err := range map[string]error{
			"status": client.Get(t.Context(), []string{"api", "status"}, nil, &into),
			"feed":   Follow(t.Context(), FeedOptions{URL: srv.URL, MustConnect: true}, nil),
		} {
			text := printable.Reason(err, 500)
			if !strings.Contains(text, want) {
				t.Errorf("%s: %s, want %s", what, text, want)
			}
			for _, other := range []string{"invalid character", "net/http", "malformed", "HTTP 415", "status 415", "\x1b"} {
				if strings.Contains(text, other) {
					t.Errorf("%s: %s", what, text)
				}
			}
		}
	}
}
