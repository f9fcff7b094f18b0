package glob

import (
	"strings"
	"testing"
)

func TestValid(t *testing.T) {
	t.Parallel()
	for glob, want := range map[string]bool{
		"": true, "docs": true, "team-*": true, "file:///**/*.{md,txt,html}": true, "{a,b{c,d}}/{e,f}": true, "a,b,c": true,
		"{a": false, "[a": false, strings.Repeat("a", MaxLength+1): false,
		strings.Repeat("{a,b}", 10): true,
		strings.Repeat("{a,b}", 20): false, strings.Repeat("{,a}", 20): false, // 0.5 s for each event, and twice as long with each more group
		strings.Repeat("{a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a}", 8): false,
		"{a,{a,{a,{a,b}}}}":                       true,
		"[^{]" + strings.Repeat("{a,a}[a,]", 100): false,
	} {
		if got := Valid(glob); got != want {
			t.Errorf("%.60q: %v", glob, got)
		}
	}
}
