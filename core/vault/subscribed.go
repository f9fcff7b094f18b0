package vault

import (
	"maps"
	"time"
)

const (
	// maxExtras bounds the URIs that are subscribed to in a form of the client's.
	maxExtras = 10_000
	// extraGrace is how long such a URI is kept before anybody subscribes to it.
	extraGrace = time.Minute
)

// affected are the URIs that somebody subscribed to and that show something else
// than before.
func (k *keeper) affected(old, next *snapshot, changes []change) map[string]struct{} {
	uris := make(map[string]struct{})
	if len(changes) == 0 {
		return uris
	}
	compare := func(uri string, t target) {
		if _, done := uris[uri]; !done && k.Subscribed(uri) && old.fingerprint(t) != next.fingerprint(t) {
			uris[uri] = struct{}{}
		}
	}
	for _, t := range []target{
		{kind: kindRecent, limit: defaultLimit}, {kind: kindStats}, {kind: kindTags}, {kind: kindTags, full: true}, {kind: kindStructure},
	} {
		compare(t.uri(), t)
	}
	folders := make(map[string]struct{})
	for _, c := range changes {
		if noteOf(c.old) != nil || noteOf(c.now) != nil {
			t := target{kind: kindNote, path: c.path}
			compare(t.uri(), t)
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
		t := target{kind: kindFolder, path: p}
		compare(t.uri(), t)
	}
	for uri, t := range k.wanted() {
		compare(uri, t)
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
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, known := v.extras[uri]; !known && len(v.extras) >= maxExtras {
		return false
	}
	v.extras[uri] = time.Now()
	return true
}

// wanted are the URIs of Subscribable that cannot be found from what changes. Those
// that nobody subscribed to are dropped after a while.
func (k *keeper) wanted() map[string]target {
	k.mu.Lock()
	extras := maps.Clone(k.extras)
	k.mu.Unlock()
	targets := make(map[string]target, len(extras))
	for uri, since := range extras {
		if t, err := parseURI(uri); err == nil && k.Subscribed(uri) {
			targets[uri] = t
		} else if time.Since(since) > extraGrace {
			k.mu.Lock()
			if k.extras[uri].Equal(since) { // else it was asked for again
				delete(k.extras, uri)
			}
			k.mu.Unlock()
		}
	}
	return targets
}
