package vault

import (
	"bytes"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

// deepList returns nested lists, by lines with increasing indentation.
func deepList(levels int, before, indent, item string) string {
	var b strings.Builder
	for d := range levels {
		b.WriteString(before + strings.Repeat(indent, d) + item + "\n")
	}
	return b.String()
}

// filled returns a beginning followed by as many units as fit into size.
func filled(size int, beginning, unit string) []byte {
	return []byte(beginning + strings.Repeat(unit, max(0, size-len(beginning))/len(unit)))
}

// slowTexts returns the texts that take the parser longest without limitMarkup: nested
// lists followed by many short lines, each of which visits all lists, and markers
// whose end is searched line by line.
func slowTexts(size int) map[string][]byte {
	var lists string
	for d := 1; len(lists) < size/2; d++ {
		lists += strings.Repeat("  ", d) + "- a\n"
	}
	return map[string][]byte{
		"lists, then empty lines": filled(size, lists, "\n"),
		"lists, then text":        filled(size, lists, "x\n"),
		"code spans over lines":   filled(size, "", "\n\\``"),
		"empty lines only":        filled(size, "", "\n"),
		"white space only":        filled(size, "", " \t"),
		"empty lists in quotes":   filled(size, "", "\n>-\n"),
		"lists by tabs":           filled(size, deepList(32, "", "  ", "- a"), "\n\n"+strings.Repeat("\t", 16)+"- a\n"),
	}
}

// deepTexts returns texts that open many lists and quotes in every way, followed by
// lines of every kind.
func deepTexts(size int) map[string][]byte {
	texts := slowTexts(size)
	for name, beginning := range map[string]string{
		"by spaces": deepList(100, "", "  ", "- a"), "by tabs": deepList(100, "", "\t", "- a"), "numbered": deepList(80, "", "   ", "1. a"),
		"in a quote": deepList(100, "> ", "  ", "- a"), "quotes in lists": deepList(80, "", "  ", "- > - a"),
		"in one line": strings.Repeat("- ", 500) + "a\n", "quotes and lists in one line": strings.Repeat("> - ", 300) + "a\n",
	} {
		for _, unit := range []string{
			"\n", "\r\n", " \t\n", "\n\n\nx", ">\n", ">\n > \n", ">\n>>\n", "  >\n", "x\n", "-\n",
			strings.Repeat("\t", 16) + "a\n", "\n" + strings.Repeat("\t", 15) + "- a\n", "\n\n\n\n" + strings.Repeat("  ", 32) + "a\n",
		} {
			texts[name+", then "+strings.TrimSpace(unit)+"…"] = filled(size, beginning, unit)
		}
	}
	return texts
}

// fastest returns the shortest of several parsing times, of the thread where the system
// says them, to exclude the load of the machine. It stops early at a time of at most enough.
func (m *markdown) fastest(src []byte, enough time.Duration) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	best := time.Hour
	for range 4 {
		began := threadTime()
		m.parse("n.md", src)
		if best = min(best, threadTime()-began); best <= enough {
			break
		}
	}
	return best
}

// TestParsingTimeIsLinear: no text takes the parser much longer than an ordinary one of
// its size. It is not parallel, as other tests would distort the measurement.
func TestParsingTimeIsLinear(t *testing.T) {
	if testing.Short() {
		t.Skip("large, nightly; TestLimitMarkup shows that the parser sees no such text")
	}
	const size, factor = 128 << 10, 30 // 10 with limitMarkup, some 80 without and more of longer texts
	m := newMarkdown()
	ordinary := m.fastest(filled(size, "", "word #tag [[link]]\n\n- item\n- other *item*\n\n"), 0)
	for name, src := range slowTexts(size) {
		if took := m.fastest(src, factor*ordinary); took > factor*ordinary {
			t.Errorf("%s: %v, an ordinary text %v", name, took, ordinary)
		}
	}
}

// TestLimitMarkup: the parser sees few levels and few consecutive empty lines.
func TestLimitMarkup(t *testing.T) {
	t.Parallel()
	m := newMarkdown()
	for name, src := range deepTexts(14 << 10) {
		limited, _ := limitMarkup(src)
		if bytes.Contains(limited, bytes.Repeat([]byte("\n"), maxEmpty+2)) {
			t.Errorf("%s: more than %d empty lines in a row", name, maxEmpty)
		}
		depth, most := 0, 0
		_ = ast.Walk(m.Parse(text.NewReader(limited)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
			switch {
			case n.Kind() != ast.KindList && n.Kind() != ast.KindBlockquote:
			case entering:
				depth++
				most = max(most, depth)
			default:
				depth--
			}
			return ast.WalkContinue, nil
		})
		if most > 2*maxNested { // by columns and by signs
			t.Errorf("%s: %d levels", name, most)
		}
	}
}

// TestLimitMarkupKeepsFacts: ordinary notes are parsed unchanged, and facts in others
// are still found.
func TestLimitMarkupKeepsFacts(t *testing.T) {
	t.Parallel()
	code := "# T\n\n```\na\n\n\n\n\n\nb\n```\n"
	ordinary := []string{
		"", "\n", "\n\n", "text\n\n\ntext", "- a\n  - b\n    - c\n\n      text\n", "> quote\n>\n>\n> more\n", strings.Repeat("\t", 12) + "code",
		"---\n\n***\n\n- - -\n", strings.Repeat("a line with [[a link]] and a #tag\n", 20),
	}
	for _, src := range ordinary {
		if limited, changed := limitMarkup([]byte(src)); changed || string(limited) != src {
			t.Errorf("%q became %q", src, limited)
		}
	}
	m := newMarkdown()
	for name, tt := range map[string]struct {
		src         string
		tags, links []string
	}{
		"empty lines":         {"#a\n\n\n\n\n\n[[b]]\n\n\n\n\n# T\n#c", []string{"a", "c"}, []string{"b"}},
		"empty lines of CRLF": {"#a\r\n\r\n\r\n\r\n\r\n[[b]]", []string{"a"}, []string{"b"}},
		"in code":             {code + "#a [[b]]\n\n```\n\n\n\n#no\n```", []string{"a"}, []string{"b"}},
		"in a quote":          {"> #a\n>\n>\n>\n>\n> [[b]]", []string{"a"}, []string{"b"}},
		"at the beginning":    {"\n\n\n\n\n#a [[b]]", []string{"a"}, []string{"b"}},
		"deep lists":          {deepList(100, "", "  ", "- x") + strings.Repeat("  ", 100) + "- #a [[b]]\n", []string{"a"}, []string{"b"}},
		"deep lists by tabs":  {deepList(40, "", "\t", "- x") + strings.Repeat("\t", 40) + "- #a [[b]]\n", []string{"a"}, []string{"b"}},
		"many lines":          {strings.Repeat("*x* `y`\n", 3000) + "#a [[b]]\n", []string{"a"}, []string{"b"}},
	} {
		f := m.parse("n.md", []byte(tt.src))
		if !slices.Equal(f.tags, tt.tags) || !slices.Equal(f.links, tt.links) {
			t.Errorf("%s: tags %q, links %q", name, f.tags, f.links)
		}
	}
	if c := vaultText(t, code); c != code {
		t.Errorf("what is read is %q", c)
	}
}

// vaultText returns the text that clients read of a note.
func vaultText(t *testing.T, src string) string {
	e := open(t, quick(vaultOf(t, map[string]string{"n.md": src})))
	n, err := e.ReadNote(t.Context(), "n.md")
	must(t, err)
	if c := e.read(noteURI("n.md")); c != n.Content {
		t.Errorf("read_note has %q, the resource %q", n.Content, c)
	}
	return n.Content
}
