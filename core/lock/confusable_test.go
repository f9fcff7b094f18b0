package lock

import (
	"flag"
	"os"
	"strings"
	"testing"

	"go.mau.fi/util/confusable"
)

var update = flag.Bool("update", false, "write confusables.txt")

// The table is that of the library, and so are skeletons.
func TestConfusables(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	for r := range rune(0x40000) {
		like := confusable.GetReplacement(r)
		if like != "" {
			table.WriteString(string(r) + like + "\n")
		}
		if got := looksLike(r); got != like && !*update {
			t.Fatalf("%U looks like %q, want %q", r, got, like)
		}
	}
	if *update {
		must(t, os.WriteFile("confusables.txt", []byte(table.String()), 0o644))
		return // the program still has the old table
	}
	if confusables != table.String() {
		t.Error("the table has more than the library's")
	}
	for _, s := range []string{"", "plain", "раураl", "e\u0301\u200b\u00ad", "\xff\ufffd", "ｗｉｄｅ", "m\u2028rn", "한글"} {
		if got, want := skeleton(s), confusable.Skeleton(s); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
}
