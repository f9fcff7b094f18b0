package tracker

import "github.com/mcptrack/mcptrack/core/catalog"

// former is what was told of resources that have gone from the list: one that comes
// back with other content has changed, also if its server tells only of the list.
type former map[string]catalog.Digest

// maxFormer bounds what is remembered; beyond it any one is forgotten.
const maxFormer = 10_000

func (f former) keep(uri string, d catalog.Digest) {
	if d.IsZero() {
		return
	}
	if len(f) >= maxFormer {
		for other := range f {
			delete(f, other)
			break
		}
	}
	f[uri] = d
}

// take returns what was kept, and forgets it.
func (f former) take(uri string) catalog.Digest {
	d := f[uri]
	delete(f, uri)
	return d
}
