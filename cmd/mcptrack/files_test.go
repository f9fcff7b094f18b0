//go:build unix

package main

import (
	"fmt"
	"path/filepath"
	"slices"
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
	r.await(n, "the subscription", ofType("subscription.active"))
	updated := func(e eventLine) bool { return e.Type == "resource.updated" && e.ServerID == "files" }
	saves := 0
	waitFor(t, "an update", func() bool { // what is saved before the first read is not an update
		saves++
		save(t, file, fmt.Sprint("saved ", saves))
		return slices.ContainsFunc(r.seen(), updated)
	})
	n = len(r.seen())
	save(t, file, "saved once more")
	r.await(n, "another update", updated)
	r.signal(syscall.SIGTERM)
	r.ends(time.Minute, 0)
}
