package glob

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// A Matcher agrees with Match, whatever it has matched before.
func TestMatcherAgreesWithMatch(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	text := func(alphabet []string, n int) string {
		var b strings.Builder
		for range random.IntN(n) {
			b.WriteString(alphabet[random.IntN(len(alphabet))])
		}
		return b.String()
	}
	matched := 0
	for range 3000 {
		g := text([]string{"a", "b", "é", "/", "*", "**", "**/", "?", "{a,b/}", "{,*}", "[a-b]", "[!a]", `\*`}, 9)
		if !Valid(g) {
			continue
		}
		m := NewMatcher(g)
		for range 30 {
			s := text([]string{"a", "b", "c", "é", "ü", "/", "*"}, 9)
			want := Match(g, s)
			if want {
				matched++
			}
			if got := m.Match(s); got != want {
				t.Fatalf("%q matches %q: %t, want %t", g, s, got, want)
			}
			if got := m.MatchURI(s); got != MatchURI(g, s) {
				t.Fatalf("%q matches the URI %q: %t", g, s, got)
			}
		}
	}
	if matched < 1000 {
		t.Errorf("only %d texts match", matched)
	}
}

// Matching a hostile glob against many texts takes about as many steps as they have characters, and its
// memory is bounded.
func TestMatcherIsLinear(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"{,?}", "{,a}", "{*,?}", "*a", "?*", "{a,?}"} {
		g := "**" + strings.Repeat(part, (MaxLength-2)/len(part))
		if !Valid(g) {
			t.Fatalf("%q is not valid", g)
		}
		m := NewMatcher(g)
		characters := 0
		for i := range 1200 {
			uri := fmt.Sprintf("file:///home/user/notes/%d/note-%d.md", i%10, i)
			m.MatchURI(uri)
			characters += len(uri)
		}
		// The first text may take a step for each state and each of its characters.
		if most := characters + 50*states*len(g); m.steps > most {
			t.Errorf("%.10q…: %d steps for %d characters, want at most %d", g, m.steps, characters, most)
		}
		for i := range 1000 {
			m.Match(strings.Repeat("a", i%60) + strings.Repeat("b", i%7) + "/" + strings.Repeat("ab", i%31))
		}
		if m.kept > maxKept+10*states*MaxLength {
			t.Errorf("%.10q…: %d states are kept", g, m.kept)
		}
	}
}
