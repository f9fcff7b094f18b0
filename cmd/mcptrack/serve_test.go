//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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

// clients waits until so many clients are connected: serve-sse learns that one left only when it
// next reads from the connection.
func (s *serving) clients(n int) {
	s.Helper()
	want := fmt.Sprintf(`"clients":%d,`, n)
	for deadline := time.Now().Add(time.Minute); ; <-time.After(10 * time.Millisecond) {
		if text, _ := ask(s.T, s.url+"/api/status", nil); strings.Contains(text, want) {
			return
		} else if time.Now().After(deadline) {
			s.Fatalf("there are not %d clients: %s", n, text)
		}
	}
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

// Requests from other sites or with a foreign Host are rejected. Other requests get the dashboard, the metrics
// and the states.
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

// demoServing is a serve-sse that follows the demo server.
func demoServing(t *testing.T, args ...string) (s *serving, dataDir string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "mcp-servers.json")
	save(t, file, config(`"demo": `+demoEntry(t, t.Name(), `, "trackResources": true`)))
	dataDir = filepath.Join(dir, "events")
	return serveBeside(t, append([]string{"--config", file, "--data-dir", dataDir}, args...)...), dataDir
}

// lines reads a stream of the process until the function has seen enough.
func (s *serving) lines(query, lastID string, enough func(line string) bool) {
	s.Helper()
	q, err := http.NewRequestWithContext(s.Context(), http.MethodGet, s.url+query, nil)
	if err != nil {
		s.Fatal(err)
	}
	if lastID != "" {
		q.Header.Set("Last-Event-ID", lastID)
	}
	p, err := http.DefaultClient.Do(q)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = p.Body.Close() }()
	if p.StatusCode != http.StatusOK {
		s.Fatalf("%s with %.40q: %s", query, lastID, p.Status)
	}
	stop := time.AfterFunc(20*time.Second, func() { _ = p.Body.Close() })
	defer stop.Stop()
	lines := bufio.NewScanner(p.Body)
	for lines.Scan() {
		if enough(lines.Text()) {
			return
		}
	}
	s.Fatalf("%s with %.40q ended: %v", query, lastID, lines.Err())
}

// The status has the ID of the last event, also in a later run. A client that resumes from it gets no gap.
func TestServeResumesFromStatus(t *testing.T) {
	t.Parallel()
	s, dataDir := demoServing(t)
	seen := s.events(3, "")
	s.stop(syscall.SIGTERM)
	epoch, _, _ := strings.Cut(seen[0], "-")
	s = serveBeside(t, "--config", filepath.Join(filepath.Dir(dataDir), "mcp-servers.json"), "--data-dir", dataDir)
	s.events(1, seen[2])
	var st struct {
		Epoch string
		Seq   uint64
	}
	body, _ := ask(t, s.url+"/api/status", nil)
	if err := json.Unmarshal([]byte(body), &st); err != nil || st.Epoch != epoch || st.Seq < 3 {
		t.Errorf("the log is %s, the status %s (%v)", epoch, body, err)
	}
	s.lines("/events", fmt.Sprintf("%s-%d", st.Epoch, st.Seq), func(line string) bool {
		name, ok := strings.CutPrefix(line, "event: ")
		if name == "gap" {
			t.Error("a gap was sent")
		}
		return ok && name != "checkpoint"
	})
}

// An unknown ID is answered with a gap and its reason, followed by all stored events.
func TestServeForeignIDs(t *testing.T) {
	t.Parallel()
	s, _ := demoServing(t)
	seen := s.events(3, "")
	epoch, _, _ := strings.Cut(seen[0], "-")
	for id, reason := range map[string]string{
		"garbage":                          "invalid",
		"-1":                               "invalid",
		epoch + "-x":                       "invalid",
		epoch + "-18446744073709551616":    "invalid",
		epoch + "-99999999":                "ahead",
		epoch + "-18446744073709551615":    "ahead",
		"0123456789abcdef-1":               "epoch",
		strings.Repeat("9", 8000):          "invalid",
		`"}` + "\u2028</script>\u202e\xff": "invalid",
	} {
		for _, feed := range []string{"/events", "/api/mcp/resource-events"} {
			gap, last := "", ""
			s.lines(feed, id, func(line string) bool {
				if v, ok := strings.CutPrefix(line, "id: "); ok {
					if gap != "" && feed != "/events" { // has updates only
						return true
					}
					if gap != "" {
						wantNext(t, last, v)
					}
					last = v
				}
				if data, ok := strings.CutPrefix(line, "data: "); ok && strings.Contains(data, `"gap"`) {
					gap = data
				}
				return gap != "" && last == seen[2]
			})
			if !strings.Contains(gap, `"reason":"`+reason+`"`) || strings.ContainsAny(gap, "\u2028\u202e\ufffd") {
				t.Errorf("%s with %.40q: the gap is %.300s", feed, id, gap)
			}
		}
	}
	// More than a header may have.
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Last-Event-ID", strings.Repeat("9", 20_000))
	p, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	_ = p.Body.Close()
	if p.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a header of 20,000 bytes: %s", p.Status)
	}
}

// A client over the limit is asked to retry later, in a form that EventSource accepts. It can connect after
// another client disconnects.
func TestServeLimitsClients(t *testing.T) {
	t.Parallel()
	s, _ := demoServing(t, "--max-clients", "3")
	s.events(1, "")
	s.clients(0) // else the client that just left takes a place of the three
	var held []io.Closer
	for range 3 {
		p, err := http.Get(s.url + "/events")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = p.Body.Close() }()
		if _, err := p.Body.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		held = append(held, p.Body)
	}
	p, err := http.Get(s.url + "/events")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(p.Body)
	_ = p.Body.Close()
	wait, ok := strings.CutPrefix(strings.TrimSpace(string(body)), "retry: ")
	if ms, bad := strconv.Atoi(wait); err != nil || p.StatusCode != http.StatusOK || !ok || bad != nil || ms < 1000 ||
		!strings.HasPrefix(p.Header.Get("Content-Type"), "text/event-stream") {
		t.Errorf("the fourth got %s, %q, %v", p.Status, body, err)
	}
	_ = held[0].Close()
	s.clients(2)
	s.events(1, "")
}

// Connections that send headers byte by byte are closed after 5 s. Other clients are not affected.
func TestServeSlowHeaders(t *testing.T) {
	t.Parallel()
	s, _ := demoServing(t)
	last := s.events(1, "")[0]
	began := time.Now()
	var slow []net.Conn
	for range 50 {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(began.Add(15 * time.Second))
		slow = append(slow, c)
	}
	byByte := time.NewTicker(time.Second)
	defer byByte.Stop()
	for _, b := range []byte("GET /e") {
		for _, c := range slow {
			_, _ = c.Write([]byte{b}) // fails once it is closed
		}
		last = s.events(1, last)[0]
		<-byByte.C
	}
	for i, c := range slow {
		text, err := io.ReadAll(c)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("connection %d is open %v after its first byte: %q", i, time.Since(began), text)
		}
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
