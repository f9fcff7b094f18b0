package commands

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/commands/internal/cli/clitest"
)

// A template is run once for each server. States are words for people and the names of the events in
// JSON; times are local on a terminal, and have their zone in a pipe.
func TestStatusForPeopleAndPrograms(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/status", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"version":"1","webhooks":[{"host":"hooks.example","state":"failing","lastDelivery":"2026-11-24T10:20:18.250Z"}]}`)
	})
	mux.HandleFunc("GET /api/servers", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `[{"id":"docs","state":"NeedsAuth","since":"2026-11-24T10:20:19.250Z"},{"id":"wiki","state":"Ready"}]`)
	})
	running := httptest.NewServer(mux)
	defer running.Close()
	local := func(sec int) string {
		return time.Date(2026, 11, 24, 10, 20, sec, 0, time.UTC).Local().Format("2006-01-02 15:04:05")
	}
	for name, tt := range map[string]struct {
		tty  bool
		args []string
		want []string
	}{
		"names":    {false, []string{"-o", "name"}, []string{"docs\nwiki\n"}},
		"template": {false, []string{"-o", "template={{.id}} is {{.state}}"}, []string{"docs is NeedsAuth\nwiki is Ready\n"}},
		"pipe":     {false, nil, []string{"docs    needs login  2026-11-24T10:20:19.250Z", "wiki    ready        -", "2026-11-24T10:20:18.250Z"}},
		"terminal": {true, []string{"--color=never"}, []string{"docs    needs login  " + local(19) + " ", local(18)}},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs clitest.Buffer
			env := &cli.Env{Out: &out, Err: &errs, OutTTY: tt.tty, Size: func() (int, int) { return 120, 40 }, LookupEnv: func(string) (string, bool) { return "", false }}
			if code := Main(t.Context(), env, append([]string{"status", running.URL}, tt.args...)); code != cli.ExitOK {
				t.Fatalf("exit code %d: %s", code, errs.String())
			}
			for _, want := range tt.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %q in\n%s", want, out.String())
				}
			}
		})
	}
}
