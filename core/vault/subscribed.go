package vault

import (
	"bytes"
	"encoding/hex"
	"slices"
)

// affected returns the subscribed URIs whose content differs between two snapshots.
func (u *updater) affected(old, next *snapshot, changes []change) (uris []string) {
	if len(changes) == 0 && old.skills == next.skills {
		return nil
	}
	changed := make(map[string]struct{}) // the paths of the changes, and of the folders that contain them
	for _, c := range changes {
		for p := c.path; ; p = parentOf(p) {
			if _, done := changed[p]; done {
				break
			}
			changed[p] = struct{}{}
			if p == "" {
				break
			}
		}
	}
	pages := comparePages(old, next)
	known := make(map[target]bool) // whether targets with several URIs differ
	for _, uri := range u.Subscribed() {
		t, err := parseURI(uri)
		if err != nil {
			continue
		}
		switch t.kind {
		case kindRecent:
			if pages.differs(t) {
				uris = append(uris, uri)
			}
			continue
		case kindNote, kindFolder:
			if _, ok := changed[t.path]; !ok {
				continue
			}
		}
		differs, compared := known[t]
		if !compared {
			differs = old.fingerprint(t) != next.fingerprint(t)
			known[t] = differs
		}
		if differs {
			uris = append(uris, uri)
		}
	}
	return uris
}

// Subscribable reports whether clients may subscribe to a URI: it must refer to one of the fixed
// resources, or to an existing note, folder or file of a skill, in any spelling.
func (v *Vault) Subscribable(uri string) bool {
	t, err := parseURI(uri)
	return err == nil && v.now.Load().exists(t)
}

// pageChanges determines which pages of vault://recent have changed. The notes are compared only
// once, no matter how many pages have subscribers.
type pageChanges struct {
	all             bool  // the number of notes, which every page contains, has changed
	previews, texts []int // sorted positions of items that changed in mode=preview and mode=full
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

// digestOf returns the digest of a note. It is used in place of the text where only differences
// matter.
func digestOf(n *note) (string, bool) { return hex.EncodeToString(n.digest[:]), true }

// differs reports whether a page has changed.
func (c pageChanges) differs(t target) bool {
	places := c.previews
	if t.full {
		places = c.texts
	}
	first, _ := slices.BinarySearch(places, t.offset)
	return c.all || first < len(places) && places[first]-t.offset < t.limit
}
