package tracker

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/mcptrack/mcptrack/core/cache"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
)

// refresher keeps the session cache, which clients fill, up to date: the tracker's own reads
// renew cached resources, notifications make them stale, and resources that are gone are
// dropped.
type refresher struct {
	conn    *connection
	jobs    *jobs
	publish func(cause event.Cause, was, now cache.Resource)

	queue map[string]event.Cause // cached resources to read again
	busy  bool                   // a queued resource is being read
	// done receives a value when that read has ended and is never closed. Capacity 1.
	done chan struct{}
}

// begin returns a fetch of the cache for a resource that is about to be read, or nil if the
// resource is not cached.
func (c *connection) begin(uri string) *cache.Fetch {
	if !c.cache.Holds(uri) {
		return nil
	}
	return c.cache.Fetch(catalog.Resources, uri, uri)
}

// store caches the result of a read that begin was called for. It is published if the server
// had announced an update, or if the content differs.
func (r *refresher) store(f *cache.Fetch, uri string, content *session.Content, err error, cause event.Cause) {
	if errors.Is(err, session.ErrNotFound) {
		r.conn.cache.Gone(uri)
	}
	if f == nil {
		return
	}
	if err != nil {
		f.Cancel()
		return
	}
	r.conn.publishing.Lock()
	defer r.conn.publishing.Unlock()
	for _, e := range f.Refresh(newResource(uri, content)) {
		if e.Was.Stale || e.Was.Digest != e.Now.Digest {
			r.publish(cause, e.Was, e.Now)
		}
	}
}

// outdated marks the cached resources whose update was announced.
func (r *refresher) outdated(uris map[string]session.Signal) {
	for uri, sig := range uris {
		r.conn.cache.Updated(uri)
		if sig.Parent != "" {
			r.conn.cache.Updated(sig.Parent)
		}
	}
}

// reload queues a cached resource to be read again, for servers whose resources the tracker
// does not read. One is read at a time, and each is queued once.
func (r *refresher) reload(uri string, cause event.Cause) {
	if !r.conn.cache.Holds(uri) {
		return
	}
	if r.queue == nil {
		r.queue = map[string]event.Cause{}
	}
	r.queue[uri] = cause
	r.next()
}

// next reads the next queued resource, unless one is being read.
func (r *refresher) next() {
	if r.busy || len(r.queue) == 0 || r.conn.s.Err() != nil {
		return
	}
	uri := slices.Min(slices.Collect(maps.Keys(r.queue)))
	cause := r.queue[uri]
	delete(r.queue, uri)
	r.busy = true
	r.jobs.start(func(ctx context.Context) {
		f := r.conn.begin(uri)
		content, err := r.conn.s.Read(ctx, uri)
		r.store(f, uri, content, err, cause)
		r.done <- struct{}{}
	})
}

// ended handles the end of a read, and starts the next.
func (r *refresher) ended() {
	r.busy = false
	r.next()
}
