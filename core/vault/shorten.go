package vault

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

func unique(list []string, most int) []string {
	slices.Sort(list)
	list = slices.Compact(list)
	return slices.Clip(list[:min(len(list), most)])
}

// titleOf returns the first of the texts that has a printable character, shortened.
func titleOf(texts ...string) string {
	for _, t := range texts {
		if t = shorten(t, maxTitle); t != "" {
			return t
		}
	}
	return "Untitled"
}

// shorten returns the beginning of a text on one line: white space is collapsed and
// unprintable characters are removed.
func shorten(s string, runes int) string {
	var b strings.Builder
	space := false
	for _, r := range s {
		switch {
		case unicode.IsSpace(r):
			space = b.Len() > 0
			continue
		case r == utf8.RuneError || !unicode.IsPrint(r) && r != '\u200d': // the joiner of emoji
			continue
		}
		if space {
			if runes--; runes <= 0 {
				break
			}
			b.WriteByte(' ')
			space = false
		}
		if runes--; runes < 0 {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}
