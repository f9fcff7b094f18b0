package textindex

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWords(t *testing.T) {
	for text, want := range map[string][2]string{ // as identifiers, and as text
		"":                              {"", ""},
		"read_note":                     {"read note", "read_note"},
		"_emphasis_ __init__ a__b _":    {"emphasis init a b", "emphasis init a__b"},
		"readNoteHTML":                  {"read note html", "readnotehtml"},
		"HTTPServer getURLs x2Y v2Beta": {"http server get ur ls x2 y v2 beta", "httpserver geturls x2y v2beta"},
		"file:///docs/Guide.md?x=1":     {"file docs guide md x 1", "file docs guide md x 1"},
		"Größe naïve ключ ПриветМир":               {"größe naïve ключ привет мир", "größe naïve ключ приветмир"},
		"日本語 テスト x字y":                              {"日 本 語 テ ス ト x 字 y", "日 本 語 テ ス ト x 字 y"},
		"ภาษา ລາວ":                                 {"ภ า ษ า ລ າ ວ", "ภ า ษ า ລ າ ວ"},
		"한국어 텍스트":                                  {"한국어 텍스트", "한국어 텍스트"},
		"e\u0301te\u0301 \u0301 \xff\xfe\ufffd ok": {"e\u0301te\u0301 ok", "e\u0301te\u0301 ok"},
		"ABC ABc ABCd aB":                          {"abc a bc ab cd a b", "abc abc abcd ab"},
		"don't stop—me now…":                       {"don t stop me now", "don t stop me now"},
		"İstanbul":                                 {"istanbul", "istanbul"},
		"a\x00b\u200bc":                            {"a b c", "a b c"},
	} {
		for i, o := range []Options{{Identifiers: true}, {}} {
			if got := strings.Join(slices.Collect(o.Words(text)), " "); got != want[i] {
				t.Errorf("%q, identifiers %t: %q, want %q", text, o.Identifiers, got, want[i])
			}
		}
	}
	long := strings.Repeat("ü", 64)
	if got := slices.Collect(Options{}.Words(long + " " + long + "ü x")); !slices.Equal(got, []string{long, "x"}) {
		t.Errorf("%q", got)
	}
	if got := slices.Collect(Options{MinWord: 2, MaxWord: 3}.Words("a é 1 ab abc abcd 字")); !slices.Equal(got, []string{"ab", "abc", "字"}) {
		t.Errorf("%q", got)
	}
	for text, n := range map[string]int{"a b c": 2, "字字字": 2, "aBcD": 2} { // a caller may stop early
		for range (Options{Identifiers: true}).Words(text) {
			if n--; n == 0 {
				break
			}
		}
	}
}

func TestEnglish(t *testing.T) {
	for word, want := range map[string]string{
		"notes": "note", "running": "run", "the": "", "größen": "größen", "x2": "x2", "databases": "databas", "": "",
	} {
		if got := English(word); got != want {
			t.Errorf("%s: %q, want %q", word, got, want)
		}
	}
}

// The words of any text are in lower case, within the bounds and words themselves, and each
// finds the text.
func FuzzWords(f *testing.F) {
	f.Add("readFile HTTPServer read_file", true)
	f.Add("e\u0301 字A_ _x\xff İ ǅx ªº ⅷ", true)
	f.Add("A𝐀0 ǅx ß", true)
	f.Add("日本_語 ภาษา 𝐀bC \u0301a٣b", false)
	f.Fuzz(func(t *testing.T, text string, identifiers bool) {
		o := Options{Identifiers: identifiers, MaxWord: 20}
		x := New[int](o)
		x.Put(0, Field{Text: strings.Repeat("other ", 3)})
		x.Put(1, Field{Text: text})
		n := 0
		for word := range o.Words(text) {
			n++
			if strings.ToLower(word) != word || !utf8.ValidString(word) || strings.ContainsAny(word, " -./\x00") {
				t.Errorf("%q is no word", word)
			}
			if c := utf8.RuneCountInString(word); c < 1 || c > 20 {
				t.Errorf("%q has %d characters", word, c)
			}
			if again := slices.Collect(o.Words(word)); !slices.Equal(again, []string{word}) {
				t.Errorf("the words of %q are %q", word, again)
			}
			hits := x.Search(Query{Text: word})
			if !slices.ContainsFunc(hits, func(h Hit[int]) bool { return h.ID == 1 && h.Score > 0 }) {
				t.Errorf("%q does not find %q: %v", word, text, hits)
			}
		}
		hits := x.Search(Query{Text: text, All: true})
		if found := slices.ContainsFunc(hits, func(h Hit[int]) bool { return h.ID == 1 }); found != (n > 0) {
			t.Errorf("%q with %d words finds itself: %t", text, n, found)
		}
	})
}
