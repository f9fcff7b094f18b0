package daemon_test

import (
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/config"
)

// The endpoint of a server is served with and without a slash at the end of its path.
func TestHTTPSlash(t *testing.T) {
	t.Parallel()
	w, base, _ := startHTTP(t, nil)
	to := endpointURL(base, "a", w.folder(map[string]string{"a": ""}))
	for _, to := range []string{to, strings.Replace(to, "?", "/?", 1)} {
		if got := w.call(w.over(to, config.ProtocolLegacy), "echo", map[string]any{"text": "x"}); got != "x" {
			t.Errorf("%s: %s", to, got)
		}
	}
}
