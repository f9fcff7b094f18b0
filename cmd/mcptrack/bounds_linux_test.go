package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// TestFilesAreBounded: every flag and argument that names a file rejects an endless file, FIFO or
// device quickly and with little memory.
func TestFilesAreBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	huge := filepath.Join(dir, "huge")
	if err := os.WriteFile(huge, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(huge, 1<<40); err != nil {
		t.Fatal(err)
	}
	demo := demoFile(t)
	for _, args := range []string{
		"status --token-file FILE",
		"serve-sse --demo --addr 127.0.0.1:0 --token-file FILE",
		"serve-sse --demo --addr 127.0.0.1:0 --tls-cert FILE --tls-key FILE",
		"serve-sse --demo --addr 127.0.0.1:0 --nats nats://127.0.0.1:1 --nats-credentials FILE",
		"serve-sse --config FILE",
		"watch --config FILE",
		"list --config FILE",
		"validate FILE",
		"gateway --config " + demo + " --addr 127.0.0.1:0 --token-file FILE",
		"vault " + dir + " --addr 127.0.0.1:0 --token-file FILE",
		"vault FILE --stdio",
		"inject --demo --model m --api-key-file FILE",
		"inject --from http://127.0.0.1:1 --from-token-file FILE --model m",
		"replay --nats nats://127.0.0.1:1 --nats-credentials FILE",
		"replay --data-dir FILE",
		"history x file:///a --data-dir FILE",
		"tail http://127.0.0.1:1 --token-file FILE",
		"init --from FILE new.json",
	} {
		for _, file := range []string{"/dev/zero", fifo, huge} {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			// A limit of the address space: nothing else bounds memory for certain.
			cmd := exec.CommandContext(ctx, "sh", "-c", `ulimit -v 3000000 && exec mcptrack "$@"`, "sh")
			cmd.Args = append(cmd.Args, strings.Fields(strings.ReplaceAll(args, "FILE", file))...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "HOME="+dir, "OPENAI_API_KEY=")
			out, err := cmd.CombinedOutput()
			exit, ok := errors.AsType[*exec.ExitError](err)
			switch {
			case ctx.Err() != nil:
				t.Errorf("%s with %s does not end: %s", args, file, out)
			case !ok || exit.ExitCode() < 1 || exit.ExitCode() > 5 || strings.Contains(string(out), "out of memory") || strings.Contains(string(out), "goroutine "):
				t.Errorf("%s with %s: %v\n%.2000s", args, file, err, out)
			}
			cancel()
		}
	}
}

// maxResident is the most memory, in bytes, that a process may have used after endless
// input: a multiple of all its limits, and a fraction of what it was sent.
const maxResident = 400 << 20

// flooding returns how long processes get endless input.
func flooding() time.Duration {
	if testing.Short() {
		return 700 * time.Millisecond
	}
	return 2 * time.Second
}

// endless repeats a text.
type endless string

func (e endless) Read(p []byte) (int, error) {
	n := copy(p, e)
	for n < len(p) { // doubling is fast, also with the race detector
		n += copy(p[n:], p[:n])
	}
	return n, nil
}

// bounded runs a command under a limit of its address space with endless
// input for some time, and fails if it crashed or took too much memory.
func bounded(t *testing.T, stdin io.Reader, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), flooding())
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", `ulimit -v 3000000 && exec mcptrack "$@"`, "sh"}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	cmd.Stdin = stdin
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+cmd.Dir, "OPENAI_API_KEY=k", "MCPTRACK_TOKEN=")
	var out headBuffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	used, text := usage.Maxrss<<10, string(out.text)
	early := cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() == syscall.SIGTERM // it had hardly begun
	if code := cmd.ProcessState.ExitCode(); !early && (code < 0 || code > 6 && code != exitInterrupted) || strings.Contains(text, "goroutine ") || strings.Contains(text, "SIGABRT") {
		t.Errorf("%q: %v\n%.3000s", args, err, text)
	}
	if used > maxResident {
		t.Errorf("%q: %d MiB\n%.1000s", args, used>>20, text)
	}
	t.Logf("%d MiB: %.200q", used>>20, text)
}

// headBuffer keeps the beginning of what is written.
type headBuffer struct{ text []byte }

func (b *headBuffer) Write(p []byte) (int, error) {
	if room := 64<<10 - len(b.text); room > 0 {
		b.text = append(b.text, p[:min(room, len(p))]...)
	}
	return len(p), nil
}

// TestStreamsAreBounded: endless input to any command that reads a stream, from a child
// process, a server, a feed, an API or stdin, takes little memory.
func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	demo := demoFile(t)
	child := func(script string) string {
		return file(fmt.Sprintf("c%x.json", script), config(fmt.Sprintf(`"x": {"command": "sh", "args": ["-c", %q], "trackResources": true}`, script)))
	}
	var member bytes.Buffer
	z := gzip.NewWriter(&member)
	if _, err := io.CopyN(z, endless("[\"xxxxxxxxxxxxxx"), 1<<20); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	bomb := bytes.Repeat(member.Bytes(), 1<<10) // of 1 GiB
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch kind, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/"); kind {
		case "json":
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":"`)
			_, _ = io.Copy(w, endless("x"))
		case "list":
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.Copy(w, endless("[[[[{\"a\":1},"))
		case "bomb":
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb)
		case "line":
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: ")
			_, _ = io.Copy(w, endless("x"))
		case "events":
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.Copy(w, endless("data: {\"type\":\"resource.updated\"}\n"))
		}
	}))
	t.Cleanup(far.Close)
	t.Cleanup(far.CloseClientConnections)
	for name, run := range map[string]func(t *testing.T){
		"stdin of inject":    func(t *testing.T) { bounded(t, endless("\x00"), "inject", "--stdin", "--dry-run") },
		"stdin of a gateway": func(t *testing.T) { bounded(t, endless("{"), "gateway", "--stdio", "--config", demo) },
		"stdin of the demo":  func(t *testing.T) { bounded(t, endless(`{"jsonrpc":"2.0",`), "demo-server") },
		"stdout of a child":  func(t *testing.T) { bounded(t, nil, "list", "--config", child("cat /dev/zero")) },
		"stdout of a child, a message": func(t *testing.T) {
			bounded(t, nil, "watch", "--config", child(`printf '{"a":"'; exec cat /dev/zero`))
		},
		"stdout of a child, lines": func(t *testing.T) { bounded(t, nil, "watch", "--config", child("yes '{}'")) },
		"stderr of a child":        func(t *testing.T) { bounded(t, nil, "watch", "--config", child("cat /dev/zero >&2")) },
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); run(t) })
	}
	for _, tt := range []struct{ kind, entry, args string }{
		{"json", `{"url": %q, "trackResources": true}`, "watch --config FILE"},
		{"bomb", `{"url": %q, "trackResources": true}`, "watch --config FILE"},
		{"line", `{"url": %q, "trackResources": true}`, "watch --config FILE"},
		{"events", `{"type": "sse", "url": %q}`, "list --config FILE"},
		{"json", `{"type": "catalog", "url": %q}`, "gateway --addr 127.0.0.1:0 --config FILE"},
		{"json", "", "status URL"},
		{"list", "", "status URL"},
		{"line", "", "tail URL"},
		{"events", "", "inject --dry-run --from URL"},
	} {
		url := far.URL + "/" + tt.kind
		args := strings.ReplaceAll(tt.args, "URL", url)
		name := tt.kind + " for " + strings.Fields(args)[0]
		if tt.entry != "" {
			path := file(fmt.Sprintf("%s-%d.json", tt.kind, len(tt.entry)), config(`"x": `+fmt.Sprintf(tt.entry, url)))
			args = strings.ReplaceAll(args, "FILE", path)
		}
		t.Run(name, func(t *testing.T) { t.Parallel(); bounded(t, nil, strings.Fields(args)...) })
	}
}

// limited starts a server under a limit of its address space.
func limited(t *testing.T, args ...string) *serving {
	t.Helper()
	cmd := exec.Command("sh", append([]string{"-c", `ulimit -v 4000000 && exec mcptrack "$@"`, "sh"}, args...)...)
	cmd.Dir = t.TempDir()
	cmd.Env = mcptrackCommand(t.Context()).Env
	return serveCommand(t, cmd)
}

// wantBounded ends the server and fails if it took too much memory.
func (s *serving) wantBounded() {
	s.Helper()
	if body, code := ask(s.T, s.url+"/healthz", nil); code != http.StatusOK {
		s.Errorf("healthz: %d %s", code, body)
	}
	s.stop(syscall.SIGTERM)
	if code := s.cmd.ProcessState.ExitCode(); code != 0 && code != exitInterrupted {
		s.Errorf("ended with %v", s.cmd.ProcessState)
	}
	if used := s.cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10; used > maxResident {
		s.Errorf("%d MiB", used>>20)
	}
}

// TestRequestsAreBounded: endless requests to anything that listens take little memory.
func TestRequestsAreBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	note(t, filepath.Join(dir, "n.md"), "one")
	servers := map[string][]string{
		"gateway":   {"gateway", "--demo", "--addr", "127.0.0.1:0"},
		"vault":     {"vault", dir, "--addr", "127.0.0.1:0"},
		"serve-sse": {"serve-sse", "--demo", "--addr", "127.0.0.1:0", "--data-dir", filepath.Join(t.TempDir(), "data")},
	}
	bodies := map[string]string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`: "x",
		"[[[[": "[[[[",
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{`: `"x":1,`,
	}
	for name, args := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := limited(t, args...)
			base, _, _ := strings.Cut(s.url, "/mcp")
			s.url = base
			ctx, cancel := context.WithTimeout(t.Context(), flooding())
			defer cancel()
			var running sync.WaitGroup
			for _, path := range []string{"/mcp", "/events", "/"} {
				for begin, rest := range bodies {
					running.Go(func() {
						for ctx.Err() == nil {
							q, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, io.MultiReader(strings.NewReader(begin), endless(rest)))
							if err != nil {
								t.Error(err)
								return
							}
							q.Header.Set("Content-Type", "application/json")
							q.Header.Set("Accept", "application/json, text/event-stream")
							if res, err := http.DefaultClient.Do(q); err == nil {
								_ = res.Body.Close()
							}
						}
					})
				}
			}
			running.Go(func() { // headers without an end
				q, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/?"+strings.Repeat("x", 8<<20), nil)
				if err != nil {
					t.Error(err)
					return
				}
				q.Header.Set("Authorization", "Bearer "+strings.Repeat("x", 8<<20))
				if res, err := http.DefaultClient.Do(q); err == nil {
					_ = res.Body.Close()
				}
			})
			running.Wait()
			s.wantBounded()
		})
	}
}

// TestFramesAreBounded: an endless WebSocket message, from an endpoint or from an application
// behind the proxy, takes little memory.
func TestFramesAreBounded(t *testing.T) {
	t.Parallel()
	flood := func(ctx context.Context, c *websocket.Conn) {
		defer func() { _ = c.CloseNow() }()
		w, err := c.Writer(ctx, websocket.MessageText)
		if err != nil {
			return
		}
		_, _ = io.WriteString(w, `{"type":"session.created","session":"`)
		_, _ = io.Copy(w, endless("x"))
	}
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		if r.URL.Query().Get("model") == "quiet" {
			_, _ = io.Copy(io.Discard, websocket.NetConn(r.Context(), c, websocket.MessageText))
			return
		}
		flood(r.Context(), c)
	}))
	t.Cleanup(far.Close)
	t.Cleanup(far.CloseClientConnections)
	url := "ws" + strings.TrimPrefix(far.URL, "http")
	t.Run("endpoint", func(t *testing.T) {
		t.Parallel()
		bounded(t, nil, "inject", "--demo", "--url", url+"/?model=x")
	})
	t.Run("application", func(t *testing.T) {
		t.Parallel()
		s := limited(t, "inject", "--demo", "--listen", "127.0.0.1:0", "--upstream", url)
		ctx, cancel := context.WithTimeout(t.Context(), flooding())
		defer cancel()
		for ctx.Err() == nil {
			c, res, err := websocket.Dial(ctx, s.url+"/v1/realtime?model=quiet", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer k"}}})
			if res != nil && res.Body != nil {
				_ = res.Body.Close()
			}
			if err != nil {
				if ctx.Err() == nil {
					t.Error(err)
				}
				break
			}
			flood(ctx, c)
		}
		s.url = "http" + strings.TrimPrefix(s.url, "ws")
		s.wantBounded()
	})
}
