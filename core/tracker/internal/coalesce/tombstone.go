package coalesce

import "github.com/mcptrack/mcptrack/core/catalog"

// tombstones are the digests of resources that left the server's list, by URI: one
// that comes back with other content has changed, also if its server announces only
// the change of the list.
type tombstones map[string]catalog.Digest

// maxTombstones bounds what is remembered; beyond it an arbitrary one is forgotten.
const maxTombstones = 10_000

func (t tombstones) put(uri string, d catalog.Digest) {
	if d.IsZero() {
		return
	}
	if len(t) >= maxTombstones {
		for other := range t {
			delete(t, other)
			break
		}
	}
	t[uri] = d
}

// take returns and forgets a digest, zero if there is none.
func (t tombstones) take(uri string) catalog.Digest {
	d := t[uri]
	delete(t, uri)
	return d
}
