package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

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

// TestReadmeExamples: what the README tells people to paste is what the script
// readme.txtar runs.
func TestReadmeExamples(t *testing.T) {
	t.Parallel()
	_, section, ok := strings.Cut(readFile(t, "README.md"), "## Five examples")
	if !ok {
		t.Fatal("the README has no examples")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	script := strings.ReplaceAll(readFile(t, "testdata", "script", "readme.txtar"), "''", "'")
	examples := 0
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "mcptrack ") {
			continue
		}
		examples++
		if !strings.Contains(script, "exec sh -c '"+line+"'\n") {
			t.Errorf("readme.txtar does not run: %s", line)
		}
	}
	if examples < 5 {
		t.Errorf("the README has %d examples, want five", examples)
	}
	config := strings.TrimSpace(strings.Split(section, "```")[1])
	if config = strings.TrimPrefix(config, "json\n"); !strings.Contains(script, config) {
		t.Error("readme.txtar has another config than the README")
	}
}

// TestReadmeEvents: the reference names every type of event.
func TestReadmeEvents(t *testing.T) {
	t.Parallel()
	readme := readFile(t, "README.md")
	for _, typ := range event.Types() {
		name := string(typ)
		if short, ok := strings.CutSuffix(name, ".list_changed"); ok && short != "resources" {
			name = short + ".…"
		}
		if !strings.Contains(readme, "`"+name+"`") {
			t.Errorf("the README does not tell of %s", typ)
		}
	}
}
