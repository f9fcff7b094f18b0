package mcpserver_test

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/internal/subscriptions"
	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// restarted serves the sessions in dir, like a restarted process.
func restarted(t *testing.T, dir string, opts mcpserver.Options, notes ...string) *endpoint {
	t.Helper()
	opts.SessionDir, opts.Key = dir, []byte("key")
	return newEndpoint(t, opts, notes...)
}

// end stops the server like a process that is asked to stop; its clients are disconnected.
func (s *endpoint) end() { s.Close() }

func (s *endpoint) open(params string, more header) header {
	s.t.Helper()
	resp := s.ask(s.t.Context(), http.MethodPost, more, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":`+params+`}`)
	defer resp.Body.Close()
	h := header{"Mcp-Session-Id": resp.Header.Get("Mcp-Session-Id")}
	maps.Copy(h, more)
	return h
}

// A client continues its session after a restart: the server knows its version, capabilities and
// subscriptions, and notifies it only of what may have changed.
func TestSessionsSurviveARestart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "sessions")
	s := restarted(t, dir, mcpserver.Options{}, "a", "b", "c")
	h := s.open(`{"protocolVersion":"2025-11-25","capabilities":{"sampling":{}}}`, nil)
	const id1 = `{"jsonrpc":"2.0","id":1,"method":"%s","params":%s}`
	do := func(method, params, want string) {
		t.Helper()
		if status, got := s.post(h, id1, method, params); status != http.StatusOK || !strings.Contains(got, want) {
			t.Errorf("%s: %d, %s; want %s", method, status, got, want)
		}
	}
	for _, uri := range []string{"a", "b", "c"} {
		do("resources/subscribe", `{"uri":"note:///`+uri+`"}`, `"result":{}`)
		if uri == "a" { // another server removes the file
			files, err := filepath.Glob(filepath.Join(dir, "*"))
			if err != nil || len(files) != 1 || os.Remove(files[0]) != nil {
				t.Fatalf("%q, %v", files, err)
			}
		}
	}
	do("resources/unsubscribe", `{"uri":"note:///b"}`, `"result":{}`)
	do("tools/list", `{}`, `"echo"`)
	do("resources/list", `{}`, `note:///a`)
	do("tools/call", `{"name":"client","arguments":{"level":"debug"}}`, "")
	get := s.stream("GET", h, "")
	s.write("a", "1")
	get.next()
	h["Last-Event-ID"] = get.id
	s.end()

	// Only what is subscribed to may have changed.
	updated := func(e *events, names ...string) {
		t.Helper()
		for _, name := range names {
			e.expect(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"note:///%s"}}`, name)
		}
	}
	s = restarted(t, dir, mcpserver.Options{}, "a", "b", "c")
	do("tools/call", `{"name":"client"}`, `2025-11-25 {\"sampling\":{}} {\"level\":\"debug\"}`)
	get = s.stream("GET", h, "")
	updated(get, "a", "c")
	s.write("b", "nobody listens")
	s.write("c", "1")
	updated(get, "c")
	do("resources/subscribe", `{"uri":"note:///b"}`, `"result":{}`)
	s.end()

	// The prompts, which the client never saw, and the tools change.
	s = restarted(t, dir, mcpserver.Options{}, "a", "b", "c")
	s.SetCatalog(mcpserver.Catalog{Tools: s.catalog().Tools[1:], Resources: s.catalog("a", "b", "c").Resources, Templates: s.catalog().Templates})
	get = s.stream("GET", h, "")
	get.expect(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{}}`)
	updated(get, "a", "b", "c")

	// The file is accessible only to its owner, and reveals no session id.
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 || strings.Contains(files[0].Name(), h["Mcp-Session-Id"]) {
		t.Fatalf("%v, %v", files, err)
	}
	for _, path := range []string{dir, filepath.Join(dir, files[0].Name())} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
	}
	// A session that its client ended is gone.
	if resp := s.ask(t.Context(), http.MethodDelete, h, ""); resp.StatusCode != http.StatusNoContent {
		t.Errorf("DELETE: %s", resp.Status)
	}
	s.end()
	s = restarted(t, dir, mcpserver.Options{})
	if status, _ := s.post(h, ping); status != http.StatusNotFound {
		t.Errorf("after DELETE and a restart: %d", status)
	}
}

// A session belongs to the principal that opened it, and ids cannot be made up.
func TestStoredSessionsBelongToTheirPrincipal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := restarted(t, dir, mcpserver.Options{})
	mine := s.open(`{"protocolVersion":"2025-06-18","capabilities":{}}`, header{"Authorization": "Bearer one"})
	s.end()
	s = restarted(t, dir, mcpserver.Options{})
	for _, h := range []header{
		{"Mcp-Session-Id": mine["Mcp-Session-Id"]},
		{"Mcp-Session-Id": mine["Mcp-Session-Id"], "Authorization": "Bearer two"},
		{"Mcp-Session-Id": mine["Mcp-Session-Id"] + "x", "Authorization": "Bearer one"},
		{"Mcp-Session-Id": "../" + mine["Mcp-Session-Id"], "Authorization": "Bearer one"},
		{"Mcp-Session-Id": strings.Repeat("x", 4000), "Authorization": "Bearer one"},
	} {
		if status, _ := s.post(h, ping); status != http.StatusNotFound {
			t.Errorf("%v: %d", h, status)
		}
	}
	if status, _ := s.post(mine, ping); status != http.StatusOK {
		t.Errorf("the owner: %d", status)
	}
}

// A client that resumes a call that was in progress at a restart gets an error.
func TestResumeAfterARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := restarted(t, dir, mcpserver.Options{})
	h := s.open(`{"protocolVersion":"2025-11-25","capabilities":{}}`, nil)
	e := s.stream(http.MethodPost, h, call("progress", `,"arguments":{"hold":true},"_meta":{"progressToken":"p"}`))
	e.next()
	e.leave()
	s.proceed <- struct{}{}
	s.end()
	s = restarted(t, dir, mcpserver.Options{})
	h["Last-Event-ID"] = e.id
	again := s.stream(http.MethodGet, h, "")
	if got := again.next(); !strings.Contains(got, `"id":1,"error"`) || again.next() != "" {
		t.Errorf("%s", got)
	}
	delete(h, "Last-Event-ID")
	s.over(h, again.id)
}

// A stored subscription whose server is not connected yet is made later.
func TestStoredSubscriptionsWait(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := restarted(t, dir, mcpserver.Options{}, "a")
	h := s.open(`{"protocolVersion":"2025-06-18","capabilities":{}}`, nil)
	s.post(h, `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"note:///a"}}`)
	s.end()
	for range 2 { // it also survives a run in which the server never connected
		var there atomic.Bool
		s = restarted(t, dir, mcpserver.Options{Subscriptions: subscriptions.Options{Subscribable: func(string) bool { return there.Load() }}})
		get := s.stream("GET", h, "")
		if uris := s.Subscriptions().Stats().URIs; uris != 0 {
			t.Error("it is subscribed to already")
		}
		there.Store(true)
		s.SetCatalog(s.catalog("a"))
		if got := get.next(); !strings.Contains(got, note("a")) && !strings.Contains(got, "list_changed") {
			t.Errorf("%s", got)
		}
		eventually(t, "the subscription", func() bool { return s.Subscriptions().Subscribed(note("a")) })
		s.end()
	}
}

// An idle session leaves memory; its client can continue it for a week.
func TestIdleSessionsAreStored(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		h := newTestServer(t, mcpserver.Options{SessionDir: dir, MaxSessions: 2, SessionIdle: time.Minute})
		open := func() string { return h.openAs(t, "") }
		alive := func(session string) bool { return h.postAs("", session, ping).Code == http.StatusOK }
		one := open()
		time.Sleep(time.Hour)
		if n := h.Subscriptions().Stats().Subscribers; n != 0 {
			t.Errorf("%d are in memory", n)
		}
		if !alive(one) {
			t.Error("the client has to connect again")
		}
		time.Sleep(6 * 24 * time.Hour)
		if !alive(one) {
			t.Error("use does not extend it")
		}
		time.Sleep(8 * 24 * time.Hour)
		if alive(one) {
			t.Error("it is stored forever")
		}
		// Of more than twice MaxSessions besides those in memory, the oldest are gone.
		var all []string
		for range 8 {
			all = append(all, open())
			time.Sleep(time.Second)
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.session"))
		if err != nil || len(files) > 6 || !alive(all[7]) || !alive(all[2]) || alive(all[0]) {
			t.Errorf("%d files, %v", len(files), err)
		}
		h.Close()
	})
}

// A file that has become too large is rewritten. A session with a damaged file is lost, rather than
// continued without its state.
func TestSessionFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := restarted(t, dir, mcpserver.Options{Subscriptions: subscriptions.Options{MaxURIBytes: 1 << 20}})
	h := s.open(`{"protocolVersion":"2025-06-18","capabilities":{}}`, nil)
	s.post(h, `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"note:///a"}}`)
	for i := range 5 {
		for _, method := range []string{"subscribe", "unsubscribe"} {
			s.post(h, `{"jsonrpc":"2.0","id":1,"method":"resources/%s","params":{"uri":"note:///%0500000d"}}`, method, i)
		}
	}
	s.end()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%q, %v", files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil || len(data) > 2_000_000 {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	for text, want := range map[string]int{
		string(data): 200, string(data[:len(data)-2]): 404, string(data) + "{}\n": 200, string(data) + "x\n": 404, "": 404, "{}\n": 404,
		`{"version":"2026-07-28"}` + "\n": 404,
	} {
		if err := os.WriteFile(files[0], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s := restarted(t, dir, mcpserver.Options{})
		status, _ := s.post(h, ping)
		if status != want {
			t.Errorf("%d bytes: %d, want %d", len(text), status, want)
		}
		if uris := s.Subscriptions().Stats().URIs; status == http.StatusOK && uris != 1 {
			t.Errorf("%d subscriptions", uris)
		}
		s.end()
	}
}

// A stored session must not be outdated: if it cannot be written, the client must connect again
// after a restart.
func TestSessionFileThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := restarted(t, dir, mcpserver.Options{Subscriptions: subscriptions.Options{MaxURIBytes: 1 << 20}})
	h := s.open(`{"protocolVersion":"2025-06-18","capabilities":{}}`, nil)
	for i := range 9 { // too large in total
		uri := fmt.Sprintf("note:///%d%s", i, strings.Repeat("x", 500_000))
		if status, body := s.post(h, `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"%s"}}`, uri); status != http.StatusOK || code(body) != 0 {
			t.Fatal(status)
		}
	}
	if status, _ := s.post(h, ping); status != http.StatusOK {
		t.Errorf("it does not continue: %d", status)
	}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			t.Errorf("%s is left", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// Concurrent requests of a session after a restart get the same session.
func TestSessionIsRestoredOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := restarted(t, dir, mcpserver.Options{}, "a")
	h := s.open(`{"protocolVersion":"2025-06-18","capabilities":{}}`, nil)
	for _, params := range []string{`subscribe","params":{"uri":"note:///a"}`, `subscribe","params":{"uri":"note:///b"}`, `unsubscribe","params":{"uri":"note:///b"}`} {
		s.post(h, `{"jsonrpc":"2.0","id":1,"method":"resources/%s}`, params)
	}
	s.end()
	for range 5 {
		s = restarted(t, dir, mcpserver.Options{}, "a")
		statuses := make(chan int, 10)
		for range cap(statuses) {
			go func() {
				r, _ := http.NewRequestWithContext(context.Background(), http.MethodPost, s.url, strings.NewReader(ping))
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Mcp-Session-Id", h["Mcp-Session-Id"])
				resp, err := http.DefaultClient.Do(r)
				if err != nil {
					statuses <- 0
					return
				}
				_ = resp.Body.Close()
				statuses <- resp.StatusCode
			}()
		}
		var got []int
		for range cap(statuses) {
			got = append(got, <-statuses)
		}
		if stats := s.Subscriptions().Stats(); slices.Max(got) != 200 || slices.Min(got) != 200 || stats != (subscriptions.Stats{Subscribers: 1, Subscriptions: 1, URIs: 1}) {
			t.Fatalf("%v, %+v", got, stats)
		}
		s.end()
	}
}
