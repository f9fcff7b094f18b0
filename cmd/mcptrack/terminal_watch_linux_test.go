package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// On a terminal a server that fails over and over is one line for the first failure and
// one at the bottom that counts, without a log of the same; and there is one hint.
func TestWatchOnATerminal(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mcp-servers.json")
	save(t, file, config(`"crashy": {"command": "sh", "args": ["-c", "exit 3"], "trackResources": true}, "demo": `+demoEntry(t, t.Name(), `, "trackResources": true`)))
	window, end := openTerminal(t)
	if err := unix.IoctlSetWinsize(int(end.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 80}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := mcptrackCommand(ctx, "watch", "--config", file)
	cmd.Env = append(os.Environ(), "TERM=xterm", "TZ=Asia/Tokyo")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = end, end, end
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = end.Close()
	var seen strings.Builder
	buf := make([]byte, 4<<10)
	for counted := false; !counted; {
		n, err := window.Read(buf)
		seen.Write(buf[:n])
		if err != nil {
			t.Fatalf("%v after\n%s", err, &seen)
		}
		counted = strings.Contains(seen.String(), "crashy  backing off, attempt 2, next ") && strings.Contains(seen.String(), "hint: ")
	}
	drained := make(chan struct{}) // closed when nothing more comes
	go func() {
		defer close(drained)
		_, _ = io.Copy(io.Discard, window)
	}()
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Wait()
	_ = window.Close()
	<-drained
	got := seen.String()
	for text, want := range map[string]int{"level=": 0, "pending": 0, "connecting": 0, "hint: ": 1} {
		if n := strings.Count(got, text); n != want {
			t.Errorf("%q is there %d times, want %d:\n%s", text, n, want, got)
		}
	}
	local := func(at time.Time) bool { return strings.Contains(got, at.UTC().Add(9*time.Hour).Format("15:")) }
	if !local(began) && !local(time.Now()) {
		t.Errorf("no local times:\n%s", got)
	}
}
