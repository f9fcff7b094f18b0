//go:build linux

package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// watch --since prints what is stored. While a serve-sse stores more, watch shows that and starts
// no server of its own; afterwards it follows the servers itself.
func TestWatchSince(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data, file := filepath.Join(dir, "data"), filepath.Join(dir, "mcp-servers.json")
	save(t, file, config(`"demo": `+demoEntry(t, t.Name(), `, "trackResources": true`)))
	s := serveBeside(t, "--config", file, "--data-dir", data)
	seen := s.events(4, "")
	watch := func(args ...string) (ids []string) {
		t.Helper()
		cmd := mcptrackCommand(t.Context(), append([]string{"watch", "--json", "--data-dir", data, "--config", file, "--timeout", "1m"}, args...)...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("watch %q: %v\n%s", args, err, out)
		}
		for line := range strings.Lines(string(out)) {
			id, _, _ := strings.Cut(strings.TrimPrefix(line, `{"id":"`), `"`)
			ids = append(ids, id)
		}
		return ids
	}
	follows := watch("--since", seen[0], "--count", "6", "--type", "*")
	wantNext(t, append([]string{seen[0]}, follows...)...)
	if stored := watch("--since", seen[0], "--no-follow"); len(stored) < 6 || stored[0] != follows[0] {
		t.Errorf("--no-follow prints %q, and following printed %q", stored, follows)
	}
	s.stop(syscall.SIGTERM)
	epoch, _, _ := strings.Cut(seen[0], "-")
	stored := watch("--since", seen[0], "--no-follow")
	after := watch("--since", seen[0], "--type", "*", "--count", fmt.Sprint(len(stored)+5))
	if len(after) <= len(stored) || strings.HasPrefix(after[len(after)-1], epoch) || !strings.HasPrefix(after[0], epoch) {
		t.Errorf("%d events are stored, and watch without a serve-sse printed %d, from %s to %s", len(stored), len(after), after[0], after[len(after)-1])
	}
}
