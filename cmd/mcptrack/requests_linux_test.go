package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
)

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

// TestRequestsAreBounded: what clients send without an end, to anything that listens, takes
// little memory, and others are served meanwhile.
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
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
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

// TestFramesAreBounded: a WebSocket message without an end, of an endpoint or, through the
// proxy, of an application, takes little memory.
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
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
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
