//go:build linux

package main

import (
	"bufio"
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
// sent no gap.
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

// An id that means nothing here is answered with a gap and its reason, and then all that
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

// A client beyond the limit is asked to retry later, in a way that EventSource accepts,
// and gets its place once there is one.
func TestServeLimitsClients(t *testing.T) {
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
	for deadline := time.Now().Add(time.Minute); ; <-time.After(10 * time.Millisecond) {
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
