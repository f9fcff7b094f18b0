//go:build unix

package main

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A file that another program changes is noticed at the poll interval, and not only by the next safety read
// after five minutes, although the server accepts the subscription and never announces anything.
func TestFilesOfASilentServerArePolled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, cfg := filepath.Join(dir, "note.md"), filepath.Join(dir, "mcp-servers.json")
	save(t, file, "one")
	save(t, cfg, config(fmt.Sprintf(`"files": {"command": "files-server", "args": [%q], "protocol": "legacy", "trackResources": true, "pollInterval": "100ms"}`, file)))
	r := runBeside(t, "watch", "--json", cfg)
	_, n := r.await(0, "files is Ready", inState("files", "Ready"))
	_, n = r.await(n, "the subscription", ofType("subscription.active"))
	for i := range 2 {
		save(t, file, fmt.Sprint("saved ", i))
		_, n = r.await(n, "an update", func(e eventLine) bool { return e.Type == "resource.updated" && e.ServerID == "files" })
	}
	r.signal(syscall.SIGTERM)
	r.ends(time.Minute, 0)
}
