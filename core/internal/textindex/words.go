package textindex

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Words yields the words of a text in lower case: sequences of letters, digits and
// marks, joined by underscores. In scripts without spaces every character is a word,
// whatever MinWord is.
func (o Options) Words(text string) iter.Seq[string] {
	o = o.withDefaults()
	return func(yield func(string) bool) { o.words(text, yield) }
}

// words implements Words for options with defaults.
func (o *Options) words(text string, yield func(string) bool) {
	var (
		start, end = -1, 0 // of the word; -1: none
		low        = true  // the word so far is in lower case, and ASCII
		previous   kind
		width      int // of the previous character, in bytes
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
			size = 1 // or it is U+FFFD; either is not part of a word
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
		case k == underscore: // it belongs to the word if more of the word follows
		case start < 0:
			start, low = i, true
		case !o.Identifiers:
		case k == upper && (previous == lower || previous == digit):
			if !flush(i) {
				return
			}
			start, low = i, true
		case k == lower && previous == upper && start < i-width: // HTTPServer: before the S
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
	letter // of a script or a form without case
	digit
	mark // continues a word, but does not begin one
	underscore
	single // a word by itself
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
		case unicode.ToLower(r) != r: // there are capitals that have no small letter
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

// unspaced reports whether a character belongs to a script without spaces between words,
// which only a dictionary could split.
func unspaced(r rune) bool {
	return (unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsNumber(r)) &&
		unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}
