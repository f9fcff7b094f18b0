package remote

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
)

// An endless response is abandoned at the size limit, and redirects are not followed.
func TestAnswersAreBounded(t *testing.T) {
	var requests atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, "/moved", http.StatusFound)
			return
		}
		for piece := bytes.Repeat([]byte(" "), 1<<20); ; {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}))
	defer srv.Close()
	base, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := Client{Base: base}
	var into any
	if refused, ok := errors.AsType[*RefusedError](c.Get(t.Context(), []string{"endless"}, nil, &into)); !ok || refused.Status != http.StatusOK {
		t.Errorf("%v", refused)
	}
	requests.Store(0)
	if status, ok := errors.AsType[*RefusedError](c.Get(t.Context(), []string{"moved"}, nil, &into)); !ok || status.Status != http.StatusFound || requests.Load() != 1 {
		t.Errorf("%v after %d requests", status, requests.Load())
	}
}
