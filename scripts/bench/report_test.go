//go:build linux

package main

import (
	"errors"
	"strings"
	"testing"
)

// TestFailuresAreOneLine: what could not be measured is a line of the table, however many
// errors there were.
func TestFailuresAreOneLine(t *testing.T) {
	r := newReport()
	r.Load = 0
	many := make([]error, 3000)
	for i := range many {
		many[i] = errors.New("failed to write msg: " + strings.Repeat("x", 500))
	}
	r.fail("speech", errors.Join(many...))
	r.fail("list", nil)
	var out strings.Builder
	if err := r.print(&out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	last := lines[len(lines)-1]
	if len(lines) > 5 || !strings.HasPrefix(last, "not measured: speech: failed to write msg: ") || !strings.HasSuffix(last, "(and 2999 more lines)") || len(last) > 400 {
		t.Errorf("%.2000s", out.String())
	}
}
