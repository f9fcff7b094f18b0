package web_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/output/web"
)

// TestOpenHandlersNeedNoToken: only what is declared open is, up to the size it declares;
// the check of names is not lifted, and no spelling of a path gets past the token.
func TestOpenHandlersNeedNoToken(t *testing.T) {
	body := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		_, _ = io.WriteString(w, strings.Repeat("x", int(min(n, 3))))
	})
	_, base := start(t, web.Options{Tokens: token(t)}, func(s *web.Server) {
		s.Handle("/hooks/", web.Open{Handler: body, MaxBody: 200 << 10})
		s.Handle("/other/", http.NotFoundHandler())
	})
	for _, c := range []struct {
		path   string
		header header
		size   int
		want   int
	}{
		{"/hooks/a", nil, 3, http.StatusOK},
		{"/hooks/a", nil, 200 << 10, http.StatusOK},
		{"/hooks/a", nil, 200<<10 + 1, http.StatusRequestEntityTooLarge},
		{"/hooks/a", header{"Origin": "https://evil.example"}, 3, http.StatusForbidden},
		{"/hooks", nil, 3, http.StatusUnauthorized}, // the mux would redirect
		{"/other/a", nil, 3, http.StatusUnauthorized},
		{"/hooks/../other/a", nil, 3, http.StatusUnauthorized},
		{"/hooks/%2e%2e/other/a", nil, 3, http.StatusOK}, // of /hooks/, as the mux reads it
		{"//hooks/a", nil, 3, http.StatusUnauthorized},
	} {
		res, text := ask(t, "POST", base+c.path, c.header, strings.Repeat("b", c.size))
		if res.StatusCode != c.want {
			t.Errorf("%s of %d bytes with %v: %s %s", c.path, c.size, c.header, res.Status, text)
		}
	}
}
