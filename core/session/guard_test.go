package session

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// Whatever the transport asks for, credentials go to one origin.
func TestGuardKeepsToItsOrigin(t *testing.T) {
	var hits int
	ts := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits++ }))
	defer ts.Close()
	origin, _ := url.Parse("http://origin.test/mcp")
	base := newBase()
	defer base.CloseIdleConnections()
	g := &guard{base: base, origin: origin, headers: http.Header{"Authorization": {"Bearer x"}}, redact: newRedactor(nil)}
	for _, target := range []string{ts.URL, "https://origin.test/mcp", "http://origin.test:81/mcp"} {
		q, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, target+"?q=secret", strings.NewReader("x"))
		p, err := g.RoundTrip(q)
		if err == nil {
			p.Body.Close()
			t.Errorf("%s was asked", target)
		} else if strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "another origin") {
			t.Errorf("%v", err)
		}
	}
	if hits != 0 {
		t.Errorf("%d requests left", hits)
	}
}
