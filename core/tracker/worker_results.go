package tracker

import (
	"slices"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/tracker/internal/coalesce"
)

// baseline returns the digest that an earlier tracker published for a resource.
func (w *worker) baseline(uri string) catalog.Digest {
	if w.opts.Baseline == nil {
		return catalog.Digest{}
	}
	return w.opts.Baseline(w.id, uri)
}

// updated publishes an event of the coalescer.
func (w *worker) updated(u coalesce.Update) {
	w.pub.updated(u)
	if !u.Read && !u.Removed && w.co.Digests() {
		w.pub.remembered(u.URI, catalog.Unread())
	}
	f := w.following
	switch {
	case f == nil:
	case !w.co.Digests() && !u.Removed:
		f.cached.reload(u.URI, u.Cause)
	case f.coverage.pushes(u.URI):
		w.pub.missedChanges(f.unannounced.found(u, time.Now()))
	}
}

// baselineList returns a list that an earlier tracker published.
func (w *worker) baselineList(k catalog.Kind) (catalog.List, bool) {
	if w.opts.BaselineList == nil {
		return nil, false
	}
	return w.opts.BaselineList(w.id, k)
}

// setList replaces a list as one step and publishes how it changed. The first list is the
// baseline, unless an earlier tracker published one; the delta is then empty.
func (w *worker) setList(k catalog.Kind, list catalog.List, cause event.Cause) catalog.Delta {
	old, had := w.lists[k]
	if !had {
		if published, ok := w.baselineList(k); ok {
			w.lists[k] = published
			w.setList(k, list, event.CauseResync)
			return catalog.Delta{}
		}
	}
	delta := catalog.Diff(old, list)
	w.lists[k] = list
	if !had || delta.Empty() {
		published, ok := w.baselineList(k)
		w.t.store.learnList(w.id, k, list, !had || !ok && w.opts.BaselineList != nil)
		if ok {
			w.compareList(k, published, list)
		}
		return catalog.Delta{}
	}
	if w.following != nil {
		w.following.conn.cache.Remove(k, delta.Removed)
	}
	resources := w.selected(k, delta, list)
	w.pub.listChanged(k, old, list, delta, cause, keys(resources))
	if k == catalog.Resources {
		w.descriptors(w.pub.commit, old, list, resources, cause)
	}
	return delta
}

// compareList records how a list that has not changed differs from what was published of it, by
// another process, which stored what this one saw, or before this one.
func (w *worker) compareList(k catalog.Kind, published, list catalog.List) {
	if w.opts.Record == nil {
		return
	}
	delta := catalog.Diff(published, list)
	resources := w.selected(k, delta, list)
	if !delta.Empty() {
		w.pub.listDiffers(k, list, delta, keys(resources))
	}
	if k == catalog.Resources && !(delta.Empty() && resources.Empty()) {
		w.descriptors(w.t.store.record, published, list, resources, event.CauseResync)
	}
}

// selected returns the selected resources that a list gained, lost, or describes otherwise, with
// those that are [journal.Owed]: nobody may have been told of them.
func (w *worker) selected(k catalog.Kind, delta catalog.Delta, list catalog.List) (out catalog.Delta) {
	if k != catalog.Resources || !w.srv.TrackResources {
		return out
	}
	owed, _ := w.baselineList(journal.Owed)
	pick := func(uris []string) (picked []string) {
		for _, uri := range uris {
			if _, again := owed.Get(uri); !again && w.srv.Selects(uri) {
				picked = append(picked, uri)
			}
		}
		return picked
	}
	out = catalog.Delta{Added: pick(delta.Added), Removed: pick(delta.Removed), Changed: pick(delta.Changed)}
	for _, it := range owed {
		if _, there := list.Get(it.Key); !w.srv.Selects(it.Key) {
			continue
		} else if there {
			out.Added = append(out.Added, it.Key)
		} else {
			out.Removed = append(out.Removed, it.Key)
		}
	}
	return out
}

// keys returns all keys of a delta.
func keys(d catalog.Delta) []string { return slices.Concat(d.Added, d.Removed, d.Changed) }

// descriptors passes an event for every selected resource that a list gained, lost, or describes
// otherwise, to publish.
func (w *worker) descriptors(publish func(event.Event), old, list catalog.List, delta catalog.Delta, cause event.Cause) {
	w.pub.descriptors(publish, delta.Added, list, cause, func(d event.Descriptor) event.Payload { return event.ResourceAdded{Descriptor: d} })
	var removed []string
	for _, uri := range delta.Removed {
		if known, _ := w.co.Lookup(uri); known.Reported { // already published, when a read did not find it
			w.pub.remembered(uri, catalog.Digest{})
		} else {
			removed = append(removed, uri)
		}
	}
	w.pub.descriptors(publish, removed, old, cause, func(d event.Descriptor) event.Payload { return event.ResourceRemoved{Descriptor: d} })
	w.pub.descriptors(publish, delta.Changed, list, cause, func(d event.Descriptor) event.Payload { return event.ResourceChanged{Descriptor: d} })
	w.pub.settled()
}
