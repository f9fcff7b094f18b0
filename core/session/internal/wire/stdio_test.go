package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// closedInput is the stdin of a server that has closed it.
type closedInput struct{}

func (closedInput) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
func (closedInput) Close() error              { return nil }

// A server that closes its stdin but not its stdout gets no more requests; pending requests must
// not wait.
func TestClosedInputEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := 0
		cfg := testConfig()
		cfg.WriteTimeout = func() time.Duration { return 10 * time.Second }
		cfg.Handler.Lost = func(error) { lost++ }
		r, w := io.Pipe()
		defer w.Close()
		c := OverIO(r, closedInput{}, cfg)
		defer c.Close(ErrClosed)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := c.Do(ctx, Request{ID: 1, Method: "tools/list"})
		if end, ok := errors.AsType[*EndError](err); !ok || ctx.Err() != nil || lost != 1 {
			t.Errorf("%v, lost %d times: %v", err, lost, end)
		}
	})
}

// A response belongs to a request however its id is written, and what precedes it is handled before.
func TestResponsesAreMatched(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"1", `"1"`, "1.0"} {
		var got []string
		cfg := testConfig()
		cfg.WriteTimeout = func() time.Duration { return time.Minute }
		cfg.Handler.Notification = func(n *Notification) { got = append(got, n.Method) }
		fromServer, out := io.Pipe()
		in, toServer := io.Pipe()
		go func() {
			if _, err := bufio.NewReader(in).ReadString('\n'); err == nil {
				fmt.Fprintf(out, `{"jsonrpc":"2.0","\u006dethod":"notifications/a"}`+"\n"+`{"jsonrpc":"2.0","id":9,"result":{}}`+"\n"+`{"jsonrpc":"2.0","id":%s,"result":{"ok":true}}`+"\n", id)
			}
		}()
		c := OverIO(fromServer, toServer, cfg)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		raw, err := c.Do(ctx, Request{ID: 1, Method: "tools/list"})
		if err != nil || string(raw) != `{"ok":true}` || !slices.Equal(got, []string{"notifications/a"}) {
			t.Errorf("%s: %s, %v after %q", id, raw, err, got)
		}
		cancel()
		c.Close(ErrClosed)
	}
}

func TestStderrCause(t *testing.T) {
	t.Parallel()
	node := []string{"node:internal/modules/cjs/loader:1228", "  throw err;", "  ^", "",
		"Error: Cannot find module '/srv/index.js'", "    at Module._resolveFilename (node:internal:1225:15)",
		"    at Module._load (node:internal:1051:27)", "    at node:internal/main/run_main_module:28:49 {", "  requireStack: []", "}", "", "Node.js v20.20.2"}
	python := []string{"Traceback (most recent call last):", `  File "server.py", line 3, in <module>`, "    import fastmcp", "ModuleNotFoundError: No module named 'fastmcp'"}
	goroutine := append([]string{"starting", "panic: no token", "", "goroutine 1 [running]:"}, strings.Split(strings.Repeat("main.main() ", 40), " ")...)
	npm := []string{"npm error code E404", "npm error 404 Not Found - GET https://registry.example/nope", "npm error A complete log of this run can be found in: /home/ann/.npm/_logs/x.log"}
	crash := append([]string{"runtime: failed to create new OS thread (have 5 already; errno=11)", "fatal error: newosproc", "", "goroutine 1 [running]:"},
		strings.Split(strings.Repeat("main.main() ", 80)+"gs-0x0", " ")...)
	old := append([]string{"error: a client was slow"}, strings.Split(strings.Repeat("served;", 60)+"bye", ";")...)
	for name, tt := range map[string]struct {
		lines []string
		want  string
	}{
		"Node":           {node, "Error: Cannot find module '/srv/index.js' | Node.js v20.20.2"},
		"Python":         {python, "ModuleNotFoundError: No module named 'fastmcp'"},
		"Go":             {append(goroutine, "exit status 2"), "panic: no token | exit status 2"},
		"Go's runtime":   {crash, "fatal error: newosproc | gs-0x0"},
		"npm":            {npm, "npm error code E404 | " + npm[2]},
		"long ago":       {old, "served | served | bye"},
		"nothing known":  {[]string{"a", "b", "c", "d"}, "b | c | d"},
		"one line":       {[]string{"usage: server FILE"}, "usage: server FILE"},
		"non-fatal":      {[]string{"a non-fatal problem", "bye"}, "a non-fatal problem | bye"},
		"ERR_ in Node":   {[]string{"Error [ERR_REQUIRE_ESM]: no", "  at x", "Node.js v20"}, "Error [ERR_REQUIRE_ESM]: no | Node.js v20"},
		"Rust":           {[]string{"thread 'main' panicked at src/main.rs:2:5:", "boom", "note: run with RUST_BACKTRACE=1"}, "thread 'main' panicked at src/main.rs:2:5: | note: run with RUST_BACKTRACE=1"},
		"nothing at all": {nil, ""},
	} {
		if got := stderrCause(tt.lines); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
