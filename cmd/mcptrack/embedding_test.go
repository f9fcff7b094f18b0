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
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestManualProgram builds the program of help embedding and runs it until it has printed a
// change. go doc core/tracker shows the same example.
func TestManualProgram(t *testing.T) {
	t.Parallel()
	page := readFile(t, "commands", "topics", "embedding.md")
	programs := regexp.MustCompile("(?s)```go\n(package main\n.*?)```").FindAllStringSubmatch(page, -1)
	if len(programs) != 1 {
		t.Fatalf("the manual has %d programs", len(programs))
	}
	if doc := readFile(t, "core", "tracker", "doc.go"); !strings.Contains(uncomment(doc), programs[0][1]) {
		t.Error("go doc core/tracker has another program than the manual")
	}
	for i, want := range []struct {
		lines  int
		output string // a line of it
	}{
		{25, `^\S+ demo updated vault://`},
	} {
		t.Run(strconv.Itoa(i+1), func(t *testing.T) {
			t.Parallel()
			program := programs[i][1]
			if n := strings.Count(program, "\n"); n > want.lines {
				t.Errorf("the program has %d lines, which is too long", n)
			}
			dir := t.TempDir()
			save(t, filepath.Join(dir, "main.go"), program)
			binary := filepath.Join(dir, "program")
			if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, filepath.Join(dir, "main.go")).CombinedOutput(); err != nil {
				t.Fatalf("go build: %v\n%s", err, out)
			}
			if err := os.Mkdir(filepath.Join(dir, "config"), 0o700); err != nil {
				t.Fatal(err)
			}
			save(t, filepath.Join(dir, "config", "mcp-servers.json"), config(`"demo": `+demoEntry(t, markOf(t), `, "trackResources": true`)))
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
			found, pattern := false, regexp.MustCompile(want.output)
			for lines := bufio.NewScanner(out); !found && lines.Scan(); {
				seen = append(seen, lines.Text())
				found = pattern.MatchString(lines.Text())
			}
			_ = cmd.Process.Signal(os.Interrupt)
			_, _ = io.Copy(io.Discard, out)
			if err := cmd.Wait(); err != nil {
				t.Errorf("the program ended with %v", err)
			}
			if !found {
				t.Errorf("no line matches %s: %.2000q", want.output, seen)
			}
		})
	}
}

// TestManualFragments compiles the fragments of programs in help embedding.
func TestManualFragments(t *testing.T) {
	t.Parallel()
	page := readFile(t, "commands", "topics", "embedding.md")
	fragments := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(page, -1)
	frames := map[string]string{ // by what a fragment begins with
		"cfg, problems :=": `package fragment
import ("context"; "fmt"; "log"; "github.com/mcptrack/mcptrack/core/config"; "github.com/mcptrack/mcptrack/core/event"; "github.com/mcptrack/mcptrack/core/tracker")
func follow(ctx context.Context) {
%s
}`,
		"c := t.Client": `package fragment
import ("context"; "github.com/mcptrack/mcptrack/core/tracker")
func show(ctx context.Context, t *tracker.Tracker) {
%s
_, _, _, _ = r, cached, ok, err
}`,
		"srv := mcpserver.New": `package fragment
import ("context"; "encoding/json"; "net/http"; "github.com/mcptrack/mcptrack/core/mcpserver")
func show(read, call func(context.Context, *mcpserver.Request) (json.RawMessage, error), items []json.RawMessage) {
%s
}`,
	}
	compiled := 0
	for _, fragment := range fragments {
		for begin, frame := range frames {
			if !strings.HasPrefix(fragment[1], begin) {
				continue
			}
			compiled++
			file := filepath.Join(t.TempDir(), "main.go")
			save(t, file, strings.Replace(frame, "%s", fragment[1], 1))
			if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", os.DevNull, file).CombinedOutput(); err != nil {
				t.Errorf("%s…: %v\n%s", begin, err, out)
			}
		}
	}
	if compiled != len(frames) || compiled+1 != len(fragments) {
		t.Errorf("%d of %d blocks are fragments that were compiled", compiled, len(fragments))
	}
}

// uncomment returns the lines of code in a documentation comment.
func uncomment(doc string) string {
	var code strings.Builder
	for line := range strings.Lines(doc) {
		switch {
		case strings.HasPrefix(line, "//\t"):
			code.WriteString(line[3:])
		case line == "//\n":
			code.WriteString("\n")
		}
	}
	return code.String()
}

// TestEngineProgram builds the program of go doc core/engine as a separate module. It follows a config, stores
// and serves events, and exits on a signal.
func TestEngineProgram(t *testing.T) {
	t.Parallel()
	program := uncomment(readFile(t, "core", "engine", "doc.go"))
	lines := slices.DeleteFunc(strings.Split(program, "\n"), func(line string) bool { return line == "" })
	if n := len(lines); n < 20 || n > 50 {
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
	save(t, filepath.Join(module, "main.go"), program)
	save(t, filepath.Join(module, "go.sum"), readFile(t, "go.sum"))
	// The requirements are ours, so that nothing has to be looked up.
	ours := readFile(t, "go.mod")
	_, requires, _ := strings.Cut(ours, "\nrequire")
	save(t, filepath.Join(module, "go.mod"), "module example.com/embedder\n\ngo 1.26\n\nrequire github.com/mcptrack/mcptrack v0.0.0\n\nreplace github.com/mcptrack/mcptrack => "+root+"\n\nrequire"+requires)
	binary := filepath.Join(module, "embedder")
	build := exec.CommandContext(t.Context(), "go", "build", "-mod=mod", "-o", binary, ".")
	build.Dir = module
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	file, data, address := filepath.Join(t.TempDir(), "mcp-servers.json"), filepath.Join(t.TempDir(), "events"), freeAddress(t)
	save(t, file, config(`"demo": `+demoEntry(t, markOf(t), `, "trackResources": true`)))
	cmd := exec.CommandContext(t.Context(), binary, file, data, address)
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }() // if the test has failed
	var seen []string
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
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
