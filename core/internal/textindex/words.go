package textindex

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"
)

// maxWord is the maximum length of a word in bytes. Longer words are mostly hashes, which nobody
// searches for.
const maxWord = 100

// Words yields the words of a text in lower case: sequences of letters, digits and marks, possibly
// joined by underscores. In scripts without spaces each character is a word, because finding words
// would require a dictionary. With identifiers, each word of readFile, HTTPServer and read_file is
// yielded.
func Words(text string, identifiers bool) iter.Seq[string] {
	return func(yield func(string) bool) {
		between := func(r rune) bool { return !inWord(r) && (identifiers || r != '_') }
		for run := range strings.FieldsFuncSeq(text, between) {
			for run != "" {
				n := firstWord(run, identifiers)
				word := strings.Trim(run[:n], "_")
				run = run[n:]
				if word != "" && len(word) <= maxWord && !yield(strings.ToLower(word)) {
					return
				}
			}
		}
	}
}

func inWord(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	}
	return unicode.In(r, unicode.L, unicode.N, unicode.M)
}

// firstWord returns the length of the first word of a sequence of letters, digits, marks and
// underscores.
func firstWord(run string, identifiers bool) int {
	before, last := 0, rune(0) // the previous character and where it begins
	for i, r := range run {
		switch {
		case r >= 0x0e00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar):
			if i == 0 {
				return utf8.RuneLen(r)
			}
			return i
		case !identifiers || i == 0:
		case unicode.IsUpper(r) && !unicode.IsUpper(last):
			return i
		case unicode.IsLower(r) && unicode.IsUpper(last) && before > 0: // HTTPServer is split before the S
			return before
		}
		before, last = i, r
	}
	return len(run)
}

// Stem returns an empty string for English stop words and single letters, and otherwise the English stem, so
// that "notes" finds "note". Words that contain characters other than a to z are returned unchanged.
func Stem(word string) string {
	if len(word) < 2 || stopWord(word) {
		return ""
	}
	for i := range len(word) {
		if word[i] < 'a' || word[i] > 'z' {
			return word
		}
	}
	env := snowballstem.NewEnv(word)
	english.Stem(env)
	return env.Current()
}

func stopWord(word string) bool {
	switch word {
	case "an", "and", "any", "are", "as", "at", "be", "been", "but", "by", "can", "do", "does", "each", "for", "from",
		"has", "have", "how", "if", "in", "into", "is", "it", "its", "may", "more", "must", "no", "not", "of", "on", "one",
		"only", "or", "other", "out", "same", "should", "so", "some", "such", "than", "that", "the", "their", "them", "then",
		"there", "these", "they", "this", "those", "to", "up", "use", "used", "using", "was", "we", "were", "what", "when",
		"where", "which", "who", "will", "with", "would", "you", "your":
		return true
	}
	return false
}
