package lock_test

import (
	"strings"
	"testing"
)

// What cannot be approved is named by lock with the reason, and no hint offers what cannot help.
func TestUnapprovable(t *testing.T) {
	const latin1, surrogate, number = "{\"name\":\"latin\",\"description\":\"caf\xe9\"}", `{"name":"half","description":"\ud800"}`, `{"name":"huge","inputSchema":{"maximum":1e400}}`
	for _, tool := range []string{latin1, surrogate, number} {
		b := newBench(t, draw, tool)
		for _, args := range [][]string{{"lock"}, {"lock", "--update"}, {"verify"}, {"review"}, {"approve", "notes"}} {
			out := b.run(7, args...)
			hints := b.Stderr.String()
			b.Stderr.Reset()
			if args[0] != "approve" && !strings.Contains(out, "cannot be approved: ") || !strings.Contains(hints, "report it to the author") || strings.Contains(hints, "approves") {
				t.Errorf("%s: %q:\n%s%s", tool, args, out, hints)
			}
		}
		// What helps with another change is still said.
		b.serve(strings.Replace(draw, "Draws", "Paints", 1), tool)
		if b.run(7, "verify"); !strings.Contains(b.Stderr.String(), "mcptrack lock --update approves them") {
			t.Error(b.Stderr.String())
		}
		b.Stderr.Reset()
		if b.run(7, "lock", "--update"); strings.Contains(b.Stderr.String(), "--update approves them") {
			t.Error(b.Stderr.String())
		}
	}
}
