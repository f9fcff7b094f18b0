package observe_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/lock/observe"
)

// An HTTP catalog has its tools and how it is reached. One that cannot be read has no observation.
func TestCatalog(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/version", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"build":"1"}`) })
	mux.HandleFunc("GET /api/mcp/tools", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `[{"name":"things","description":"d","method":"GET","path":"/api/things","params":[]}]`)
	})
	ts := httptest.NewServer(mux)
	defer ts.Close()
	entry := config.Server{ID: "api", Enabled: true, Transport: config.TransportCatalog, URL: config.NewSecret(ts.URL)}
	got := observe.Servers(t.Context(), []config.Server{entry}, observe.Options{})[0]
	if got.Err != nil {
		t.Fatalf("%+v", got)
	}
	if items, want := offered(t, got.Offered), []string{"launch", "tools get_version", "tools things"}; !slices.Equal(items, want) {
		t.Errorf("%q, want %q", items, want)
	}
	ts.Close()
	if got := observe.Servers(t.Context(), []config.Server{entry}, observe.Options{})[0]; got.Err == nil || got.Offered != nil {
		t.Errorf("%+v", got)
	}
}
