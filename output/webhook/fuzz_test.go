package webhook

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// FuzzURL: a client's URL that is accepted is one of an HTTPS request to the host that
// was checked, without credentials.
func FuzzURL(f *testing.F) {
	for _, raw := range []string{hook, "https://a:8443/x?y=z", "https://[2606:4700::1]/", "https://a@b/", "https://a\\@b/", "http://127.0.0.1/", "https://a/#", "https://%61/", "https:a", "//a", "https://a:443:1/"} {
		f.Add(raw)
	}
	g := new(guard)
	f.Fuzz(func(t *testing.T, raw string) {
		if g.checkURL(raw) != nil {
			return
		}
		q, err := http.NewRequest(http.MethodPost, raw, nil)
		if err != nil {
			return // nothing is sent
		}
		u, err := url.Parse(raw)
		if err != nil || !strings.HasPrefix(strings.ToLower(raw), "https://") || q.URL.Scheme != "https" || q.URL.Hostname() != u.Hostname() || q.URL.Port() != u.Port() || q.URL.User != nil || u.Hostname() == "" || len(raw) > maxURL {
			t.Errorf("%q: %+v", raw, q.URL)
		}
	})
}
