package coalesce

import "time"

// maxChildren bounds the sub-resources that are tracked below one resource because
// the server announced them.
const maxChildren = 1000

// adopt makes the key a sub-resource of parent; nil: of none.
func (k *key) adopt(parent *key) {
	if k.parent != nil {
		delete(k.parent.children, k)
	}
	k.parent = parent
	if parent != nil {
		if parent.children == nil {
			parent.children = map[*key]struct{}{}
		}
		parent.children[k] = struct{}{}
	}
}

// makeRoom reports whether there is room for another sub-resource. If there is none it forgets
// the idle ones, at most once per window; when they are announced again, they are new.
func (k *key) makeRoom(now time.Time) bool {
	if len(k.children) >= maxChildren && now.Sub(k.swept) >= k.c.opts.Window {
		k.swept = now
		var idle []*key
		for child := range k.children {
			if !child.open && child.reason == none && !child.inFlight {
				idle = append(idle, child)
			}
		}
		k.c.forget(idle)
	}
	return len(k.children) < maxChildren
}
