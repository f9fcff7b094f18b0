package lock

import (
	"cmp"
	_ "embed"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// confusables has a sorted line for each character that looks like others by the tables of UTS #39: the
// character, and what it looks like. It is what go.mau.fi/util/confusable has as a function of 210 KB.
// go test ./core/lock -run TestConfusables -update writes it.
//
//go:embed confusables.txt
var confusables string

// looksLike returns what a character looks like, or "" if it only looks like itself.
func looksLike(r rune) string {
	lines := confusables
	for size := 64; size < len(lines); size *= 8 { // ASCII, of which most names are, is at the beginning
		end := strings.LastIndexByte(lines[:size], '\n') + 1
		if after, _ := utf8.DecodeRuneInString(lines[end:]); after > r {
			lines = lines[:end]
		}
	}
	for lines != "" {
		middle := strings.LastIndexByte(lines[:len(lines)/2], '\n') + 1
		found, n := utf8.DecodeRuneInString(lines[middle:])
		if found > r {
			lines = lines[:middle]
			continue
		}
		like, after, _ := strings.Cut(lines[middle+n:], "\n")
		if found == r {
			return like
		}
		lines = after
	}
	return ""
}

// skeleton returns the skeleton of a text by UTS #39: texts with the same skeleton look alike.
func skeleton(text string) string {
	var b strings.Builder
	for _, r := range norm.NFD.String(text) {
		if unicode.IsGraphic(r) || r == unicode.ReplacementChar {
			b.WriteString(cmp.Or(looksLike(r), string(r)))
		}
	}
	return norm.NFD.String(b.String())
}
