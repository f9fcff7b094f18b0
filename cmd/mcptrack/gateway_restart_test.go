//go:build linux

package main

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/mcpserver/mcpservertest"
)

// front is a reverse proxy before a server that restarts: requests wait until it is there.
type front struct {
	*mcpservertest.Counter

	url string

	mu    sync.Mutex
	there chan struct{} // closed while the server is there
	at    *url.URL
}

func newFront(t *testing.T) *front {
	t.Helper()
	f := &front{there: make(chan struct{})}
	f.Counter = &mcpservertest.Counter{Handler: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			f.mu.Lock()
			defer f.mu.Unlock()
			r.SetURL(f.at)
			r.Out.URL.Path = f.at.Path
		},
		FlushInterval: -1, Transport: &http.Transport{DisableKeepAlives: true},
		ErrorLog:     log.New(io.Discard, "", 0),
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}}
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		there := f.there
		f.mu.Unlock()
		select {
		case <-there:
			f.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() {
		ts.CloseClientConnections()
		ts.Close()
	})
	f.url = ts.URL
	return f
}

func (f *front) open(t *testing.T, to string) {
	t.Helper()
	at, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at = at
	close(f.there)
}

func (f *front) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.there = make(chan struct{})
}

// Clients that cannot begin a new session go on with theirs after a restart of the gateway or the
// vault, with all that they subscribed to, and are told of nothing that has not changed.
func TestClientsSurviveARestart(t *testing.T) {
	t.Parallel()
	notes := t.TempDir()
	note(t, filepath.Join(notes, "a.md"), "# A")
	for _, c := range []struct {
		library, command string
		signal           syscall.Signal
	}{
		{"sdk", "gateway", syscall.SIGKILL}, {"sdk", "gateway", syscall.SIGTERM}, {"sdk", "vault", syscall.SIGKILL},
		{"client", "gateway", syscall.SIGKILL}, {"client", "vault", syscall.SIGTERM},
	} {
		t.Run(c.library+" "+c.command+" "+c.signal.String(), func(t *testing.T) {
			t.Parallel()
			state, token := t.TempDir(), filepath.Join(t.TempDir(), "token")
			const secret = "a-token-of-sixteen-or-more"
			save(t, token, secret)
			args := []string{"vault", notes}
			uri, changed := "vault://note/a.md", func() { note(t, filepath.Join(notes, "a.md"), "# "+time.Now().String()) }
			if c.command == "gateway" {
				file := filepath.Join(t.TempDir(), "mcp-servers.json")
				save(t, file, config(`"a": `+demoEntry(t, t.Name(), `, "trackResources": true`)))
				args = []string{"gateway", "--config", file, "--wait", "1m"} // else it may listen before the tools are there
				uri, changed = "vault://note/clock.md", func() {}            // by itself
			}
			f := newFront(t)
			start := func() *serving {
				cmd := mcptrackCommand(context.Background(), append(args, "--addr", "127.0.0.1:0", "--token-file", token)...)
				cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+state)
				s := serveCommand(t, cmd)
				f.open(t, s.url)
				return s
			}
			s := start()
			client := mcpservertest.Drive(t, nodeCommand(context.Background(), t, "driven.mjs", c.library, f.url, secret))
			do := func(method, params string) {
				t.Helper()
				if _, failed := client.Do(method, params); failed != "" {
					t.Errorf("%s: %s", method, failed)
				}
			}
			do("tools/list", "{}")
			do("resources/subscribe", `{"uri":`+strconv.Quote(uri)+`}`)
			changed()
			client.Await("resources/updated " + uri)
			for range 2 {
				f.close()
				s.stop(c.signal)
				s = start()
				do("tools/list", "{}")
				do("resources/read", `{"uri":`+strconv.Quote(uri)+`}`)
				changed()
				client.Await("resources/updated " + uri)
			}
			// A gateway may listen before its servers have listed their tools, on a busy machine.
			if c.command == "vault" && slices.Contains(client.Notifications, "tools/list_changed") {
				t.Errorf("the tools have not changed, but it heard of %q", slices.Compact(client.Notifications))
			}
			do("terminate", "{}")
			f.close()
			s.stop(c.signal)
			s = start()
			if _, status := initialize(t, s.url, map[string]string{"Authorization": "Bearer " + secret, "Mcp-Session-Id": client.Session}); status != http.StatusOK {
				t.Errorf("a new session: %d", status)
			}
			q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
			if err != nil {
				t.Fatal(err)
			}
			q.Header.Set("Content-Type", "application/json")
			if body, status := answer(t, q, map[string]string{"Authorization": "Bearer " + secret, "Mcp-Session-Id": client.Session}); status != http.StatusNotFound {
				t.Errorf("the session that its client has ended: %d %s", status, body)
			}
		})
	}
}

// A client whose calls failed, also because their server died, sends nothing more.
func TestGatewayClientsAreIdleAfterErrors(t *testing.T) {
	t.Parallel()
	for _, library := range []string{"sdk", "client"} {
		t.Run(library, func(t *testing.T) {
			t.Parallel()
			p := startPeer(t, "everything-stdio")
			file := filepath.Join(t.TempDir(), "mcp-servers.json")
			save(t, file, config(`"everything": `+strings.Replace(p.Config, `"trackResources":true`, `"trackResources":true,"trackTools":true`, 1)))
			f := newFront(t)
			f.open(t, startGateway(t, "--config", file))
			client := mcpservertest.Drive(t, nodeCommand(context.Background(), t, "driven.mjs", library, f.url))
			if result, failed := client.Do("tools/call", `{"name":"nothing"}`); failed == "" {
				t.Errorf("an unknown tool: %s", result)
			}
			if result, failed := client.Do("tools/call", `{"name":"get-sum","arguments":{"a":"x"}}`); failed == "" && !strings.Contains(string(result), `"isError":true`) {
				t.Errorf("a call that fails: %s", result)
			}
			client.Send("tools/call", `{"name":"trigger-long-running-operation","arguments":{"duration":60,"steps":60}}`)
			time.Sleep(2 * time.Second) // it runs
			for _, pid := range marked(t, p.Mark) {
				if n, err := strconv.Atoi(pid); err == nil {
					_ = syscall.Kill(n, syscall.SIGKILL)
				}
			}
			if result, failed := client.Answer(); failed == "" && !strings.Contains(string(result), `"isError":true`) {
				t.Errorf("a call whose server dies: %s", result)
			}
			time.Sleep(5 * time.Second) // longer than clients wait before they connect again, and the server to be back
			all, gets := f.Count()
			if len(gets) > 2 {
				t.Errorf("GET with %q; only that of the call that took time may be there", gets)
			}
			time.Sleep(5 * time.Second)
			if now, after := f.Count(); now != all {
				t.Errorf("%d requests of an idle client in 5 s; GET with %q", now-all, after[len(gets):])
			}
		})
	}
}
