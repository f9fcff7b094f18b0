package commands

import (
	"strings"
	"testing"
)

// TestCompletesFilesOnly: files are offered where a file is expected, and nowhere else.
func TestCompletesFilesOnly(t *testing.T) {
	b := newBench(t)
	for line, want := range map[string]string{
		"status": ":4", "tail": ":4", "serve-sse": ":4", "gateway": ":4", "replay": ":4", "top": ":4", "version": ":4",
		"gateway --allow": ":4", "vault --ignore": ":4", "tail --since": ":4", "serve-sse --nats": ":4",
		"gateway --token-file": ":0", "gateway --nats-credentials": ":0", "inject --api-key-file": ":0", "read --out": ":0",
		"serve-sse --data-dir": ":16", "vault": ":16", "gateway --events": ":4",
	} {
		_, out := b.run(t, append(append([]string{"__complete"}, strings.Fields(line)...), "")...)
		if lines := strings.Fields(out); len(lines) == 0 || lines[len(lines)-1] != want {
			t.Errorf("%s: %q, want %s", line, out, want)
		}
	}
}
