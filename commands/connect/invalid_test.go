package connect_test

import (
	"strings"
	"testing"
)

// An entry with an error is left alone, with the error; the others are connected.
func TestInvalidEntries(t *testing.T) {
	m := newMachine(t)
	path := m.file(".cursor/mcp.json")
	before := `{"mcpServers": {"twice": {"command": "sh"}, "twice": {"command": "ls"}, "args": {"command": "sh", "args": 5}, "good": {"command": "sh"}}}`
	m.put(t, path, before)
	out := m.run(t, 0, "connect --yes")
	after := text(t, path)
	if !strings.Contains(out, `(invalid: Server "args" has invalid "args"`) || strings.Count(after, "attach") != 1 ||
		!strings.HasPrefix(after, before[:strings.Index(before, `"good"`)]) {
		t.Errorf("%s\n%s", out, after)
	}
	m.run(t, 0, "connect --undo")
	if text(t, path) != before {
		t.Error(text(t, path))
	}
}
