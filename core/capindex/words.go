package capindex

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"
)

// Bounds of a word: longer ones are hashes and the like, which nobody looks for.
const (
	minWord = 2
	maxWord = 40
)

// words yields the words of a text in lower case: runs of letters and digits, with
// identifiers taken apart (readFile, HTTPServer, read_file), and every character of
// a script without spaces by itself.
func words(s string, yield func(word string)) {
	start, previous := -1, rune(0)
	flush := func(end int) {
		if start >= 0 {
			if w := s[start:end]; len(w) >= minWord && utf8.RuneCountInString(w) <= maxWord {
				yield(strings.ToLower(w))
			}
		}
		start = -1
	}
	for i, r := range s {
		switch {
		case r >= 0x2e80 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana):
			flush(i)
			yield(string(r))
		case !unicode.IsLetter(r) && !unicode.IsDigit(r) && (start < 0 || !unicode.IsMark(r)):
			flush(i)
		case start < 0:
			start = i
		case unicode.IsUpper(r) && (unicode.IsLower(previous) || unicode.IsDigit(previous)):
			flush(i)
			start = i
		case unicode.IsLower(r) && unicode.IsUpper(previous) && start < i-utf8.RuneLen(previous):
			flush(i - utf8.RuneLen(previous)) // HTTPServer: before the S
			start = i - utf8.RuneLen(previous)
		}
		previous = r
	}
	flush(len(s))
}

// term is what a word is indexed as: its stem, or "" if it says nothing. Only
// words of plain letters are stemmed; the stemmer is for English.
func term(word string) string {
	if stopWord(word) {
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

// stopWord reports whether a word is in every second sentence of English.
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
