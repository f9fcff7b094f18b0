package core_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// modules are those that the released programs link, each with what it is for, or the module that needs it.
// Every start of mcptrack pays for each of them, whatever the command does.
func modules() map[string]string {
	return map[string]string{
		"charm.land/bubbletea/v2":                                  "the full screen of top",
		"github.com/DataDog/datadog-agent/pkg/template":            "templates that keep unused methods out of the program",
		"github.com/aymanbagabas/go-udiff":                         "differences of texts",
		"github.com/blevesearch/snowballstem":                      "stems of words for search",
		"github.com/bmatcuk/doublestar/v4":                         "globs",
		"github.com/cenkalti/backoff/v5":                           "delays between attempts",
		"github.com/cespare/xxhash/v2":                             "of go.opentelemetry.io/otel",
		"github.com/charmbracelet/colorprofile":                    "the colours that a terminal has",
		"github.com/charmbracelet/ultraviolet":                     "of charm.land/bubbletea/v2",
		"github.com/charmbracelet/x/ansi":                          "the width of styled text",
		"github.com/charmbracelet/x/term":                          "of charm.land/bubbletea/v2",
		"github.com/charmbracelet/x/termios":                       "of github.com/charmbracelet/ultraviolet",
		"github.com/charmbracelet/x/windows":                       "of github.com/charmbracelet/ultraviolet",
		"github.com/cli/browser":                                   "opens the browser for logins",
		"github.com/clipperhouse/displaywidth":                     "the width of text",
		"github.com/clipperhouse/uax29/v2":                         "of github.com/clipperhouse/displaywidth",
		"github.com/coder/websocket":                               "OpenAI Realtime",
		"github.com/dustin/go-humanize":                            "of modernc.org/libc",
		"github.com/fatih/color":                                   "of github.com/olekukonko/tablewriter",
		"github.com/fsnotify/fsnotify":                             "changes of files",
		"github.com/go-json-experiment/json":                       "canonical JSON in the lock",
		"github.com/go-logr/logr":                                  "of go.opentelemetry.io/otel",
		"github.com/go-logr/stdr":                                  "of go.opentelemetry.io/otel",
		"github.com/godbus/dbus/v5":                                "of github.com/zalando/go-keyring",
		"github.com/gofrs/flock":                                   "locks between processes",
		"github.com/golang-jwt/jwt/v5":                             "client assertions",
		"github.com/google/jsonschema-go":                          "of github.com/mark3labs/mcp-go",
		"github.com/google/uuid":                                   "of github.com/mark3labs/mcp-go",
		"github.com/klauspost/compress":                            "texts that NATS stores",
		"github.com/lucasb-eyer/go-colorful":                       "of charm.land/bubbletea/v2",
		"github.com/mark3labs/mcp-go":                              "arguments of tools in headers",
		"github.com/mattn/go-colorable":                            "of github.com/fatih/color",
		"github.com/mattn/go-isatty":                               "of github.com/fatih/color",
		"github.com/mattn/go-runewidth":                            "of github.com/charmbracelet/x/ansi",
		"github.com/muesli/cancelreader":                           "of charm.land/bubbletea/v2",
		"github.com/nats-io/nats.go":                               "the log on NATS",
		"github.com/nats-io/nkeys":                                 "of github.com/nats-io/nats.go",
		"github.com/nats-io/nuid":                                  "of github.com/nats-io/nats.go",
		"github.com/olekukonko/cat":                                "of github.com/olekukonko/ll",
		"github.com/olekukonko/errors":                             "of github.com/olekukonko/tablewriter",
		"github.com/olekukonko/ll":                                 "of github.com/olekukonko/tablewriter",
		"github.com/olekukonko/tablewriter":                        "tables",
		"github.com/pelletier/go-toml/v2":                          "TOML",
		"github.com/remyoudompheng/bigfft":                         "of modernc.org/mathutil",
		"github.com/rivo/uniseg":                                   "of github.com/charmbracelet/ultraviolet",
		"github.com/spf13/cast":                                    "of github.com/mark3labs/mcp-go",
		"github.com/spf13/cobra":                                   "commands",
		"github.com/spf13/pflag":                                   "flags",
		"github.com/standard-webhooks/standard-webhooks/libraries": "signatures of webhooks",
		"github.com/tailscale/hujson":                              "JSON with comments",
		"github.com/xo/terminfo":                                   "of github.com/charmbracelet/colorprofile",
		"github.com/yosida95/uritemplate/v3":                       "URI templates",
		"github.com/yuin/goldmark":                                 "Markdown of notes and of the manual",
		"github.com/zalando/go-keyring":                            "the keyring of the user",
		"go.opentelemetry.io/auto/sdk":                             "of go.opentelemetry.io/otel",
		"go.opentelemetry.io/otel":                                 "attributes of spans",
		"go.opentelemetry.io/otel/log":                             "of go.opentelemetry.io/otel",
		"go.opentelemetry.io/otel/metric":                          "of go.opentelemetry.io/otel",
		"go.opentelemetry.io/otel/sdk":                             "batches and samples spans",
		"go.opentelemetry.io/otel/trace":                           "spans, also for embedders",
		"go.yaml.in/yaml/v4":                                       "YAML",
		"golang.org/x/crypto":                                      "of github.com/nats-io/nkeys",
		"golang.org/x/mod":                                         "compares versions",
		"golang.org/x/oauth2":                                      "OAuth",
		"golang.org/x/sync":                                        "groups of goroutines",
		"golang.org/x/sys":                                         "calls of the system",
		"golang.org/x/term":                                        "the size of a terminal",
		"golang.org/x/text":                                        "normal forms of text",
		"golang.org/x/time":                                        "rate limits",
		"gopkg.in/natefinch/lumberjack.v2":                         "the log file of the daemon",
		"modernc.org/libc":                                         "of modernc.org/sqlite",
		"modernc.org/mathutil":                                     "of modernc.org/libc",
		"modernc.org/memory":                                       "of modernc.org/libc",
		"modernc.org/sqlite":                                       "of zombiezen.com/go/sqlite",
		"zombiezen.com/go/sqlite":                                  "the log in a file",
	}
}

// TestLinkedModules: nothing becomes part of the program unnoticed.
func TestLinkedModules(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", module+"cmd/...")
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0") // as released
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	linked, reasons := map[string]bool{}, modules()
	for path := range strings.FieldsSeq(string(out)) {
		if reasons[path] == "" && !linked[path] {
			t.Errorf("%s is linked, and every start pays for it (see go mod why -m %s): do without it, or add it to modules with the reason", path, path)
		}
		linked[path] = true
	}
	for path, why := range reasons {
		of, indirect := strings.CutPrefix(why, "of ")
		if !linked[path] || indirect && !linked[of] {
			t.Errorf("%s, %s, is not linked: remove it from modules", path, why)
		}
	}
}
