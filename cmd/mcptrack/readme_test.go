//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/commands"
	schemas "github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
)

func readFile(t *testing.T, elem ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{"..", ".."}, elem...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// documents are the README and the pages of the manual, by path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join("..", "..", "commands", "*", "*.md"))
	if err != nil || len(pages) < 12 {
		t.Fatalf("%d pages of the manual, %v", len(pages), err)
	}
	docs := map[string]string{"README.md": readFile(t, "README.md")}
	for _, page := range pages {
		name, _ := filepath.Rel(filepath.Join("..", ".."), page)
		docs[name] = readFile(t, name)
	}
	return docs
}

// TestShownCommandsAreRun: a script runs every command that the README and the manual
// show.
func TestShownCommandsAreRun(t *testing.T) {
	t.Parallel()
	scripts := readFile(t, "testdata", "script", "real", "readme.txtar") + readFile(t, "testdata", "script", "real", "topics.txtar")
	scripts = strings.ReplaceAll(scripts, "''", "'")
	block := regexp.MustCompile("(?ms)^ *```sh\n(.*?)^ *```$")
	commands := 0
	for name, text := range documents(t) {
		for _, m := range block.FindAllStringSubmatch(text, -1) {
			for line := range strings.Lines(strings.ReplaceAll(m[1], " \\\n    ", " ")) { // joined lines
				line, _, _ = strings.Cut(strings.TrimSpace(line), "  #")
				line = strings.TrimPrefix(strings.TrimSpace(line), "go run ./cmd/")
				switch program, _, _ := strings.Cut(line, " "); program {
				case "mcptrack", "curl":
					commands++
					if !strings.Contains(scripts, "'"+line+"'") {
						t.Errorf("%s: no script runs: %s", name, line)
					}
				case "git", "cd", "go", "scripts/check.sh", "scripts/test.sh":
				default:
					t.Errorf("%s: what is %s?", name, line)
				}
			}
		}
	}
	if commands < 25 {
		t.Errorf("only %d commands were found", commands)
	}
	config := regexp.MustCompile("(?s)```json\n(.*?)```").FindStringSubmatch(readFile(t, "README.md"))
	if config == nil || !strings.Contains(scripts, strings.TrimSpace(config[1])) {
		t.Error("readme.txtar has another config than the README")
	}
}

// TestLinksOfTheReadme: the links of the README to files lead somewhere.
func TestLinksOfTheReadme(t *testing.T) {
	t.Parallel()
	readme := readFile(t, "README.md")
	for _, link := range regexp.MustCompile(`(?:\]\(|src="|srcset=")([^)"]+)`).FindAllStringSubmatch(readme, -1) {
		if strings.HasPrefix(link[1], "https://") {
			continue
		}
		if _, err := os.Stat(filepath.Join("..", "..", link[1])); err != nil {
			t.Errorf("a link leads nowhere: %v", err)
		}
	}
}

// TestContributingDescribesScripts: the page for contributors is linked, and describes
// every script.
func TestContributingDescribesScripts(t *testing.T) {
	t.Parallel()
	page := readFile(t, ".github", "CONTRIBUTING.md")
	if !strings.Contains(readFile(t, "README.md"), "(.github/CONTRIBUTING.md)") {
		t.Error("the README does not link CONTRIBUTING.md")
	}
	scripts, err := filepath.Glob(filepath.Join("..", "..", "scripts", "*.sh"))
	if err != nil || len(scripts) < 15 {
		t.Fatalf("%d scripts, %v", len(scripts), err)
	}
	for _, script := range scripts {
		if !strings.Contains(page, "`"+filepath.Base(script)) {
			t.Errorf("CONTRIBUTING.md does not describe %s", script)
		}
	}
}

// TestReadmeNamesCommands: the README names every command that people run.
func TestReadmeNamesCommands(t *testing.T) {
	t.Parallel()
	readme := readFile(t, "README.md")
	root, _ := commands.Tree(&commands.Env{})
	for _, cmd := range root.Commands() {
		switch {
		case !cmd.IsAvailableCommand(), slices.Contains([]string{"help", "completion", "version"}, cmd.Name()):
		case !strings.Contains(readme, "`"+cmd.Name()+"`"):
			t.Errorf("the README does not name %s", cmd.Name())
		}
	}
}

// TestManualDescribesConfig: help config names every key that the JSON Schema of configs
// has for servers.
func TestManualDescribesConfig(t *testing.T) {
	t.Parallel()
	var schema struct {
		Defs map[string]struct {
			Properties map[string]json.RawMessage
		} `json:"$defs"`
	}
	if err := json.Unmarshal(schemas.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	keys := schema.Defs["server"].Properties
	if len(keys) < 25 {
		t.Errorf("the schema has only %d keys", len(keys))
	}
	page, err := mcptrackCommand(t.Context(), "help", "config").Output()
	if err != nil {
		t.Fatal(err)
	}
	for key := range keys {
		if !strings.Contains(string(page), key) {
			t.Errorf("help config does not describe %s", key)
		}
	}
}

// TestManual: every page is a topic or the help of a command, fits 80 columns but for
// code, and help events names every type of event.
func TestManual(t *testing.T) {
	t.Parallel()
	for name := range documents(t) {
		topic, isPage := strings.CutSuffix(filepath.Base(name), ".md")
		if !isPage || name == "README.md" {
			continue
		}
		cmd := mcptrackCommand(t.Context(), "help", topic)
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("help %s: %v", topic, err)
		}
		text, _, _ := strings.Cut(string(out), "\nUsage:")
		if len(text) < 400 || strings.ContainsAny(text, "\x1b`") {
			t.Errorf("help %s is\n%s", topic, text)
		}
		for line := range strings.Lines(text) {
			if n := len([]rune(line)) - 1; n > 80 && !strings.HasPrefix(line, "  ") {
				t.Errorf("help %s: a line of %d columns: %s", topic, n, line)
			}
		}
		if topic != "events" {
			continue
		}
		for _, typ := range event.Types() {
			if !bytes.Contains(out, []byte("\n  "+string(typ)+" ")) {
				t.Errorf("help events does not describe %s", typ)
			}
		}
	}
}
