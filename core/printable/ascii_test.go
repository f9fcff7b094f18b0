package printable_test

import (
	"testing"

	"github.com/mcptrack/mcptrack/core/printable"
)

func TestVisibleASCII(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{"": true, "a~!": true, "a b": false, "\x7f": false, "é": false, "\xff": false, "a\n": false} {
		if printable.VisibleASCII(s) != want {
			t.Errorf("%q: %t", s, !want)
		}
	}
}
