package textindex

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"
)

// Words yields the words of a text in lower case. A word is a sequence of letters, digits and
// marks, possibly joined by underscores. In scripts without spaces, each character is a word,
// regardless of MinWord.
func (o Options) Words(text string) iter.Seq[string] {
	o = o.withDefaults()
	return func(yield func(string) bool) { o.words(text, yield) }
}

// words implements Words for options whose defaults have been applied.
func (o *Options) words(text string, yield func(string) bool) {
	var (
		start, end = -1, 0 // start and end of the word; start is -1 outside words
		low        = true  // the word so far consists of lower-case ASCII letters
		previous   kind
		width      int // length of the previous character in bytes
	)
	flush := func(to int) bool {
		if start < 0 {
			return true
		}
		word := text[start:min(to, end)]
		start = -1
		n := len(word)
		if !low {
			word = strings.ToLower(word)
			n = utf8.RuneCountInString(word)
		}
		return n < o.MinWord || n > o.MaxWord || yield(word)
	}
	for i, r := range text {
		k := kindOf(r)
		size := utf8.RuneLen(r)
		if r == utf8.RuneError {
			size = 1 // an invalid byte or U+FFFD; neither belongs to a word
		}
		switch {
		case k == single:
			if !flush(i) || !yield(text[i:i+size]) {
				return
			}
		case k == none || k == underscore && o.Identifiers || k == mark && start < 0:
			if !flush(i) {
				return
			}
		case k == underscore: // belongs to the word only if the word continues after it
		case start < 0:
			start, low = i, true
		case !o.Identifiers:
		case k == upper && (previous == lower || previous == digit):
			if !flush(i) {
				return
			}
			start, low = i, true
		case k == lower && previous == upper && start < i-width: // splits HTTPServer before the S
			if !flush(i - width) {
				return
			}
			start, low = i-width, false
		}
		if start >= 0 && k != underscore {
			end = i + size
			low = low && k != upper && r < utf8.RuneSelf
		}
		previous, width = k, size
	}
	flush(len(text))
}

// A kind is the role of a character in a word.
type kind uint8

const (
	none kind = iota
	lower
	upper
	letter // a letter without case
	digit
	mark // may continue a word, but not start one
	underscore
	single // a word on its own
)

func kindOf(r rune) kind {
	switch {
	case 'a' <= r && r <= 'z':
		return lower
	case 'A' <= r && r <= 'Z':
		return upper
	case '0' <= r && r <= '9':
		return digit
	case r == '_':
		return underscore
	case r < utf8.RuneSelf:
		return none
	case r >= 0x0e00 && unspaced(r):
		return single
	case unicode.IsLetter(r):
		switch {
		case unicode.ToLower(r) != r: // some capitals have no lower-case form
			return upper
		case unicode.IsLower(r):
			return lower
		}
		return letter
	case unicode.IsDigit(r):
		return digit
	case unicode.IsMark(r):
		return mark
	}
	return none
}

// unspaced reports whether a character belongs to a script that does not separate words with
// spaces. Splitting such text into words would require a dictionary.
func unspaced(r rune) bool {
	return (unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsNumber(r)) &&
		unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// counted is a distinct word of a document with its frequency.
type counted struct {
	text    string // substring of the document's text
	weight  uint64 // weighted frequency
	keyword uint64 // frequency in keyword fields
}

// count returns the distinct words of a document in order of first occurrence.
func (o *Options) count(fields []Field) []counted {
	size := 0
	for _, f := range fields {
		size += min(len(f.Text), o.MaxText)
	}
	likely := min(size/8, 200) // estimated number of distinct words
	words, place := make([]counted, 0, likely), make(map[string]int, likely)
	for _, f := range fields {
		weight := uint64(min(max(f.Weight, 1), maxCount))
		o.words(f.Text[:min(len(f.Text), o.MaxText)], func(word string) bool {
			n, known := place[word]
			if !known {
				if n = len(words); n >= o.MaxWords {
					return true // the limit does not apply to words already seen
				}
				place[word] = n
				words = append(words, counted{text: word})
			}
			words[n].weight += weight
			if f.Keywords {
				words[n].keyword++
			}
			return true
		})
	}
	return words
}

// copies returns copies of a word and its term, so that they do not keep the whole text in memory.
func copies(word, term string) (string, string) {
	if term == word {
		word = strings.Clone(word)
		return word, word
	}
	return strings.Clone(word), strings.Clone(term)
}

// English implements [Options.Term] for English. It returns an empty string for stop words and
// otherwise the stem, so that "notes" finds "note". Words that contain characters other than a to z
// are returned unchanged.
func English(word string) string {
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
