//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

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

// The status has an id of the log, also in a later run, and who goes on from it is
// told no gap.
func TestServeGoesOnFromItsStatus(t *testing.T) {
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
			t.Error("a gap is told")
		}
		return ok && name != "checkpoint"
	})
}

// An id that means nothing here is told as a gap with its reason, and then all that
// there is follows without a hole.
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

// A client too many is told when to come back, in a way that EventSource accepts,
// and gets its place once there is one.
func TestServeClientTooMany(t *testing.T) {
	t.Parallel()
	s, _ := demoServing(t, "--max-clients", "3")
	s.events(1, "")
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
	for deadline := time.Now().Add(10 * time.Second); ; <-time.After(10 * time.Millisecond) {
		if text, _ := ask(t, s.url+"/api/status", nil); strings.Contains(text, `"clients":2`) {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("the place is not free again: %s", text)
		}
	}
	s.events(1, "")
}

// Headers that come byte by byte end after 5 s, and the others do not notice.
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

// A flipped byte in the store is told as a gap, and costs no more than the events
// around it.
func TestServeFlippedByte(t *testing.T) {
	t.Parallel()
	s, dataDir := demoServing(t)
	seen := s.events(12, "")
	s.stop(syscall.SIGTERM)
	found, err := filepath.Glob(filepath.Join(dataDir, "store", "jetstream", "*", "streams", "mcptrack", "msgs", "*.blk"))
	if err != nil || len(found) != 1 {
		t.Fatalf("blocks: %q, %v", found, err)
	}
	data, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	uri, places := []byte(`"resourceUri":"vault://`), []int(nil)
	for at := 0; ; at += len(uri) {
		next := bytes.Index(data[at:], uri)
		if next < 0 {
			break
		}
		at += next
		places = append(places, at)
	}
	if len(places) < 4 {
		t.Fatalf("only %d events about resources", len(places))
	}
	data[places[len(places)/2]+len(uri)-len("lt://")] ^= 'l' ^ 'k' // vaukt://
	if err := os.WriteFile(found[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := mcptrackCommand(t.Context(), "replay", "--data-dir", dataDir).Output()
	if err != nil {
		t.Fatal(err)
	}
	events, gaps, there := 0, 0, map[string]bool{}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, `"type":"gap"`) {
			gaps++
			if !strings.Contains(line, `"reason":"damaged"`) {
				t.Errorf("told as %s", line)
			}
			continue
		}
		events++
		id, _, _ := strings.Cut(strings.TrimPrefix(line, `{"id":"`), `"`)
		there[id] = true
		if strings.Contains(line, "vaukt://") {
			t.Errorf("served as truth: %s", line)
		}
	}
	if lost := len(seen) - countIn(there, seen); gaps == 0 || lost > len(seen)/2 {
		t.Errorf("%d gaps, %d events, %d of %d lost:\n%s", gaps, events, lost, len(seen), out)
	}
}

func countIn(set map[string]bool, keys []string) (n int) {
	for _, k := range keys {
		if set[k] {
			n++
		}
	}
	return n
}

// A full disk makes it unready, and nothing that is not stored is shown. Once there
// is space all goes on, without a hole and without an id that is used twice.
func TestServeDiskFull(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, disk := filepath.Join(dir, "mcp-servers.json"), filepath.Join(dir, "disk")
	save(t, file, config(`"demo": `+demoEntry(t, t.Name(), `, "trackResources": true`)))
	self := filepath.Join(dir, "mcptrack")
	exe, err := os.Executable()
	if err := errors.Join(err, os.Symlink(exe, self), os.Mkdir(disk, 0o700)); err != nil {
		t.Fatal(err)
	}
	// A small file system that only the process and its children see, and that is
	// gone with them. Who is not root needs a user namespace for it.
	small := func(args ...string) *serving {
		cmd := mcptrackCommand(t.Context())
		cmd.Path = "/bin/sh"
		cmd.Args = append([]string{"sh", "-c", `mount -t tmpfs -o size=16m,mode=700 tmpfs "$0" && exec "$@"`, disk}, args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		if os.Geteuid() != 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{
				Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
				UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
				GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
			}
		}
		if args[0] == "true" {
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Skipf("a file system that can be filled needs root, or user namespaces: %v, %s", err, out)
			}
			return nil
		}
		return serveCommand(t, cmd)
	}
	small("true")
	s := small(self, "serve-sse", "--addr", "127.0.0.1:0", "--config", file, "--data-dir", filepath.Join(disk, "events"))
	last := s.events(3, "")[2]
	ready := func(want int) (why string) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; <-time.After(20 * time.Millisecond) {
			text, code := ask(t, s.url+"/readyz", nil)
			if code == want {
				return text
			}
			if time.Now().After(deadline) {
				t.Fatalf("/readyz stays %d: %s", code, text)
			}
		}
	}
	ready(http.StatusOK)
	filler := fmt.Sprintf("/proc/%d/root%s/filler", s.cmd.Process.Pid, disk)
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if _ = f.Close(); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if why := ready(http.StatusServiceUnavailable); !strings.Contains(why, "cannot be stored") {
		t.Errorf("not ready: %s", why)
	}
	if text, code := ask(t, s.url+"/healthz", nil); code != http.StatusOK {
		t.Errorf("/healthz: %d %s", code, text)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	ready(http.StatusOK)
	wantNext(t, append([]string{last}, s.events(30, last)...)...)
	s.stop(syscall.SIGTERM)
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit %d", code)
	}
}
