package process

import (
	"strings"
	"testing"
)

func TestVisible(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain":                    "plain",
		"\x1b[2J\u202ea\xff":       `\x1b[2J\u202ea\xff`,
		"a\u3164b\u034f\U000e0041": `a\u3164b\u034f\U000e0041`,
		strings.Repeat("a", 600):   strings.Repeat("a", 512) + "…",
	} {
		if got := visible([]byte(in), nil); got != want {
			t.Errorf("%q is shown as %q, want %q", in, got, want)
		}
	}
}
