package lock_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/mcptrack/mcptrack/commands"
	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/commands/internal/cli/clitest"
)

// lock and verify also ask HTTP catalogs.
func TestCatalogs(t *testing.T) {
	text := "good"
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/version", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"build":"1"}`) })
	mux.HandleFunc("GET /api/mcp/tools", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `[{"name":"things","description":%q,"method":"GET","path":"/api/things","params":[]}]`, text)
	})
	ts := httptest.NewServer(mux)
	defer ts.Close()
	b := clitest.New(t, commands.Main)
	if err := os.WriteFile(b.Getenv("MCPTRACK_CONFIG"), fmt.Appendf(nil, `{"servers": {"api": {"type": "catalog", "url": %q}}}`, ts.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		text, command string
		want          int
	}{{"good", "lock", cli.ExitOK}, {"good", "verify", cli.ExitOK}, {"evil", "verify", 7}} {
		text = step.text
		if code, out := b.Run(t, step.command, "api"); code != step.want {
			t.Errorf("%s with %s: exit %d, want %d: %s%s", step.command, step.text, code, step.want, out, b.Stderr.String())
		}
	}
}
