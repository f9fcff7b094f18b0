package vault

import (
	"bytes"
	"encoding/hex"
	"slices"
)

// pageChanges determines which pages of vault://recent changed. The notes are compared
// once, however many pages have subscribers.
type pageChanges struct {
	all             bool  // the number of notes changed, which every page contains
	previews, texts []int // sorted positions whose item differs in mode=preview and mode=full
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

// sameItem reports whether two notes have equal items in vault://recent.
func sameItem(a, b *note, full bool) bool {
	return a.path == b.path && bytes.Equal(encode(recentItem(a, full, digestOf)), encode(recentItem(b, full, digestOf)))
}

// digestOf returns the digest of a note, which stands for its text where only differences
// matter.
func digestOf(n *note) (string, bool) { return hex.EncodeToString(n.digest[:]), true }

// differs reports whether a page changed.
func (c pageChanges) differs(t target) bool {
	places := c.previews
	if t.full {
		places = c.texts
	}
	first, _ := slices.BinarySearch(places, t.offset)
	return c.all || first < len(places) && places[first]-t.offset < t.limit
}
