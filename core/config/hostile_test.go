package config

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/config/tree"
)

// measured runs f and fails if it takes longer or allocates more than a config may.
func measured(t *testing.T, what string, f func()) {
	t.Helper()
	debug.FreeOSMemory()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	f()
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 600 || took > 2*time.Minute {
		t.Errorf("%s: %d MiB allocated in %v", what, used, took)
	}
}

// A hostile file of the largest size takes bounded time and memory, and its problems are bounded.
func TestHostileFiles(t *testing.T) {
	size := MaxFileSize - 4096
	if testing.Short() {
		size /= 32
	}
	fill := func(unit string, format ...any) string {
		if len(format) > 0 {
			var b strings.Builder
			for i := 0; b.Len() < size; i++ {
				fmt.Fprintf(&b, unit, i)
			}
			return b.String()
		}
		return strings.Repeat(unit, size/len(unit))
	}
	const each = true
	for name, text := range map[string]string{
		"numbers.json":     `{"servers": [` + fill("0,") + `]}`,
		"objects.json":     `{"servers": [` + fill("{},") + `]}`,
		"servers.json":     `{"servers": [` + fill(`{"id":"s%d","command":"x"},`, each) + `]}`,
		"keys.json":        `{"mcpServers": {"a": {` + fill(`"k%d":1,`, each) + `}}}`,
		"duplicates.json":  `{"mcpServers": {` + fill(`"a":{},`) + `}}`,
		"roots.json":       `{` + fill(`"k%d":{"x":1},`, each) + `}`,
		"flat.json":        `{` + fill(`"s%d":{"command":"x"},`, each) + `}`,
		"mcp.json":         `{"mcp": {` + fill(`"s%d":{"command":["x"]},`, each) + `}}`,
		"references.json":  `{"mcpServers": {"a": {"command": "x", "args": ["` + fill("${A}") + `"]}}}`,
		"open.json":        `{"mcpServers": {"a": {"command": "x", "args": ["` + fill("${") + `"]}}}`,
		"dollars.json":     `{"mcpServers": {"a": {"command": "x", "args": ["` + fill("$A") + `"]}}}`,
		"braces.json":      `{"mcp": {"a": {"type": "local", "command": ["x", "` + fill("{env:") + `"]}}}`,
		"tokens.json":      `{"mcpServers": {"a": {"command": "x", "args": ["` + fill("sk-") + `"]}}}`,
		"names.json":       `{"mcpServers": {"a": {"command": "x", "env": {"X": "${` + fill("aB3") + `}"}}}}`,
		"globs.json":       `{"mcpServers": {"a": {"command": "x", "include": [` + fill(`"{a,{b,c}}",`) + `]}}}`,
		"comments.json":    fill("/**/") + `{}`,
		"spaces.json":      fill(" "),
		"string.json":      `"` + fill("x"),
		"tables.toml":      fill("[mcp_servers.s%d]\ncommand='x'\n", each),
		"same.toml":        fill("[mcp_servers.a]\n"),
		"arrays.toml":      fill("[[mcp_servers]]\nid='a'\n"),
		"dotted.toml":      fill("a%d.b.c.d.e=1\n", each),
		"inline.toml":      "mcp_servers = {" + fill("a%d={},", each) + "}",
		"brackets.toml":    "a = " + fill("["),
		"lists.yaml":       fill("- "),
		"keys.yaml":        "mcpServers:\n" + fill("  s%d: {command: x}\n", each),
		"anchors.yaml":     "a: &a {x: 1}\n" + fill("b%d: *a\n", each),
		"merges.yaml":      "a: &a {x: 1, y: 2, z: 3}\n" + fill("b%d: {<<: [*a, *a, *a, *a]}\n", each),
		"indents.yaml":     fill("a:\n  b:\n"),
		"quotes.yaml":      `a: "` + fill(`\\`),
		"questions.yaml":   fill("? "),
		"flow.yaml":        fill("{"),
		"line.yaml":        "a: [" + fill("x,") + "]",
		"aliases.yaml":     "b: &a x\na: [" + fill("*a,") + "]",
		"directives.yaml":  fill("%TAG ! x\n"),
		"comments.yaml":    fill("#\n"),
		"documents.yaml":   fill("--- a\n"),
		"continued.yaml":   "a: |\n" + fill("  x\n"),
		"nul.json":         "{\"a\": \"" + fill("\x00") + "\"}",
		"utf16.json":       fill("{\x00"),
		"invalid-utf8.txt": fill("\xff"),
	} {
		t.Run(name, func(t *testing.T) {
			opts := surroundings(t, map[string]string{"A": strings.Repeat("a", 1<<10)})
			measured(t, name, func() {
				_, problems := Parse([]byte(text), name, opts)
				shown := 0
				for _, p := range problems {
					shown += len(p.Message) + len(p.Hint) + len(p.Path)
				}
				if len(problems) > 2*maxProblems || shown > 4<<20 {
					t.Errorf("%d problems of %d bytes", len(problems), shown)
				}
			})
		})
	}
}

// Anything but a readable regular file of bounded size is refused immediately, with the reason.
// Symbolic links are followed.
func TestHostilePaths(t *testing.T) {
	dir := t.TempDir()
	good := write(t, filepath.Join(dir, "good.json"), `{"servers":[]}`)
	link, loop, dangling := filepath.Join(dir, "link.json"), filepath.Join(dir, "loop.json"), filepath.Join(dir, "dangling.json")
	for at, to := range map[string]string{link: good, loop: loop, dangling: filepath.Join(dir, "nowhere")} {
		if err := os.Symlink(to, at); err != nil {
			t.Skip(err)
		}
	}
	large := write(t, filepath.Join(dir, "large.json"), strings.Repeat(" ", MaxFileSize+1))
	tests := map[string]Code{link: "", loop: CodeUnreadable, dangling: CodeNotFound, large: CodeTooLarge, "/dev/zero": CodeNotRegular, dir: CodeNotRegular,
		strings.Repeat("x", 10_000): CodeUnreadable, "a\x00b": CodeUnreadable}
	secret := write(t, filepath.Join(dir, "secret.json"), `{"servers":[]}`)
	if err := os.Chmod(secret, 0); err == nil && os.Getuid() != 0 {
		tests[secret] = CodeUnreadable
	}
	for path, want := range tests {
		c, problems := Load(path, surroundings(t, nil))
		if want == "" && c == nil || want != "" && (len(problems) != 1 || problems[0].Code != want) {
			t.Errorf("%.60q: %v, want %q", path, problems, want)
		}
	}
}

// A host's settings file may be larger because it also holds the user's history.
func TestLargeSettings(t *testing.T) {
	dir := t.TempDir()
	history := `"history": ["` + strings.Repeat("x", MaxFileSize) + `"], `
	text := `{` + history + `"mcpServers": {"docs": {"command": "go"}}}`
	if c, problems := Load(write(t, filepath.Join(dir, ".claude.json"), text), surroundings(t, nil)); c == nil || len(c.Servers) != 1 {
		t.Errorf("%.300v", problems)
	}
	if _, problems := Load(write(t, filepath.Join(dir, "mcp.json"), text), surroundings(t, nil)); !problems.Has(CodeTooLarge) {
		t.Errorf("%.300v", problems)
	}
	many := `{"history": [` + strings.Repeat("0,", tree.MaxValues+1) + `]}`
	if _, problems := Parse([]byte(many), ".claude.json", surroundings(t, nil)); !problems.Has(CodeTooLarge) {
		t.Errorf("%.300v", problems)
	}
}
