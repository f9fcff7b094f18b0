package tracker

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/cache"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/tracker/internal/coalesce"
)

// readResult holds the outcome of a read.
type readResult struct {
	read    coalesce.Read
	content coalesce.Content
	outcome coalesce.Outcome
	err     error
}

// startReads starts jobs for the reads that the coalescer has queued, up to the limit of concurrent
// reads.
func (f *sessionFollower) startReads() {
	if f.s.Err() != nil {
		return
	}
	for {
		q, ok := f.w.co.NextRead(cap(f.reads))
		if !ok {
			return
		}
		f.jobs.start(func(ctx context.Context) { f.reads <- f.read(ctx, q) })
	}
}

// confirmMissing is the delay after which a resource that is not found is read again, because a program
// that replaces a file may remove it first.
const confirmMissing = 100 * time.Millisecond

// read reads one resource. It runs in a job, so it uses only immutable state.
func (f *sessionFollower) read(ctx context.Context, q coalesce.Read) readResult {
	c, err := f.conn.readAndRefresh(ctx, q.URI, q.Cause)
	if errors.Is(err, session.ErrNotFound) && !q.First && backoff.Sleep(ctx, confirmMissing) {
		c, err = f.conn.readAndRefresh(ctx, q.URI, q.Cause)
		if errors.Is(err, session.ErrNotFound) && f.s.Ping(ctx) != nil {
			return readResult{read: q, outcome: coalesce.Failed, err: err} // the server rejects everything
		}
	}
	switch {
	case errors.Is(err, session.ErrNotFound):
		return readResult{read: q, outcome: coalesce.Missing, err: err}
	case err != nil:
		return readResult{read: q, outcome: coalesce.Failed, err: err}
	}
	got := coalesce.Content{Digest: c.Digest, Size: c.Size, MimeType: c.MimeType}
	if text, ok := c.Text(); ok && f.w.opts.Texts {
		got.Text = &text
	}
	return readResult{read: q, content: got}
}

func (f *sessionFollower) answered(r readResult) {
	if r.outcome != coalesce.Failed {
		f.conn.requests.alive()
	} else {
		f.w.log.Debug("read failed", "uri", r.read.URI, "err", errorLine(r.err))
		if _, ok := errors.AsType[*session.TooLargeError](r.err); ok {
			f.w.warnOnce("too large", "a resource is too large to be compared; further warnings of this kind for this server are suppressed", r.err, "uri", r.read.URI)
		}
		if _, ok := errors.AsType[*net.OpError](r.err); ok { // the whole connection failed, not only this read
			f.liveness.pingSoon(time.Now())
		}
	}
	f.w.co.Answer(r.read, r.outcome, r.content, time.Now())
}

// cacheReloads queues cached resources to be read again, on a server whose resources the tracker
// itself does not read. One resource is read at a time, and each is queued at most once.
type cacheReloads struct {
	queue map[string]event.Cause
	busy  bool // a queued resource is being read
	// done receives a value when that read has finished. It has a capacity of 1 and is never
	// closed.
	done chan struct{}
}

// reload queues a resource to be read again if it is cached.
func (f *sessionFollower) reload(uri string, cause event.Cause) {
	if f.conn.cache.Holds(uri) {
		f.reloads.queue[uri] = cause
		f.startReload()
	}
}

// startReload starts reading the next queued resource, unless a read is in progress.
func (f *sessionFollower) startReload() {
	r := &f.reloads
	if r.busy || len(r.queue) == 0 || f.s.Err() != nil {
		return
	}
	uri := slices.Min(slices.Collect(maps.Keys(r.queue)))
	cause := r.queue[uri]
	delete(r.queue, uri)
	r.busy = true
	done := r.done
	f.jobs.start(func(ctx context.Context) {
		_, _ = f.conn.readAndRefresh(ctx, uri, cause)
		done <- struct{}{}
	})
}

// readAndRefresh reads a resource for the tracker, and updates the session cache, which holds
// content read by clients: cached content of the resource is replaced, or removed if the resource
// no longer exists. The new content is published if the server had announced an update, or if the
// content differs.
func (c *connection) readAndRefresh(ctx context.Context, uri string, cause event.Cause) (*session.Content, error) {
	var f *cache.Fetch
	if c.cache.Holds(uri) {
		f = c.cache.Fetch(catalog.Resources, uri, uri)
	}
	content, err := c.s.Read(ctx, uri)
	if errors.Is(err, session.ErrNotFound) {
		c.cache.Gone(uri)
	}
	switch {
	case f == nil:
	case err != nil:
		f.Cancel()
	default:
		c.publishing.Lock()
		defer c.publishing.Unlock()
		for _, e := range f.Refresh(newResource(uri, content)) {
			if e.Was.Stale || e.Was.Digest != e.Now.Digest {
				c.publishContent(cause, &e.Was, e.Now)
			}
		}
	}
	return content, err
}
