//go:build linux

package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
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

// TestEngineProgram builds the program of go doc core/engine as a separate module. It follows a config, stores
// and serves events, and exits on a signal.
func TestEngineProgram(t *testing.T) {
	t.Parallel()
	var program strings.Builder
	_, text, found := strings.Cut(readFile(t, "core", "engine", "doc.go"), "//\tpackage main\n")
	for line := range strings.Lines("//\tpackage main\n" + text) {
		code, ok := strings.CutPrefix(line, "//\t")
		if !ok && strings.TrimSpace(line) != "//" || strings.HasPrefix(line, "// ") {
			break
		}
		program.WriteString(strings.TrimPrefix(code, "//"))
	}
	if n := strings.Count(program.String(), "\n"); !found || n < 20 || n > 50 {
		t.Fatalf("the documentation has a program of %d lines", n)
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	module := filepath.Join(t.TempDir(), "module")
	if err := os.Mkdir(module, 0o700); err != nil {
		t.Fatal(err)
	}
	save(t, filepath.Join(module, "main.go"), program.String())
	save(t, filepath.Join(module, "go.sum"), readFile(t, "go.sum"))
	// The requirements are ours, so that nothing has to be looked up.
	ours := readFile(t, "go.mod")
	_, requires, _ := strings.Cut(ours, "\nrequire")
	save(t, filepath.Join(module, "go.mod"), "module example.com/embedder\n\ngo 1.26\n\nrequire github.com/mcptrack/mcptrack v0.0.0\n\nreplace github.com/mcptrack/mcptrack => "+root+"\n\nrequire"+requires)
	binary := filepath.Join(module, "embedder")
	build := exec.CommandContext(t.Context(), "go", "build", "-mod=mod", "-o", binary, ".")
	build.Dir = module
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	file, data, address := filepath.Join(t.TempDir(), "mcp-servers.json"), filepath.Join(t.TempDir(), "events"), freeAddress(t)
	save(t, file, config(`"demo": `+demoEntry(t, t.Name(), `, "trackResources": true`)))
	cmd := exec.CommandContext(t.Context(), binary, file, data, address)
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }() // if the test has failed
	var seen []string
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	feed := followFeed(ctx, t, "http://"+address+"/events?since=earliest")
	defer func() { _ = feed.Close() }()
	changed := false
	for lines := bufio.NewScanner(feed); lines.Scan(); {
		id, ok := strings.CutPrefix(lines.Text(), "id: ")
		if ok && !strings.HasSuffix(id, "-0") { // that is a checkpoint
			seen = append(seen, id)
		}
		if lines.Text() == "event: config.reloaded" {
			break
		}
		if len(seen) >= 5 && !changed {
			changed = true
			save(t, file, config()) // the server leaves the config
		}
	}
	if len(seen) < 5 || ctx.Err() != nil {
		t.Fatalf("served: %q, %v", seen, ctx.Err())
	}
	_ = cmd.Process.Signal(os.Interrupt)
	if err := cmd.Wait(); err != nil {
		t.Errorf("the program ended with %v", err)
	}
	out, err := mcptrackCommand(t.Context(), "replay", "--data-dir", data).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range seen {
		if !strings.Contains(string(out), `"id":"`+id+`"`) {
			t.Errorf("%s is not stored:\n%s", id, out)
		}
	}
}

// followFeed waits until the feed is served, and returns it.
func followFeed(ctx context.Context, t *testing.T, url string) io.ReadCloser {
	t.Helper()
	for {
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := http.DefaultClient.Do(q); err == nil {
			return p.Body
		} else if ctx.Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
