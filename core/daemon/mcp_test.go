package daemon_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/daemon"
	"github.com/mcptrack/mcptrack/core/daemon/ipc"
	"github.com/mcptrack/mcptrack/core/session"
)

// startHTTP starts a daemon that also serves HTTP. opens counts how often a config is read.
func startHTTP(t *testing.T, change func(*daemon.Options)) (w *world, base string, opens *atomic.Int64) {
	t.Helper()
	opens = &atomic.Int64{}
	var open func(context.Context, daemon.Client) (daemon.Source, error)
	w = start(t, func(o *daemon.Options) {
		o.LookupEnv = func(name string) (string, bool) {
			value, ok := map[string]string{"PATH": os.Getenv("PATH"), "HOME": "/some/home"}[name]
			return value, ok
		}
		open = o.Open
		o.Open = func(ctx context.Context, c daemon.Client) (daemon.Source, error) {
			opens.Add(1)
			source, err := open(ctx, c)
			if err == nil && c.Server != "" {
				if _, known := source.Config.Server(c.Server); !known {
					err = &ipc.Refused{Code: "unknown_server", Message: "the config has no server " + c.Server, Hint: "did you mean a?"}
				}
			}
			return source, err
		}
		if change != nil {
			change(o)
		}
	})
	if conn, err := w.connect(ipc.Hello{Purpose: ipc.Status}, nil); err != nil { // the daemon runs
		t.Fatal(err)
	} else {
		_ = conn.Close()
	}
	srv := httptest.NewServer(w.d.MCP())
	t.Cleanup(srv.Close)
	return w, srv.URL, opens
}

func endpointURL(base, server, dir string) string {
	return base + daemon.MCPPath + url.PathEscape(server) + "?" + url.Values{"config": {filepath.Join(dir, "mcp.json")}, "folder": {dir}}.Encode()
}

// over connects to a URL.
func (w *world) over(to string, protocol config.Protocol) *session.Session {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := session.Dial(ctx, config.Server{ID: "http", Enabled: true, Transport: config.TransportHTTP, URL: config.NewSecret(to), Protocol: protocol, RequestTimeout: time.Minute}, session.Options{})
	must(w.t, err)
	w.t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestHTTP: HTTP clients of both eras share their servers with those of the socket, and see names
// unchanged. Their config is read once, and its changes are followed.
func TestHTTP(t *testing.T) {
	w, base, opens := startHTTP(t, nil)
	dir := w.folder(map[string]string{"a": `"env":{"` + serverKey + `":"1","WHERE":"${HOME}","SECRET":"${TOKEN:-none}"}`, "b/c": ""})
	legacy := w.over(endpointURL(base, "a", dir), config.ProtocolLegacy)
	modern := w.over(endpointURL(base, "a", dir), config.ProtocolModern)
	all := w.over(endpointURL(base, "", dir), config.ProtocolModern)
	odd := w.over(endpointURL(base, "b/c", dir), config.ProtocolLegacy)
	before := opens.Load()
	socket := w.client(ipc.Hello{Folder: dir, Config: filepath.Join(dir, "mcp.json"), Server: "a"}, map[string]string{"HOME": "/some/home"}, session.Options{})
	pid := w.call(socket, "pid", nil)
	for name, s := range map[string]*session.Session{"legacy": legacy, "modern": modern} {
		if got := w.call(s, "pid", nil); got != pid {
			t.Errorf("%s: process %s, want %s", name, got, pid)
		}
	}
	if got := w.call(all, "a_pid", nil); got != pid {
		t.Errorf("process %s, want %s", got, pid)
	}
	if got := w.call(odd, "pid", nil); got == pid {
		t.Error("another server has the same process")
	}
	if where, secret := w.call(legacy, "env", map[string]any{"text": "WHERE"}), w.call(legacy, "env", map[string]any{"text": "SECRET"}); where != "/some/home" || secret != "none" {
		t.Errorf("the environment: %q, %q", where, secret)
	}
	if n := opens.Load() - before; n > 2 { // those of the client of the socket
		t.Errorf("the config was read %d times more", n)
	}
	w.setConfig(dir, map[string]string{"new": "", "b/c": ""})
	must(t, os.WriteFile(filepath.Join(dir, "mcp.json"), []byte(w.config[dir]), 0o600))
	w.until("the new server is served", func() bool {
		list, err := all.List(t.Context(), "tools")
		must(t, err)
		return strings.Contains(strings.Join(list.Keys(), " "), "new_echo")
	})
	w.until("the old one is not found any more", func() bool {
		return refused(t, endpointURL(base, "a", dir), http.StatusNotFound, "did you mean a?")
	})
}

// post sends a message, in a session if there is an id, and returns the answer.
func post(t *testing.T, to, session, message string) (status int, id, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, to, strings.NewReader(message))
	must(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
	}
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp.StatusCode, resp.Header.Get("Mcp-Session-Id"), string(text)
}

// refused reports whether a request is refused with a status and a text.
func refused(t *testing.T, to string, want int, contains string) bool {
	t.Helper()
	status, _, body := post(t, to, "", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	return status == want && strings.Contains(body, contains)
}

// TestHTTPRefusals: requests without a group are told why.
func TestHTTPRefusals(t *testing.T) {
	w, base, _ := startHTTP(t, nil)
	good, bad := w.folder(map[string]string{"a": ""}), t.TempDir()
	w.config[bad] = "{"
	for to, want := range map[string]struct {
		status int
		text   string
	}{
		endpointURL(base, "other", good):                                                 {http.StatusNotFound, "the config has no server other\nhint: did you mean a?"},
		endpointURL(base, "a", bad):                                                      {http.StatusUnprocessableEntity, "mcp.json"},
		base + daemon.MCPPath + "a":                                                      {http.StatusBadRequest, "absolute paths"},
		base + daemon.MCPPath + "a?config=x.json&folder=/":                               {http.StatusBadRequest, "absolute paths"},
		base + daemon.MCPPath + "a?config=/x.json&folder=.":                              {http.StatusBadRequest, "absolute paths"},
		base + "/other" + strings.TrimPrefix(endpointURL("", "a", good), daemon.MCPPath): {http.StatusNotFound, "404"},
	} {
		if !refused(t, to, want.status, want.text) {
			t.Errorf("%s: not %d %q", to, want.status, want.text)
		}
	}
}

// TestHTTPSessionsAreKept: groups of later clients do not displace the group of an HTTP session, also while
// it has no stream.
func TestHTTPSessionsAreKept(t *testing.T) {
	w, base, opens := startHTTP(t, nil)
	dir := w.folder(map[string]string{"a": ""})
	to := endpointURL(base, "a", dir)
	status, id, body := post(t, to, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	if status != http.StatusOK || id == "" {
		t.Fatalf("%d: %s", status, body)
	}
	empty := w.folder(nil)
	for i := range 100 { // more than the daemon keeps without clients
		conn, err := w.connect(ipc.Hello{Folder: empty, Path: "/bin:/" + strings.Repeat("x", i+1)}, nil)
		must(t, err)
		_ = conn.Close()
		w.until("the client has left", func() bool { return w.d.Status().Clients == 0 })
	}
	before := opens.Load()
	status, _, body = post(t, to, id, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	if status != http.StatusOK || !strings.Contains(body, `"echo"`) || opens.Load() != before {
		t.Errorf("%d: %s; the config was read %d times more", status, body, opens.Load()-before)
	}
}

// TestHTTPUnshared: a server with "shared": false outlives the requests of HTTP clients, and one whose
// only client of the socket left later.
func TestHTTPUnshared(t *testing.T) {
	w, base, _ := startHTTP(t, nil)
	dir := w.folder(map[string]string{"a": `"shared":false`, "b": `"shared":false`})
	s := w.over(endpointURL(base, "a", dir), config.ProtocolModern)
	pid := w.call(s, "pid", nil)
	socket := w.client(ipc.Hello{Folder: dir, Server: "b", Client: "1"}, nil, session.Options{})
	w.call(socket, "pid", nil)
	must(t, socket.Close())
	w.until("the other server has ended", func() bool {
		return !slices.ContainsFunc(w.d.Status().Servers, func(s daemon.ServerStatus) bool { return s.ID == "b" })
	})
	if got := w.call(s, "pid", nil); got != pid {
		t.Errorf("process %s, before %s", got, pid)
	}
}

// TestHTTPEndpointsAreBounded: of many endpoints, the daemon remembers the latest.
func TestHTTPEndpointsAreBounded(t *testing.T) {
	w, base, opens := startHTTP(t, nil)
	var urls []string
	for range 80 { // more than it remembers
		to := endpointURL(base, "", w.folder(nil))
		urls = append(urls, to)
		post(t, to, "", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	}
	for i, want := range map[int]int64{79: 0, 78: 0, 0: 1} {
		before := opens.Load()
		post(t, urls[i], "", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		if got := opens.Load() - before; min(got, 1) != want {
			t.Errorf("endpoint %d: the config was read %d times", i, got)
		}
	}
}

// TestHTTPStop: a daemon that stops answers what is in flight over HTTP, ends streams, and refuses other
// requests.
func TestHTTPStop(t *testing.T) {
	w, base, _ := startHTTP(t, nil)
	dir := w.folder(map[string]string{"a": ""})
	file := filepath.Join(t.TempDir(), "calls")
	answers := make(chan error, 2) // one for each session
	for _, protocol := range []config.Protocol{config.ProtocolLegacy, config.ProtocolModern} {
		s := w.over(endpointURL(base, "a", dir), protocol)
		if _, err := s.Subscribe(t.Context(), session.Filter{Tools: true}); err != nil { // opens a stream
			t.Fatal(err)
		}
		go func() {
			_, err := w.tryCall(s, "wait", map[string]any{"file": file, "text": string(protocol)})
			answers <- err
		}()
	}
	w.until("the calls have arrived", func() bool {
		calls, _ := os.ReadFile(file)
		return strings.Count(string(calls), "\n") == 2
	})
	w.cancel()
	for range 2 {
		if err := <-answers; err != nil {
			t.Errorf("the call in flight: %v", err)
		}
	}
	if err := w.end(); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if !refused(t, endpointURL(base, "a", dir), http.StatusServiceUnavailable, "stopping") {
		t.Error("a request is served by a daemon that has ended")
	}
}
