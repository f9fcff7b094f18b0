//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// serving is a serve-sse that runs in the background.
type serving struct {
	*testing.T
	cmd *exec.Cmd
	url string
}

func serveBeside(t *testing.T, args ...string) *serving {
	t.Helper()
	return serveCommand(t, mcptrackCommand(context.Background(), append([]string{"serve-sse", "--addr", "127.0.0.1:0"}, args...)...))
}

// serveCommand starts a command that ends up as serve-sse.
func serveCommand(t *testing.T, cmd *exec.Cmd) *serving {
	t.Helper()
	s := &serving{T: t, cmd: cmd}
	errs, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(errs)
	for lines.Scan() {
		if url, ok := strings.CutPrefix(lines.Text(), "listening on "); ok && strings.Contains(url, "://") { // not a socket
			s.url = url
			break
		}
	}
	if s.url == "" {
		t.Fatalf("it does not listen: %v", s.cmd.Wait())
	}
	var last []string // lines of stderr, shown if the test fails
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines.Scan() {
			last = append(last[max(0, len(last)-19):], lines.Text())
		}
		_, _ = io.Copy(io.Discard, errs) // after a line that is too long
	}()
	t.Cleanup(func() {
		s.stop(syscall.SIGKILL)
		if <-read; t.Failed() {
			t.Logf("the last lines of stderr:\n%s", strings.Join(last, "\n"))
		}
	})
	return s
}

func (s *serving) stop(sig syscall.Signal) {
	_ = s.cmd.Process.Signal(sig)
	_ = s.cmd.Wait()
}

// events reads the ids of so many events after the one given ("": from now on).
func (s *serving) events(n int, after string) []string {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/events", nil)
	if err != nil {
		s.Fatal(err)
	}
	if after != "" {
		q.Header.Set("Last-Event-ID", after)
	}
	p, err := http.DefaultClient.Do(q)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = p.Body.Close() }()
	var ids []string
	id := ""
	for lines := bufio.NewScanner(p.Body); lines.Scan() && len(ids) < n; {
		line := lines.Text()
		if v, ok := strings.CutPrefix(line, "id: "); ok {
			id = v
		}
		if v, ok := strings.CutPrefix(line, "event: "); ok && v != "checkpoint" {
			if v == "gap" {
				s.Fatal("a gap")
			}
			ids = append(ids, id)
		}
	}
	if len(ids) < n {
		s.Fatalf("only %d of %d events came", len(ids), n)
	}
	return ids
}

// wantNext checks that ids are consecutive.
func wantNext(t *testing.T, ids ...string) {
	t.Helper()
	for i := 1; i < len(ids); i++ {
		var a, b int
		epoch, x, _ := strings.Cut(ids[i-1], "-")
		again, y, _ := strings.Cut(ids[i], "-")
		_, errA := fmt.Sscan(x, &a)
		_, errB := fmt.Sscan(y, &b)
		if errA != nil || errB != nil || b != a+1 || epoch != again {
			t.Fatalf("%s follows %s", ids[i], ids[i-1])
		}
	}
}

// A client that resumes with its last ID gets every event once: after a disconnect, an orderly restart and a
// kill -9.
func TestServeResumes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "mcp-servers.json")
	save(t, file, config(`"demo": `+demoEntry(t, markOf(t), `, "trackResources": true`)))
	args := []string{"--config", file, "--data-dir", filepath.Join(dir, "events")}
	s := serveBeside(t, args...)
	seen := s.events(5, "")
	wantNext(t, seen...)
	last := seen[4]
	for _, sig := range []syscall.Signal{0, syscall.SIGTERM, syscall.SIGKILL} {
		if sig != 0 {
			s.stop(sig)
			s = serveBeside(t, args...)
		}
		next := s.events(5, last)
		wantNext(t, append([]string{last}, next...)...)
		last = next[4]
	}
	var st struct {
		Epoch string
		Seq   uint64
	}
	body, _ := ask(t, s.url+"/api/status", nil)
	if err := json.Unmarshal([]byte(body), &st); err != nil || !strings.HasPrefix(last, st.Epoch+"-") || st.Seq < 20 {
		t.Errorf("after %s the status is %s (%v)", last, body, err)
	}
	other := mcptrackCommand(t.Context(), append([]string{"serve-sse", "--addr", "127.0.0.1:0"}, args...)...)
	out, err := other.CombinedOutput()
	if code := other.ProcessState.ExitCode(); err == nil || code != 1 || !strings.Contains(string(out), "in use") {
		t.Errorf("a second process on the folder: exit %d, %s", code, out)
	}
	s.stop(syscall.SIGTERM)
	replay := mcptrackCommand(t.Context(), "replay", "--data-dir", filepath.Join(dir, "events"), "--since", seen[0])
	stored, err := replay.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(stored)), "\n")
	if len(lines) < 19 || !strings.HasPrefix(lines[0], `{"id":"`+seen[1]+`"`) {
		t.Errorf("replay has %d lines, the first %s", len(lines), lines[0])
	}
}

// ask gets what is at a URL.
func ask(t *testing.T, url string, headers map[string]string) (body string, code int) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return answer(t, q, headers)
}

// initialize begins a session with an MCP server.
func initialize(t *testing.T, url string, headers map[string]string) (body string, code int) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Accept", "application/json, text/event-stream")
	return answer(t, q, headers)
}

func answer(t *testing.T, q *http.Request, headers map[string]string) (body string, code int) {
	t.Helper()
	for name, value := range headers {
		if name == "Host" {
			q.Host = value
		}
		q.Header.Set(name, value)
	}
	p, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Body.Close() }()
	data, err := io.ReadAll(p.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data), p.StatusCode
}

// demoServing is a serve-sse that follows the demo server.
func demoServing(t *testing.T, args ...string) (s *serving, dataDir string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "mcp-servers.json")
	save(t, file, config(`"demo": `+demoEntry(t, markOf(t), `, "trackResources": true`)))
	dataDir = filepath.Join(dir, "events")
	return serveBeside(t, append([]string{"--config", file, "--data-dir", dataDir}, args...)...), dataDir
}

// Requests of other sites, for other hosts, and without the token are rejected by all commands that listen.
func TestGuards(t *testing.T) {
	t.Parallel()
	const secret = "a-token-of-sixteen-or-more"
	token := filepath.Join(t.TempDir(), "token")
	save(t, token, secret)
	type headers = map[string]string
	for name, args := range map[string][]string{
		"serve-sse": {"serve-sse", "--config", demoFile(t)},
		"gateway":   {"gateway", "--config", demoFile(t)},
		"vault":     {"vault", t.TempDir()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := func(more ...string) string {
				cmd := mcptrackCommand(context.Background(), append(append(slices.Clone(args), "--addr", "127.0.0.1:0"), more...)...)
				cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+t.TempDir())
				return serveCommand(t, cmd).url
			}
			status := func(url string, h headers) (code int) {
				if name == "serve-sse" {
					_, code = ask(t, url+"/api/servers", h)
				} else {
					_, code = initialize(t, url, h)
				}
				return code
			}
			wants := func(url string, want int, h headers) {
				t.Helper()
				if got := status(url, h); got != want {
					t.Errorf("%v: %d, want %d", h, got, want)
				}
			}
			open := start()
			wants(open, 200, nil)
			wants(open, 403, headers{"Origin": "https://evil.example"})
			wants(open, 403, headers{"Sec-Fetch-Site": "cross-site"})
			wants(open, 403, headers{"Host": "evil.example"})
			guarded := start("--token-file", token, "--allow-origin", "https://app.example")
			bearer := "Bearer " + secret
			wants(guarded, 401, nil)
			wants(guarded, 401, headers{"Authorization": bearer + "x"})
			wants(guarded, 200, headers{"Authorization": bearer})
			wants(guarded, 200, headers{"Authorization": bearer, "Origin": "https://app.example"})
			wants(guarded, 403, headers{"Authorization": bearer, "Origin": "https://evil.example"})
		})
	}
}

// TestServeLog: what a server writes to stderr is served, without the secrets of the config.
func TestServeLog(t *testing.T) {
	t.Parallel()
	const key = "k3y-0f-the-config-77"
	file := filepath.Join(t.TempDir(), "mcp-servers.json")
	save(t, file, `{"mcpServers": {"chatty": {"command": "sh", "args": ["-c", "echo the key is $API_KEY >&2; exec cat >&2"], "env": {"API_KEY": "`+key+`"}, "trackResources": true}}}`)
	s := serveBeside(t, "--config", file, "--data-dir", t.TempDir())
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		body, code := ask(t, s.url+"/api/servers/chatty/log", nil)
		if strings.Contains(body, key) {
			t.Fatalf("a secret: %s", body)
		}
		if code == http.StatusOK && strings.Contains(body, `"level":"stderr","text":"the key is `) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d %s", code, body)
		}
	}
}
