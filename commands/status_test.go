package commands

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/commands/internal/cli/clitest"
)

// -o name prints only the ids of the servers, made printable.
func TestStatusNames(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/status", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"version":"1"}`)
	})
	mux.HandleFunc("GET /api/servers", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `[{"id":"docs"},{"id":"two\nlines"}]`)
	})
	running := httptest.NewServer(mux)
	defer running.Close()
	var out, errs clitest.Buffer
	env := &cli.Env{Out: &out, Err: &errs, LookupEnv: func(string) (string, bool) { return "", false }}
	if code := Main(t.Context(), env, []string{"status", running.URL, "-o", "name"}); code != cli.ExitOK {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	if got := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n"); len(got) != 2 || got[0] != "docs" || !strings.HasPrefix(got[1], "two") {
		t.Errorf("%q", out.String())
	}
}
