//go:build linux

package main

import (
	"errors"
	"slices"
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

// TestOnly: the report names what -only leaves out; an unknown or repeated name is an error.
func TestOnly(t *testing.T) {
	b := &bench{report: newReport()}
	wanted, err := b.selected("vault,list")
	if err != nil || len(wanted) != 2 || wanted[0].name != "list" || wanted[1].name != "vault" {
		t.Fatalf("%v, %v", wanted, err)
	}
	if got, all := len(b.report.LeftOut), len(b.scenarios()); got != all-2 || slices.Contains(b.report.LeftOut, "list") {
		t.Errorf("left out %q of %d", b.report.LeftOut, all)
	}
	var out strings.Builder
	if err := b.report.print(&out); err != nil || !strings.Contains(out.String(), "not measured: version, first, ") {
		t.Errorf("%v: %s", err, out.String())
	}
	for _, list := range []string{"lists", "list,list", "list,", ","} {
		if wanted, err := (&bench{report: newReport()}).selected(list); (err == nil) != (list == "list,") {
			t.Errorf("%q: %d scenarios, %v", list, len(wanted), err)
		}
	}
	all := &bench{report: newReport()}
	if wanted, err := all.selected(""); err != nil || len(wanted) != len(b.scenarios())-1 || !slices.Equal(all.report.LeftOut, []string{"drift"}) {
		t.Errorf("all: %d scenarios, left out %q, %v", len(wanted), all.report.LeftOut, err)
	}
	if wanted, err := (&bench{report: newReport()}).selected("drift"); err != nil || len(wanted) != 1 {
		t.Errorf("drift: %d scenarios, %v", len(wanted), err)
	}
}
