package vault

import "time"

// affected are the URIs that somebody subscribed to and that show something else
// than before.
func (k *keeper) affected(old, next *snapshot, changes []change) map[string]struct{} {
	uris := make(map[string]struct{})
	if len(changes) == 0 {
		return uris
	}
	k.extras.prune(time.Now())
	tell := func(wanted []string) {
		for _, uri := range wanted {
			uris[uri] = struct{}{}
		}
	}
	compare := func(t target) {
		if wanted := k.wanted(t); len(wanted) > 0 && old.fingerprint(t) != next.fingerprint(t) {
			tell(wanted)
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
	for _, t := range append(k.extras.pages(), firstPage()) {
		if pages.differs(t) {
			tell(k.wanted(t))
		}
	}
	return uris
}

// wanted are the URIs of a target that somebody subscribed to.
func (k *keeper) wanted(t target) (uris []string) {
	if t.listed() {
		if uri := t.uri(); k.Subscribed(uri) {
			uris = append(uris, uri)
		}
	}
	for _, uri := range k.extras.of(t) {
		if k.Subscribed(uri) {
			uris = append(uris, uri)
		}
	}
	return uris
}

// Subscribable reports whether a URI can be subscribed to: one of the resources, or
// a note or folder that is there now, in whatever form a client writes it. It is
// called when a client asks to.
func (v *Vault) Subscribable(uri string) bool {
	t, err := parseURI(uri)
	if err != nil || !v.now.Load().exists(t) {
		return false
	}
	if t.listed() && t.uri() == uri {
		return true // found again from what changes
	}
	return v.extras.add(uri, t, time.Now())
}
