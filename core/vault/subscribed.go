package vault

import "time"

// affected returns the subscribed URIs whose content differs between two snapshots.
func (u *updater) affected(old, next *snapshot, changes []change) map[string]struct{} {
	uris := make(map[string]struct{})
	if len(changes) == 0 {
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
	pages := comparePages(old, next)
	for _, t := range append(u.extras.pages(), firstPage()) {
		if pages.differs(t) {
			add(u.subscribedURIs(t))
		}
	}
	return uris
}

// subscribedURIs returns the URIs of a target that have subscribers.
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

// Subscribable reports whether a URI can be subscribed to: it must be one of the fixed
// resources, or a note or folder that exists, in any spelling. It is called at each
// subscription request, and remembers URIs that cannot be derived from a changed path.
func (v *Vault) Subscribable(uri string) bool {
	t, err := parseURI(uri)
	if err != nil || !v.now.Load().exists(t) {
		return false
	}
	if t.listed() && t.uri() == uri {
		return true // can be derived from a changed path
	}
	return v.extras.add(uri, t, time.Now())
}
