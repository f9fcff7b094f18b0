package vault

import (
	"bytes"
	"encoding/hex"
	"slices"
	"sync"
	"time"
)

// affected returns the subscribed URIs whose content differs between two snapshots.
func (u *updater) affected(old, next *snapshot, changes []change) map[string]struct{} {
	uris := make(map[string]struct{})
	if len(changes) == 0 && old.skills == next.skills {
		return uris
	}
	u.extras.prune(time.Now())
	add := func(subscribed []string) {
		for _, uri := range subscribed {
			uris[uri] = struct{}{}
		}
	}
	compare := func(t target) {
		if subscribed := u.subscribedURIs(t); len(subscribed) > 0 && old.fingerprint(t) != next.fingerprint(t) {
			add(subscribed)
		}
	}
	for _, t := range []target{{kind: kindStats}, {kind: kindTags}, {kind: kindTags, full: true}, {kind: kindStructure}} {
		compare(t)
	}
	folders := make(map[string]struct{})
	for _, c := range changes {
		if noteOf(c.old) != nil || noteOf(c.now) != nil {
			compare(target{kind: kindNote, path: c.path})
		}
		for p := c.path; ; p = parentOf(p) {
			if _, done := folders[p]; done {
				break
			}
			folders[p] = struct{}{}
			if p == "" {
				break
			}
		}
	}
	for p := range folders {
		compare(target{kind: kindFolder, path: p})
	}
	for _, t := range changedSkills(old.skills, next.skills) {
		compare(t)
	}
	pages := comparePages(old, next)
	for _, t := range append(u.extras.pages(), firstPage()) {
		if pages.differs(t) {
			add(u.subscribedURIs(t))
		}
	}
	return uris
}

// subscribedURIs returns the URIs of a target to which clients are subscribed.
func (u *updater) subscribedURIs(t target) (uris []string) {
	if t.listed() {
		if uri := t.uri(); u.Subscribed(uri) {
			uris = append(uris, uri)
		}
	}
	for _, uri := range u.extras.of(t) {
		if u.Subscribed(uri) {
			uris = append(uris, uri)
		}
	}
	return uris
}

// Subscribable reports whether clients may subscribe to a URI: it must refer to one of the fixed
// resources, or to an existing note, folder or file of a skill, in any spelling. It is called for each subscription
// request, and stores URIs that cannot be derived from a changed path.
func (v *Vault) Subscribable(uri string) bool {
	t, err := parseURI(uri)
	if err != nil || !v.now.Load().exists(t) {
		return false
	}
	if t.listed() && t.uri() == uri {
		return true // the URI can be derived from a changed path
	}
	return v.extras.add(uri, t, time.Now())
}

const (
	// maxExtras is the maximum number of URIs in extras. It is ten times the subscription limit of
	// one client, so that one client cannot exhaust it.
	maxExtras = 100_000
	// extraGrace is how long a URI is kept after a client asked to subscribe to it, even without a
	// subscriber, because the URI is added just before the subscription takes effect.
	extraGrace = 10 * time.Second
	// pruneSpacing is the minimum interval between two searches for URIs without subscribers.
	pruneSpacing = time.Second
)

// extras holds the subscribed URIs that cannot be derived from a changed path: pages of
// vault://recent, and alternative spellings. It maps targets to the URIs that clients used.
type extras struct {
	mu sync.Mutex // not held during calls to subscribed, which acquires other locks

	subscribed func(uri string) bool // nil before Run is called
	asked      map[string]time.Time  // when a client last asked to subscribe, keyed by URI
	forms      map[target][]string   // the same URIs, keyed by the target that they refer to
	pruned     time.Time             // when prune last searched for URIs without subscribers
}

// listen sets the function that reports whether a client is subscribed to a URI. Before that, prune
// removes nothing.
func (x *extras) listen(subscribed func(uri string) bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.subscribed = subscribed
}

// add stores a URI that refers to a target, because a client has asked to subscribe to it. It
// returns false if maxExtras has been reached.
func (x *extras) add(uri string, t target, now time.Time) bool {
	x.prune(now)
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, known := x.asked[uri]; !known {
		if len(x.asked) >= maxExtras {
			return false
		}
		if x.asked == nil {
			x.asked, x.forms = make(map[string]time.Time), make(map[target][]string)
		}
		x.forms[t] = append(x.forms[t], uri)
	}
	x.asked[uri] = now
	return true
}

// of returns the stored URIs that refer to a target.
func (x *extras) of(t target) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.forms[t])
}

// pages returns the pages of vault://recent for which URIs are stored.
func (x *extras) pages() (pages []target) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for t := range x.forms {
		if t.kind == kindRecent {
			pages = append(pages, t)
		}
	}
	return pages
}

// prune removes URIs without subscribers, at most once per pruneSpacing.
func (x *extras) prune(now time.Time) {
	x.mu.Lock()
	subscribed := x.subscribed
	if subscribed == nil || now.Sub(x.pruned) < pruneSpacing {
		x.mu.Unlock()
		return
	}
	x.pruned = now
	var left []string
	for uri, at := range x.asked {
		if now.Sub(at) > extraGrace {
			left = append(left, uri)
		}
	}
	x.mu.Unlock()

	left = slices.DeleteFunc(left, subscribed)
	if len(left) == 0 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, uri := range left {
		if now.Sub(x.asked[uri]) > extraGrace { // it may have been added again in the meantime
			delete(x.asked, uri)
		}
	}
	for t, uris := range x.forms {
		uris = slices.DeleteFunc(uris, func(uri string) bool { _, ok := x.asked[uri]; return !ok })
		if x.forms[t] = uris; len(uris) == 0 {
			delete(x.forms, t)
		}
	}
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
