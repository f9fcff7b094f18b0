//go:build linux

package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestManualProgram builds the program of help embedding and runs it with a config.
func TestManualProgram(t *testing.T) {
	t.Parallel()
	_, program, ok := strings.Cut(readFile(t, "commands", "topics", "embedding.md"), "```go\npackage main")
	if !ok {
		t.Fatal("the manual has no program")
	}
	program, _, _ = strings.Cut(program, "```")
	if n := strings.Count(program, "\n"); n > 35 {
		t.Errorf("the program has %d lines, which is too long", n)
	}
	dir := t.TempDir()
	save(t, filepath.Join(dir, "main.go"), "package main"+program)
	binary := filepath.Join(dir, "diffs")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, filepath.Join(dir, "main.go")).CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	if err := os.Mkdir(filepath.Join(dir, "config"), 0o700); err != nil {
		t.Fatal(err)
	}
	save(t, filepath.Join(dir, "config", "mcp-servers.json"), config(`"demo": `+demoEntry(t, t.Name(), `, "trackResources": true`)))
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Dir = dir
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	over := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer over.Stop()
	var seen []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		seen = append(seen, lines.Text())
		if strings.HasPrefix(lines.Text(), "+") && !strings.HasPrefix(lines.Text(), "+++") {
			break
		}
	}
	_ = cmd.Process.Signal(os.Interrupt)
	_, _ = io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != nil {
		t.Errorf("the program ended with %v", err)
	}
	if text := strings.Join(seen, "\n"); !strings.Contains(text, "--- vault://") || !strings.Contains(text, "\n+") {
		t.Errorf("no diff was printed: %q", text)
	}
}
