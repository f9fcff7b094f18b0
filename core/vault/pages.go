package vault

import (
	"bytes"
	"encoding/hex"
	"slices"
)

// pageChanges say which pages of vault://recent show something else than before. The
// notes are gone through once, however many pages somebody is subscribed to.
type pageChanges struct {
	all             bool  // each page tells how many notes there are
	previews, texts []int // places with another note, or other facts of it, in order
}

func comparePages(old, next *snapshot) (c pageChanges) {
	if len(old.recent) != len(next.recent) {
		return pageChanges{all: true}
	}
	for i, was := range old.recent {
		is := next.recent[i]
		if was == is {
			continue
		}
		if !sameItem(was, is, false) {
			c.previews = append(c.previews, i)
		}
		if !sameItem(was, is, true) {
			c.texts = append(c.texts, i)
		}
	}
	return c
}

// sameItem reports whether recent shows two notes alike.
func sameItem(a, b *note, full bool) bool {
	return a.path == b.path && bytes.Equal(encode(recentItem(a, full, digestOf)), encode(recentItem(b, full, digestOf)))
}

// digestOf stands for the text of a note where only differences matter.
func digestOf(n *note) (string, bool) { return hex.EncodeToString(n.digest[:]), true }

// differs reports whether a page shows something else than before.
func (c pageChanges) differs(t target) bool {
	places := c.previews
	if t.full {
		places = c.texts
	}
	first, _ := slices.BinarySearch(places, t.offset)
	return c.all || first < len(places) && places[first]-t.offset < t.limit
}
