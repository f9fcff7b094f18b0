package lock

import (
	"cmp"
	_ "embed"
	"slices"
	"strings"
	"sync"
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

// lookalikes returns the characters of the table, and what each of them looks like.
var lookalikes = sync.OnceValues(func() (all []rune, like []string) {
	for line := range strings.Lines(confusables) {
		r, n := utf8.DecodeRuneInString(line)
		all, like = append(all, r), append(like, strings.TrimSuffix(line[n:], "\n"))
	}
	return all, like
})

// looksLike returns what a character looks like, or "" if it only looks like itself.
func looksLike(r rune) string {
	all, like := lookalikes()
	if i, found := slices.BinarySearch(all, r); found {
		return like[i]
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
