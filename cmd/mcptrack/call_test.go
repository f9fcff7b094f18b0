//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/peertest"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// Calls over HTTP send marked arguments in headers, also on the first attempt. Tools with an invalid header
// annotation are not called, and list marks them.
func TestCallsRepeatArgumentsInHeaders(t *testing.T) {
	t.Parallel()
	server := sessiontest.New()
	server.SetList("tools",
		json.RawMessage(`{"name":"geo","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}`),
		json.RawMessage(`{"name":"bad","invalid":"mine","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"a b"}}}}`))
	var mu sync.Mutex
	var calls []string
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if strings.Contains(string(body), `"tools/call"`) {
			mu.Lock()
			calls = append(calls, strings.Join(r.Header.Values("Mcp-Param-Region"), ","))
			mu.Unlock()
		}
		server.ServeHTTP(w, r)
	}))
	t.Cleanup(upstream.Close)
	conf := filepath.Join(t.TempDir(), "mcp-servers.json")
	save(t, conf, config(`"docs": {"type": "http", "url": "`+upstream.URL+`"}`))
	runFor(t, 0, "--config", conf, "call", "docs", "geo", "--args-json", `{"region":"eu"}`)
	runFor(t, 0, "--config", conf, "call", "docs", "geo", "--arg", "region=us")
	runFor(t, 0, "--config", conf, "call", "docs", "geo")
	_, errs := runFor(t, 5, "--config", conf, "call", "docs", "bad", "--args-json", `{"a":"b"}`)
	if !strings.Contains(errs, `tool "bad" is invalid`) {
		t.Errorf("stderr: %s", errs)
	}
	mu.Lock()
	if got := strings.Join(calls, " "); got != "eu us " {
		t.Errorf("calls with %q", got)
	}
	mu.Unlock()
	if out, _ := runFor(t, 0, "--config", conf, "list", "tools"); !strings.Contains(out, "INVALID (") {
		t.Errorf("listed:\n%s", out)
	}
	out, _ := runFor(t, 0, "--config", conf, "list", "tools", "--json")
	var tools []struct{ Name, Invalid string }
	if err := json.Unmarshal([]byte(out), &tools); err != nil || len(tools) != 2 || !strings.Contains(tools[0].Invalid, "header") || tools[1].Invalid != "" {
		t.Errorf("%v, %s", err, out)
	}
}

// scripted writes a config with one server, "notes", that follows a script and logs its requests.
func scripted(t *testing.T, protocol string) (file, log string) {
	t.Helper()
	dir := t.TempDir()
	file, log = filepath.Join(dir, "mcp-servers.json"), filepath.Join(dir, "log")
	script := peertest.Script(t, "scripted.mjs", "--log="+log)
	entry := marshalPeer(t, peerEntry{Command: script[0], Args: script[1:], Protocol: protocol, ConnectTimeout: peerStarts})
	if err := os.WriteFile(file, []byte(`{"servers": {"notes": `+entry+`}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, log
}

// logged waits until the log contains text.
func logged(t *testing.T, log, text string) {
	t.Helper()
	deadline := time.NewTimer(peerReadyTimeout)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		data, err := os.ReadFile(log)
		if err == nil && strings.Contains(string(data), text) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("%q is not in the log: %q", text, data)
		}
	}
}

// Ctrl-C cancels a call: the server is notified before the connection closes, and the exit code is 130.
func TestRealInterruptedCall(t *testing.T) {
	t.Parallel()
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			file, log := scripted(t, era)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			cmd := mcptrackCommand(ctx, "--config", file, "call", "notes", "work", "--arg", "steps=1000", "--arg", "ms=100")
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			logged(t, log, "working")
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // the exit code is what counts
			if code := cmd.ProcessState.ExitCode(); code != 130 || !strings.Contains(stderr.String(), "interrupted") {
				t.Errorf("exit code %d: %s", code, &stderr)
			}
			logged(t, log, "cancelled: no longer wanted")
		})
	}
}

// The terminal shows the progress of a long call and is restored afterwards. Stdout has only the result.
func TestRealProgressOnTerminal(t *testing.T) {
	t.Parallel()
	file, _ := scripted(t, "auto")
	screen, terminal := openTerminal(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := mcptrackCommand(ctx, "--config", file, "call", "notes", "work", "--arg", "steps=8", "--arg", "ms=200")
	var stdout bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, terminal
	err := cmd.Run()
	terminal.Close()
	shown, _ := io.ReadAll(screen) // fails with EIO when the last writer is gone
	if err != nil || stdout.String() != "8 steps\n" {
		t.Fatalf("%v, stdout %q, terminal %q", err, &stdout, shown)
	}
	if !strings.Contains(string(shown), "waiting for notes") || !strings.Contains(string(shown), "of 8, step ") {
		t.Errorf("the terminal shows %q", shown)
	}
	if text := string(shown); strings.LastIndex(text, "\x1b[?25l") > strings.LastIndex(text, "\x1b[?25h") || !strings.HasSuffix(text, "\r\x1b[K") {
		t.Errorf("the terminal is left like this: %q", shown[max(0, len(shown)-80):])
	}
}
