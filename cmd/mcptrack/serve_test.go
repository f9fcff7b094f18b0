//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
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
		if url, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
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
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
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

// wantNext wants ids that follow each other without a hole.
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

// A client that comes back with its last id misses nothing and sees nothing twice:
// after a disconnect, an orderly restart and a kill -9.
func TestServeResumes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "mcp-servers.json")
	save(t, file, config(`"demo": `+demoEntry(t, t.Name(), `, "trackResources": true`)))
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

// Pages of other sites and other names of this machine are turned away; the
// dashboard, the metrics and the states are there for the others.
func TestServeGuards(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "mcp-servers.json")
	save(t, file, config(`"demo": `+demoEntry(t, t.Name(), `, "trackResources": true`)))
	s := serveBeside(t, "--config", file, "--data-dir", filepath.Join(dir, "events"))
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if _, code := ask(t, s.url+"/readyz", nil); code == http.StatusOK {
			break
		}
	}
	for path, want := range map[string]string{"/": "<title>mcptrack</title>", "/assets/app.js": "follow(", "/metrics": "mcptrack_server_state", "/api/servers": `"id":"demo"`, "/readyz": "ok", "/healthz": "ok"} {
		body, code := ask(t, s.url+path, nil)
		if code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d %.200s", path, code, body)
		}
		for name, value := range map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site", "Host": "evil.example"} {
			if body, code := ask(t, s.url+path, map[string]string{name: value}); code != http.StatusForbidden {
				t.Errorf("%s with %s: %d %.100s", path, name, code, body)
			}
		}
	}
	if _, code := ask(t, s.url+"/events", map[string]string{"Origin": "https://evil.example"}); code != http.StatusForbidden {
		t.Errorf("/events for another site: %d", code)
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
