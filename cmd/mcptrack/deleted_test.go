//go:build linux

package main

import (
	"bufio"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// waitFor waits until a condition holds, for a minute.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// The data directory is deleted under serve-sse, and cannot be made again for some time: it says
// so, to probes and to status, too, and goes on with a new log once it can. A watch beside it prints
// the gap and goes on, also after serve-sse has ended.
func TestDataDirectoryIsDeleted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	above, file := filepath.Join(dir, "above"), filepath.Join(dir, "mcp-servers.json")
	data := filepath.Join(above, "events")
	save(t, file, config(`"demo": `+demoEntry(t, t.Name(), `, "trackResources": true`)))
	s := serveBeside(t, "--config", file, "--data-dir", data)
	seen := s.events(3, "")
	watch := mcptrackCommand(t.Context(), "watch", "--json", "--data-dir", data, "--config", file, "--since", seen[0], "--type", "*")
	out, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = watch.Process.Kill()
		_ = watch.Wait() // killed
	}()
	lines := bufio.NewScanner(out)
	until := func(what string, found func(line string) bool) (last string) {
		t.Helper()
		for lines.Scan() {
			if found(lines.Text()) {
				return lines.Text()
			}
		}
		t.Fatalf("watch has ended without %s", what)
		return ""
	}
	epoch, _, _ := strings.Cut(seen[0], "-")
	until("an event of the log", func(line string) bool { return strings.HasPrefix(line, `{"id":"`+epoch) })

	if err := os.RemoveAll(above); err != nil {
		t.Fatal(err)
	}
	save(t, above, "in the way")
	waitFor(t, "it is not ready", func() bool {
		text, code := ask(t, s.url+"/readyz", nil)
		return code == http.StatusServiceUnavailable && strings.Contains(text, "cannot be stored")
	})
	said, err := mcptrackCommand(t.Context(), "status", s.url).CombinedOutput()
	if err != nil || !strings.Contains(string(said), "events cannot be stored") {
		t.Errorf("status: %v\n%s", err, said)
	}
	if err := os.Remove(above); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "it is ready again", func() bool { _, code := ask(t, s.url+"/readyz", nil); return code == http.StatusOK })
	until("the gap", func(line string) bool {
		return strings.Contains(line, `"type":"gap"`) && strings.Contains(line, `"reason":"epoch"`)
	})
	now := until("an event of the new log", func(line string) bool { return !strings.Contains(line, `"type":"gap"`) })
	if strings.HasPrefix(now, `{"id":"`+epoch) {
		t.Errorf("an event of the old log after the gap: %s", now)
	}
	s.stop(syscall.SIGTERM)
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit %d", code)
	}
	epoch, _, _ = strings.Cut(strings.TrimPrefix(now, `{"id":"`), "-")
	until("an event of its own", func(line string) bool {
		return strings.Contains(line, `"serverId":"demo"`) && !strings.HasPrefix(line, `{"id":"`+epoch)
	})
}
