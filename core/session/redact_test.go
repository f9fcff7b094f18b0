package session_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
)

// configured returns the one server of a config, its variables replaced.
func configured(t *testing.T, entry map[string]any, variables map[string]string) config.Server {
	t.Helper()
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"x": entry}})
	if err != nil {
		t.Fatal(err)
	}
	cfg, problems := config.Parse(text, "x.json", config.Options{
		Getenv: func(name string) (string, bool) { v, ok := variables[name]; return v, ok }})
	if cfg == nil {
		t.Fatal(problems)
	}
	return cfg.Servers[0]
}

// However a program got a variable's value, its output is shown without it.
func TestVariablesAreHidden(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	entry := configured(t, map[string]any{"command": "${EXE}", "args": []string{"--api-key=${API_KEY}", "${input:pin}", "${DIR}/data"},
		"env": map[string]string{serveKey: "echoes"}},
		map[string]string{"EXE": exe, "API_KEY": "key-7f8e9d0c", "MCPTRACK_INPUT_PIN": "pin-31415926", "DIR": dir})
	var logs bytes.Buffer
	opts := session.Options{Logger: slog.New(slog.NewTextHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	_, err = session.Dial(t.Context(), entry, opts)
	if got := fmt.Sprint(err); !strings.Contains(got, "--api-key=[redacted] [redacted] "+dir+"/data") {
		t.Errorf("%s", got)
	}
	for _, secret := range []string{"key-7f8e9d0c", "pin-31415926"} {
		if strings.Contains(logs.String(), secret) {
			t.Errorf("%s is in the log", secret)
		}
	}
	entry = configured(t, map[string]any{"command": "${CMD}"}, map[string]string{"CMD": "tok-no-such-command"})
	if _, err := session.Dial(t.Context(), entry, opts); err == nil || strings.Contains(err.Error(), "tok-") {
		t.Errorf("%v", err)
	}
}

// The path of a URL may contain secrets; errors about redirects show the path.
func TestPathOfAURLIsHidden(t *testing.T) {
	ts := listenOn(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Path+"/", http.StatusFound)
	}))
	variables := map[string]string{"HOST": strings.TrimPrefix(ts.URL, "http://"), "TOKEN": "tok-1 2/3", "URL": ts.URL + "/s/tok-4567"}
	for url, want := range map[string]string{
		"http://${HOST}/s/${TOKEN}/mcp":                  ts.URL + "/s/[redacted]/mcp/",
		"${URL}/mcp":                                     ts.URL + "/[redacted]/mcp/",
		"http://${HOST}/v1/hook/aB3dE5fG7hI9/mcp-server": ts.URL + "/v1/hook/[redacted]/mcp-server/",
	} {
		_, err := session.Dial(t.Context(), configured(t, map[string]any{"url": url, "type": "http"}, variables), session.Options{})
		if got := fmt.Sprint(err); !strings.Contains(got, "redirects to "+want+";") {
			t.Errorf("%s: %s", url, got)
		}
	}
}
