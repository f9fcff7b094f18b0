//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/mcptrack/mcptrack/output/realtime/realtimetest"
)

const testKey = "sk-test-0123456789abcdef"

// injecting is an inject that runs in the background, and its output so far.
type injecting struct {
	*testing.T
	cmd    *exec.Cmd
	done   chan struct{} // closed when it has exited
	ready  chan string   // gets the URL it listens on, once
	change chan struct{} // signalled, capacity 1, with every line

	mu             sync.Mutex
	stdout, stderr []string
}

func injectBeside(t *testing.T, env []string, args ...string) *injecting {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	x := &injecting{T: t, done: make(chan struct{}), ready: make(chan string, 1), change: make(chan struct{}, 1)}
	x.cmd = mcptrackCommand(ctx, append([]string{"inject"}, args...)...)
	x.cmd.Env = append(os.Environ(), env...)
	out, err := x.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	errs, err := x.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	collect := func(r io.Reader, into *[]string) {
		for lines := bufio.NewScanner(r); lines.Scan(); {
			x.mu.Lock()
			*into = append(*into, lines.Text())
			x.mu.Unlock()
			if url, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
				x.ready <- url
			}
			select {
			case x.change <- struct{}{}:
			default:
			}
		}
	}
	go func() {
		defer close(x.done)
		var wg sync.WaitGroup
		wg.Go(func() { collect(out, &x.stdout) })
		wg.Go(func() { collect(errs, &x.stderr) })
		wg.Wait()
		_ = x.cmd.Wait()
	}()
	t.Cleanup(func() {
		cancel()
		<-x.done
		if all := strings.Join(append(x.stdout, x.stderr...), "\n"); strings.Contains(all, testKey) {
			t.Errorf("the key was printed:\n%s", all)
		}
	})
	return x
}

type injected struct {
	Type, EventID, ServerID, ResourceURI, ItemID, Timestamp string
	LatencyMs                                               int64
}

// receipts waits for so many receipts.
func (x *injecting) receipts(n int) []injected {
	x.Helper()
	over := time.After(20 * time.Second)
	for {
		x.mu.Lock()
		lines := append([]string(nil), x.stdout...)
		x.mu.Unlock()
		if len(lines) >= n {
			var out []injected
			for _, line := range lines {
				var r injected
				if err := json.Unmarshal([]byte(line), &r); err != nil || r.Type != "injected" {
					x.Fatalf("%v in %s", err, line)
				}
				out = append(out, r)
			}
			return out
		}
		select {
		case <-x.change:
		case <-x.done:
			x.Fatalf("it exited after %d of %d receipts:\n%s", len(lines), n, strings.Join(x.stderr, "\n"))
		case <-over:
			x.Fatalf("%d of %d receipts within 20 s", len(lines), n)
		}
	}
}

func (x *injecting) exits(code int) {
	x.Helper()
	select {
	case <-x.done:
	case <-time.After(20 * time.Second):
		x.Fatal("it does not exit")
	}
	if got := x.cmd.ProcessState.ExitCode(); got != code {
		x.Errorf("exit code %d, want %d\n%s", got, code, strings.Join(x.stderr, "\n"))
	}
}

// endpoint is a Realtime endpoint for the time of the test.
func endpoint(t *testing.T, far *realtimetest.Endpoint) string {
	t.Helper()
	srv := httptest.NewServer(far)
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
		for _, p := range far.Problems() {
			t.Error(p)
		}
	})
	return "ws" + strings.TrimPrefix(srv.URL, "http") + "/v1"
}

// From a server over the tracker to the endpoint: the message is there soon after its time (3 s,
// unless the machine is busy), and a receipt is printed.
func TestInjectEndToEnd(t *testing.T) {
	t.Parallel()
	far := &realtimetest.Endpoint{}
	x := injectBeside(t, []string{"OPENAI_API_KEY=" + testKey}, "--url", endpoint(t, far), "--model", "m", "--header", "X-Own=1",
		"--config", demoFile(t), "--count", "4")
	got := x.receipts(4)
	x.exits(0)
	for _, r := range got {
		want := "Resource " + r.ResourceURI + " updated for MCP server demo at "
		found := false
		for _, it := range far.Items() {
			for _, text := range it.Texts {
				stamp, about := strings.CutPrefix(text, want)
				at, err := time.Parse(time.RFC3339, stamp)
				if it.ID != r.ItemID || !about || err != nil || it.Role != "user" {
					continue
				}
				found = true
				if late := it.At.Sub(at); late > 30*time.Second || r.LatencyMs < 0 || r.LatencyMs > 30_000 {
					t.Errorf("%s came %v late, latency %d ms", text, late, r.LatencyMs)
				}
			}
		}
		if !found {
			t.Errorf("no item for the receipt %+v", r)
		}
	}
	q := far.Requests()[0]
	if q.URL.String() != "/v1/realtime?model=m" || q.Header.Get("Authorization") != "Bearer "+testKey || q.Header.Get("X-Own") != "1" || q.Header.Get("OpenAI-Beta") != "" {
		t.Errorf("handshake %v %v", q.URL, q.Header)
	}
}

// If the endpoint rejects the key, the exit code is 5; if the call ends, 0.
func TestInjectEnds(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(testKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	refusing := &realtimetest.Endpoint{Refuse: func(int, *http.Request) int { return 401 }}
	x := injectBeside(t, nil, "--url", endpoint(t, refusing), "--call-id", "rtc_1", "--config", demoFile(t), "--api-key-file", key, "--auth-header", "api-key", "--json")
	x.exits(5)
	var reported struct {
		Error struct{ Code, Message string }
	}
	if err := json.Unmarshal([]byte(x.stderr[len(x.stderr)-1]), &reported); err != nil || reported.Error.Code != "refused" || !strings.Contains(reported.Error.Message, "401 Unauthorized: refused_401") {
		t.Errorf("%v: %s", err, x.stderr)
	}
	q := refusing.Requests()[0]
	if q.URL.RawQuery != "call_id=rtc_1" || q.Header.Get("Api-Key") != testKey || q.Header.Get("Authorization") != "" {
		t.Errorf("handshake %v %v", q.URL, q.Header)
	}
	ending := &realtimetest.Endpoint{Create: func(c *realtimetest.Conn, it realtimetest.ReceivedItem) {
		c.Add(it)
		_ = c.Close(websocket.StatusGoingAway, "Your session hit the maximum duration of 60 minutes.")
	}}
	x = injectBeside(t, nil, "--url", endpoint(t, ending), "--call-id", "rtc_1", "--config", demoFile(t))
	x.exits(0)
	items := map[string]bool{} // one item may carry several updates, each with its receipt
	for _, line := range x.stdout {
		var r struct{ ItemID string }
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Error(err)
		}
		items[r.ItemID] = true
	}
	if len(items) != 1 || strings.Join(x.stderr, "\n") != "the session has ended" {
		t.Errorf("%q %q", x.stdout, x.stderr)
	}
}

// From a feed: inject repeats nothing after a restart, orderly or not, and injects the last update of every
// resource, also of resources that changed while it was down.
func TestInjectResumes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := demoFile(t)
	feed := serveBeside(t, "--config", file, "--data-dir", filepath.Join(dir, "events"))
	far := &realtimetest.Endpoint{}
	url := endpoint(t, far)
	times := map[string]int{} // how often, by event id
	run := func(sig syscall.Signal, enough func(*injecting)) {
		x := injectBeside(t, []string{"XDG_STATE_HOME=" + filepath.Join(dir, "state")}, "--url", url, "--call-id", "rtc_1",
			"--from", feed.url, "--max-per-minute", "0", "--coalesce", "0")
		enough(x)
		_ = x.cmd.Process.Signal(sig)
		<-x.done
		for _, line := range x.stdout {
			var r injected
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			times[r.EventID]++
		}
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		run(sig, func(x *injecting) { x.receipts(3) })
		feed.events(8, "") // happens while it is away
	}
	// Nothing changes any more; what is to come has happened already.
	save(t, file, `{"mcpServers": {}}`)
	newest := feed.newest()
	var missed []string
	for _, id := range newest {
		if times[id] == 0 {
			missed = append(missed, id)
		}
	}
	if len(missed) == 0 {
		t.Fatal("nothing was missed: the test shows nothing")
	}
	run(syscall.SIGTERM, func(x *injecting) {
		// Not as many receipts as there are ids: what comes slowly is not merged.
		for n := len(missed); ; n++ {
			if confirms(x.receipts(n), missed) {
				return
			}
		}
	})
	for uri, id := range newest {
		if times[id] != 1 {
			t.Errorf("%s, the last of %s, was injected %d times", id, uri, times[id])
		}
	}
	for id, n := range times {
		if n > 1 {
			t.Errorf("%s was injected %d times", id, n)
		}
	}
	// The wire may show one more, in flight at the kill, under its old id.
	ids := map[string]bool{}
	for _, it := range far.Items() {
		ids[it.ID] = true
	}
	if again := len(far.Items()) - len(ids); again > 1 {
		t.Errorf("%d items were sent again", again)
	}
}

// confirms reports whether there is a receipt of every event.
func confirms(receipts []injected, ids []string) bool {
	for _, id := range ids {
		if !slices.ContainsFunc(receipts, func(r injected) bool { return r.EventID == id }) {
			return false
		}
	}
	return true
}

// newest returns the last update of every resource, once the server was removed
// from the config.
func (s *serving) newest() map[string]string {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/events?since=earliest", nil)
	if err != nil {
		s.Fatal(err)
	}
	p, err := http.DefaultClient.Do(q)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = p.Body.Close() }()
	out := map[string]string{}
	for lines := bufio.NewScanner(p.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var e struct{ ID, Type, ResourceURI, Reason string }
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			s.Fatal(err)
		}
		switch {
		case e.Type == "resource.updated":
			out[e.ResourceURI] = e.ID
		case e.Type == "server.state" && e.Reason == "removed":
			return out
		}
	}
	s.Fatal("the server was never removed")
	return nil
}

// An ElevenLabs agent gets contextual updates; the key is in the header of that API.
func TestInjectElevenLabs(t *testing.T) {
	t.Parallel()
	far := &realtimetest.Endpoint{}
	x := injectBeside(t, []string{"ELEVENLABS_API_KEY=" + testKey}, "--url", endpoint(t, far), "--dialect", "elevenlabs", "--session-id", "conv_1",
		"--config", demoFile(t), "--count", "2")
	x.receipts(2)
	x.exits(0)
	if q := far.Requests()[0]; q.URL.String() != "/v1/convai/conversations/conv_1/monitor" || q.Header.Get("Xi-Api-Key") != testKey || q.Header.Get("Authorization") != "" {
		t.Errorf("handshake %v %v", q.URL, q.Header)
	}
}
