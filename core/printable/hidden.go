package printable

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// hidden reports whether a rune has no visible shape: control characters, U+2800 (a Braille blank
// that fonts display as a space), and Unicode's Default_Ignorable_Code_Point. The latter is derived
// from Go's tables as specified in DerivedCoreProperties.txt: format characters, variation
// selectors and Other_Default_Ignorable_Code_Point (Hangul fillers, the combining grapheme joiner
// and others).
func hidden(r rune) bool {
	if r < 0x7f {
		return r < 0x20
	}
	return r == '\u2800' || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Cs,
		unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

const (
	nonJoiner = '\u200c'
	joiner    = '\u200d'
	asText    = '\ufe0e' // variation selector 15
	asEmoji   = '\ufe0f' // variation selector 16
	keycap    = '\u20e3'
)

// shapes reports whether the hidden rune at index at only affects the shape of its neighbours: a
// joiner between two emoji, a joiner or non-joiner between two letters of a joining script, a
// variation selector after an emoji, or a tag in one of the three flags that use tags. It returns
// false for every rune in a run of such runes, because a run can carry an invisible message.
func shapes(s string, at int) bool {
	r, size := utf8.DecodeRuneInString(s[at:])
	before, width := utf8.DecodeLastRuneInString(s[:at])
	after, _ := utf8.DecodeRuneInString(s[at+size:])
	switch {
	case r == joiner && emoji(after):
		for range 2 { // skip a skin tone and a variation selector
			if before == asEmoji || before >= 0x1f3fb && before <= 0x1f3ff {
				at -= width
				before, width = utf8.DecodeLastRuneInString(s[:at])
			}
		}
		return emoji(before)
	case r == joiner || r == nonJoiner:
		return joined(before) && joined(after)
	case r == asEmoji || r == asText:
		return emoji(before) || after == keycap && (before >= '0' && before <= '9' || before == '#' || before == '*')
	case r > 0xe0000 && r < 0xe0080:
		return ofFlag(s, at)
	}
	return false
}

// joined reports whether a rune belongs to a script in which joiners are meaningful.
func joined(r rune) bool {
	return !hidden(r) && (unicode.IsLetter(r) || unicode.IsMark(r)) && unicode.In(r, unicode.Arabic, unicode.Syriac, unicode.Nko, unicode.Mongolian,
		unicode.Devanagari, unicode.Bengali, unicode.Gurmukhi, unicode.Gujarati, unicode.Oriya, unicode.Tamil, unicode.Telugu, unicode.Kannada,
		unicode.Malayalam, unicode.Sinhala, unicode.Khmer, unicode.Myanmar)
}

// emoji reports whether a rune is in a block of pictographs, or is an older symbol that also has an
// emoji form.
func emoji(r rune) bool {
	switch r {
	case 0xa9, 0xae, 0x203c, 0x2049, 0x2122, 0x2139, 0x24c2, 0x2934, 0x2935, 0x3030, 0x303d, 0x3297, 0x3299:
		return true
	}
	return r >= 0x1f000 && r <= 0x1faff || r >= 0x2600 && r <= 0x27bf || r >= 0x2b00 && r <= 0x2bff ||
		r >= 0x2194 && r <= 0x21aa || r >= 0x231a && r <= 0x23ff || r >= 0x25aa && r <= 0x25fe
}

// ofFlag reports whether the tag at index at is part of the flag of England, Scotland or Wales, the
// only tag sequences that Unicode recommends for interchange.
func ofFlag(s string, at int) bool {
	const pole, longest = "\U0001f3f4", 4 * 6
	from := max(0, at-longest)
	from += max(0, strings.LastIndex(s[from:at], pole))
	for _, region := range []string{"gbeng", "gbsct", "gbwls"} {
		flag := pole + strings.Map(func(r rune) rune { return 0xe0000 + r }, region+"\x7f")
		if strings.HasPrefix(s[from:], flag) && at < from+len(flag) {
			return true
		}
	}
	return false
}

// Hidden reports whether the character of s at index at is hidden: a control character (line
// breaks and tabs too), or a character without a visible shape that does not only affect the shape
// of its neighbours.
func Hidden(s string, at int) bool {
	r, _ := utf8.DecodeRuneInString(s[at:])
	return hidden(r) && !shapes(s, at)
}
