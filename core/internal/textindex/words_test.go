package textindex

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]string{ // as identifiers, and as text
		"":                              {"", ""},
		"read_note":                     {"read note", "read_note"},
		"_emphasis_ __init__ a__b _":    {"emphasis init a b", "emphasis init a__b"},
		"readNoteHTML":                  {"read note html", "readnotehtml"},
		"HTTPServer getURLs x2Y v2Beta": {"http server get ur ls x2 y v2 beta", "httpserver geturls x2y v2beta"},
		"file:///docs/Guide.md?x=1":     {"file docs guide md x 1", "file docs guide md x 1"},
		"Größe naïve ключ ПриветМир":        {"größe naïve ключ привет мир", "größe naïve ключ приветмир"},
		"日本語 テスト x字y":                       {"日 本 語 テ ス ト x 字 y", "日 本 語 テ ス ト x 字 y"},
		"ภาษา ລາວ":                          {"ภ า ษ า ລ າ ວ", "ภ า ษ า ລ າ ວ"},
		"한국어 텍스트 हिन्दी":                    {"한국어 텍스트 हिन्दी", "한국어 텍스트 हिन्दी"},
		"e\u0301te\u0301 \xff\xfe\ufffd ok": {"e\u0301te\u0301 ok", "e\u0301te\u0301 ok"},
		"ABC ABc ABCd aB":                   {"abc a bc ab cd a b", "abc abc abcd ab"},
		"don't stop—me now…":                {"don t stop me now", "don t stop me now"},
		"İstanbul":                          {"istanbul", "istanbul"},
		"a\x00b\u200bc":                     {"a b c", "a b c"},
		strings.Repeat("x", 101) + " y":     {"y", "y"},
	} {
		for i, identifiers := range []bool{true, false} {
			if got := strings.Join(slices.Collect(Words(text, identifiers)), " "); got != want[i] {
				t.Errorf("%q, identifiers %t: %q, want %q", text, identifiers, got, want[i])
			}
		}
	}
	for range Words("aBcD", true) { // a caller may stop early
		break
	}
}

func TestStem(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"notes": "note", "running": "run", "the": "", "a": "", "größen": "größen", "x2": "x2", "databases": "databas", "字": "字", "": "",
	} {
		if got := Stem(word); got != want {
			t.Errorf("%s: %q, want %q", word, got, want)
		}
	}
}

// The words of any text are valid and in lower case, and each is within the text's lower case.
func FuzzWords(f *testing.F) {
	f.Add("readFile HTTPServer read_file", true)
	f.Add("e\u0301 字A_ _x\xff İ ǅx ªº ⅷ", true)
	f.Add("日本_語 ภาษา 𝐀bC \u0301a٣b", false)
	f.Fuzz(func(t *testing.T, text string, identifiers bool) {
		for word := range Words(text, identifiers) {
			if word == "" || len(word) > 2*maxWord || strings.ToLower(word) != word || !utf8.ValidString(word) || strings.ContainsAny(word, " -./\x00") {
				t.Errorf("%q is not a word of %q", word, text)
			}
		}
	})
}
