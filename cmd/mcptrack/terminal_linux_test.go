package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A closed terminal ends every command, also one that has nothing to write and one
// that reloads its config by the same signal.
func TestTerminalCloses(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mcp-servers.json")
	save(t, file, config(fmt.Sprintf(`"hung": {"command": "sleep", "args": ["600"], "env": {%q: %q}, "trackResources": true}`, peerMark, t.Name())))
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"watch", "--type", "resource.updated"}, 0},
		{[]string{"watch"}, 0},
		{[]string{"list"}, exitInterrupted},
	} {
		window, end := openTerminal(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		cmd := mcptrackCommand(ctx, append(c.args, "--config", file)...)
		var stderr bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = end, end, &stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_ = end.Close()
		for len(marked(t, t.Name())) == 0 && ctx.Err() == nil {
			<-time.After(10 * time.Millisecond)
		}
		_ = window.Close()
		if err := cmd.Wait(); ctx.Err() != nil || cmd.ProcessState.ExitCode() != c.code {
			t.Errorf("%v: %v, want exit %d\n%s", c.args, err, c.code, &stderr)
		}
		cancel()
	}
}

// exitInterrupted is that of a command that did not come to its end.
const exitInterrupted = 130
