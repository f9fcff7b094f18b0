package gateway_test

import (
	"net/http"
	"testing"
)

// The endpoint is served with and without a slash at the end.
func TestSlashAfterThePath(t *testing.T) {
	t.Parallel()
	w := newIdentityWorld(t, "a")
	w.start()
	for _, slash := range []string{"", "/"} {
		w.url += slash
		p := w.post(t.Context(), "tools/list", map[string]any{})
		_ = p.Body.Close()
		if p.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", w.url, p.Status)
		}
	}
}
