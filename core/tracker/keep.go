package tracker

import (
	"errors"
	"maps"
	"slices"

	"github.com/mcptrack/mcptrack/core/cache"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
)

// What the tracker finds out for itself keeps what clients hold up to date: its
// reads renew it, announcements make it stale, and what is gone is dropped.

// fetch begins to renew what is kept of a resource that is about to be read; nil if
// nothing is.
func (c *connection) fetch(uri string) *cache.Fetch {
	if !c.shelf.Holds(uri) {
		return nil
	}
	return c.shelf.Fetch(catalog.Resources, uri, uri)
}

// renew gives the answer of a read to what is kept, and tells it where the server
// had announced an update or the content differs.
func (f *follower) renew(keep *cache.Fetch, uri string, content *session.Content, err error, cause event.Cause) {
	if errors.Is(err, session.ErrNotFound) {
		f.conn.shelf.Gone(uri)
	}
	if keep == nil {
		return
	}
	if err != nil {
		keep.Cancel()
		return
	}
	f.conn.telling.Lock()
	defer f.conn.telling.Unlock()
	for _, r := range keep.Refresh(newResource(uri, content)) {
		if r.Was.Stale || r.Was.Digest != r.Now.Digest {
			f.w.t.tellContent(f.w.id, cause, &r.Was, r.Now)
		}
	}
}

// outdated notes which resources the server announced as updated.
func (f *follower) outdated(uris map[string]session.Signal) {
	for uri, sig := range uris {
		f.conn.shelf.Updated(uri)
		if sig.Parent != "" {
			f.conn.shelf.Updated(sig.Parent)
		}
	}
}

// reload reads what is kept of a resource again, for a server whose resources are
// not read otherwise. One is read at a time; until then they queue, each once.
func (f *follower) reload(uri string, cause event.Cause) {
	if !f.conn.shelf.Holds(uri) {
		return
	}
	if f.unread == nil {
		f.unread = map[string]event.Cause{}
	}
	f.unread[uri] = cause
	f.startReload()
}

// startReload reads the next resource, unless one is being read.
func (f *follower) startReload() {
	if f.rereading || len(f.unread) == 0 || f.s.Err() != nil {
		return
	}
	uri := slices.Min(slices.Collect(maps.Keys(f.unread)))
	cause := f.unread[uri]
	delete(f.unread, uri)
	f.rereading = true
	f.jobs.Go(func() {
		keep := f.conn.fetch(uri)
		content, err := f.s.Read(f.ctx, uri)
		f.renew(keep, uri, content, err, cause)
		f.reread <- struct{}{}
	})
}

// itemChanges tells how the changed items of a list differ, up to what an event has
// room for.
func itemChanges(from, to catalog.List, changed []string) []event.ItemChange {
	var out []event.ItemChange
	room := event.MaxDetails
	for _, key := range changed {
		if room == 0 {
			break
		}
		was, _ := from.Get(key)
		now, _ := to.Get(key)
		d := event.ItemChange{Key: key}
		d.Changes, d.More = catalog.Changes(was, now, min(room, maxItemChanges))
		room -= len(d.Changes)
		for _, c := range d.Changes {
			d.Fields = append(d.Fields, c.Field())
		}
		slices.Sort(d.Fields)
		d.Fields = slices.Compact(d.Fields)
		out = append(out, d)
	}
	return out
}

// maxItemChanges bounds what is told of one item.
const maxItemChanges = 20
