package glob

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
	"pgregory.net/rapid"
)

func TestValid(t *testing.T) {
	t.Parallel()
	for glob, want := range map[string]bool{
		"": false, "docs": true, "team-*": true, "file:///**/*.{md,txt,html}": true, "{a,b{c,d}}/{e,f}": true, "a,b,c": true,
		strings.Repeat("{a,b}", 20): true, strings.Repeat("a", MaxLength): true,
		"{a": false, "}": false, "[a": false, "[]": false, `a\`: false, strings.Repeat("a", MaxLength+1): false,
	} {
		if got := Valid(glob); got != want {
			t.Errorf("%.60q: %v", glob, got)
		}
	}
}

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		glob      string
		yes, no   []string
		onlyAsURI []string // MatchURI matches them, and Match does not
	}{
		{glob: "", yes: []string{""}, no: []string{"a"}},
		{glob: "docs", yes: []string{"docs"}, no: []string{"doc", "docs2", ""}},
		{glob: "team-*", yes: []string{"team-", "team-a"}, no: []string{"team", "team-a/b"}},
		{glob: "file:///docs/**", yes: []string{"file:///docs", "file:///docs/", "file:///docs/a//b/"}, no: []string{"file:///docsx", "file:///doc"}},
		{glob: "a/**/b", yes: []string{"a/b", "a/x/b", "a//b", "a/x/y/b"}, no: []string{"a/xb", "ab", "a/b/c"}},
		{glob: "**/*.{md,txt}", yes: []string{"a.md", "x/y/a.txt", "/.md"}, no: []string{"a.mdx", "md"}},
		{glob: "{a/,b}**", yes: []string{"a/x/y", "a", "bx", "b"}, no: []string{"bx/y", "ax"}},
		{glob: "a*/**", yes: []string{"a", "ab", "a/b", "ab/c/d"}, no: []string{"b"}},
		{glob: "note:**", yes: []string{"note:a"}, no: []string{"not:a"}, onlyAsURI: []string{"note:a/b"}},
		{glob: "[!a-c]?", yes: []string{"dx", "/x"}, no: []string{"ax", "d/", "d"}},
		{glob: `\*\{`, yes: []string{"*{"}, no: []string{"a{"}, onlyAsURI: []string{`\*\{`}},
		{glob: "x:{id}", yes: []string{"x:id"}, no: []string{"x:"}, onlyAsURI: []string{"x:{id}"}},
		{glob: "ü*", yes: []string{"ü", "üx"}, no: []string{"ö"}},
	} {
		for want, texts := range map[bool][]string{true: c.yes, false: c.no} {
			for _, text := range texts {
				if Match(c.glob, text) != want || MatchURI(c.glob, text) != want {
					t.Errorf("%q matches %q: %t, as URI %t", c.glob, text, Match(c.glob, text), MatchURI(c.glob, text))
				}
			}
		}
		for _, text := range c.onlyAsURI {
			if Match(c.glob, text) || !MatchURI(c.glob, text) {
				t.Errorf("%q matches %q: %t, as URI %t", c.glob, text, Match(c.glob, text), MatchURI(c.glob, text))
			}
		}
	}
}

// The effort for any glob is at most proportional to its length times the length of the text.
func TestMatchIsLinear(t *testing.T) {
	t.Parallel()
	fill := func(part string) string { return strings.Repeat(part, MaxLength/len(part)) }
	nested := strings.Repeat("{a,", 250) + strings.Repeat("}", 250)
	for _, glob := range []string{
		fill("{a,b}") + "c", fill("{,a}") + "c", fill("{,a,aa}") + "c", fill("{*,**/}") + "c", fill("a*") + "b", fill("*a") + "b", fill("**/"), fill("**/a*") + "b", fill("[a-z]*"),
		fill("[!b]") + "*b", "*" + fill("a")[1:], fill("{a*,*a}"), fill("{**/a,[!b]*}/") + "b", nested, "{" + strings.Repeat("a,", 500) + "a}*b", fill("?*"), strings.Repeat("{", 250) + "a" + strings.Repeat(",*}", 250) + "b",
		fill("{a,a}") + "c",
	} {
		glob = glob[:min(len(glob), MaxLength)]
		for !Valid(glob) {
			glob = glob[:len(glob)-1]
		}
		for _, text := range []string{strings.Repeat("a", 512), strings.Repeat("a/", 256), strings.Repeat("aaaaaaa/", 64), strings.Repeat("ab", 256), strings.Repeat("ü", 256), "", "a"} {
			if _, visited := match(glob, text); visited > states*(len(glob)+1)*(len(text)+1) {
				t.Errorf("%.30q of %d bytes and %.10q of %d: %d states", glob, len(glob), text, len(text), visited)
			}
		}
	}
}

// reference is a slow Match. It expands the groups of a glob and matches each expansion with
// doublestar. doublestar misses the end of a text that a star matches together with what follows
// the star ("a*/**" does not match "a"), so reference also tries the glob without each star.
func reference(glob, text string) bool {
	if at, texts, rest, ok := firstGroup(glob); ok {
		for _, one := range texts {
			if reference(glob[:at]+one+rest, text) {
				return true
			}
		}
		return false
	}
	if ordinary := ordinaryStars(glob); ordinary != glob {
		return reference(ordinary, text)
	}
	if doublestar.MatchUnvalidated(glob, text) {
		return true
	}
	for i := 0; i < len(glob); i++ {
		end := i + 1
		switch glob[i] {
		case '\\':
			i++
			continue
		case '[':
			i = classEnd(glob, i)
			continue
		case '*':
		default:
			continue
		}
		if end < len(glob) && glob[end] == '*' {
			end++
		}
		segment := end-i == 2
		without := glob[:i] + glob[end:]
		switch {
		case segment && end < len(glob) && glob[end] == '/':
			without = glob[:i] + glob[end+1:]
		case segment && end == len(glob) && i > 1 && glob[i-2] != '/' && glob[i-2] != '\\' && reference(glob[:i-1], text):
			return true
		}
		// "a/**/*" needs its slash, and "a/**/" does not.
		if (end < len(glob) || !strings.HasSuffix(without, "/")) && reference(without, text) {
			return true
		}
		i = end - 1
	}
	return false
}

// ordinaryStars merges consecutive stars that are not a whole segment into one star. doublestar
// mostly treats them so, but its "a**/" matches "a".
func ordinaryStars(glob string) string {
	for i := 0; i < len(glob); i++ {
		switch glob[i] {
		case '\\':
			i++
		case '[':
			i = classEnd(glob, i)
		case '*':
			end := i + len(glob[i:]) - len(strings.TrimLeft(glob[i:], "*"))
			if segment := end-i == 2 && (i == 0 || glob[i-1] == '/') && (end == len(glob) || glob[end] == '/'); end-i > 1 && !segment {
				return ordinaryStars(glob[:i+1] + glob[end:])
			}
			i = end - 1
		}
	}
	return glob
}

// classEnd returns the position of the "]" of a class that begins at i.
func classEnd(glob string, i int) int {
	for i++; glob[i] != ']'; i++ {
		if glob[i] == '\\' {
			i++
		}
	}
	return i
}

// firstGroup splits a glob at its first group.
func firstGroup(glob string) (at int, texts []string, rest string, ok bool) {
	depth, from := 0, 0
	for i := 0; i < len(glob); i++ {
		switch c := glob[i]; {
		case c == '\\':
			i++
		case c == '[':
			i = classEnd(glob, i)
		case c == '{':
			if depth++; depth == 1 {
				at, from = i, i+1
			}
		case c == ',' && depth == 1:
			texts, from = append(texts, glob[from:i]), i+1
		case c == '}':
			if depth--; depth == 0 {
				return at, append(texts, glob[from:i]), glob[i+1:], true
			}
		}
	}
	return 0, nil, "", false
}

func agree(t interface{ Fatalf(string, ...any) }, glob, text string) {
	if !Valid(glob) {
		return
	}
	want := reference(glob, text)
	if !want && utf8.RuneCountInString(text) > 1 && strings.Contains(strings.ReplaceAll(glob, "[ab]", "a"), "[") {
		return // doublestar does not try all matches of a star before a class that matches a slash
	}
	if got := Match(glob, text); got != want {
		t.Fatalf("%q matches %q: %t, doublestar %t", glob, text, got, want)
	}
}

func TestMatchAgreesWithDoublestar(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		glob := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "/", "*", "**", "/**", "**/", "?", "{", ",", "}", "{a,b}", "{,/}", "[ab]", "[!a]", "[^-b]", `\*`, `\/`, "ü"}), 0, 8).Draw(t, "glob"), "")
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "/", "-", "*", "ü"}), 0, 6).Draw(t, "text"), "")
		agree(t, glob, text)
	})
}

func FuzzMatch(f *testing.F) {
	f.Add("a*{,b}/**", "ab")
	f.Add("{a/,b}**/[a-c-e]", "a/x/y/-")
	f.Add("[\xff]\xfe*", "\xfd\xfc")
	f.Fuzz(func(t *testing.T, glob, text string) {
		if strings.Count(glob, "*") < 6 && strings.Count(glob, ",") < 6 { // the reference is slow
			agree(t, glob, text)
		}
	})
}
