package doctor

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/mcptrack/mcptrack/output/web"
)

// A port is ours if a server of mcptrack answers there, and not if another program does.
func TestHealthy(t *testing.T) {
	t.Parallel()
	srv, err := web.New(web.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := srv.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1) // sent to once; never closed
	go func() { served <- srv.Serve(ctx, ln) }()
	if !healthy(t.Context(), address) {
		t.Error("a server of mcptrack is not recognised")
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if healthy(t.Context(), address) {
		t.Error("nothing listens any more")
	}
	for name, h := range map[string]http.HandlerFunc{
		"text":    func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") },
		"missing": http.NotFound,
		"moved": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://"+address, http.StatusFound)
		},
	} {
		other := httptest.NewServer(h)
		if healthy(t.Context(), other.Listener.Addr().String()) {
			t.Errorf("%s: another program is taken for mcptrack", name)
		}
		other.Close()
	}
}
