package tracker

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/tracker/internal/coalesce"
)

// reader starts the reads that a coalescer queues, as jobs.
type reader struct {
	conn   *connection
	jobs   *jobs
	cached *refresher
	texts  bool // whether to keep texts

	// results receives the result of every read and is never closed. Its capacity is
	// the number of reads in flight.
	results chan readResult
}

// readResult is how a read ended.
type readResult struct {
	read    coalesce.Read
	content coalesce.Content
	outcome coalesce.Outcome
	err     error
}

// start begins as many of the queued reads as may be in flight.
func (r *reader) start(co *coalesce.Coalescer) {
	if r.conn.s.Err() != nil {
		return
	}
	for {
		q, ok := co.NextRead(cap(r.results))
		if !ok {
			return
		}
		r.jobs.start(func(ctx context.Context) { r.results <- r.read(ctx, q) })
	}
}

// read reads one resource; it runs in a job.
func (r *reader) read(ctx context.Context, q coalesce.Read) readResult {
	cached := r.conn.begin(q.URI)
	c, err := r.conn.s.Read(ctx, q.URI)
	r.cached.store(cached, q.URI, c, err, q.Cause)
	switch {
	case errors.Is(err, session.ErrNotFound):
		return readResult{read: q, outcome: coalesce.Missing, err: err}
	case err != nil:
		return readResult{read: q, outcome: coalesce.Failed, err: err}
	}
	got := coalesce.Content{Digest: c.Digest, Size: c.Size, MimeType: c.MimeType}
	if text, ok := c.Text(); ok && r.texts {
		got.Text = &text
	}
	return readResult{read: q, content: got}
}

// answered handles the result of a read.
func (f *follower) answered(r readResult) {
	if r.outcome != coalesce.Failed {
		f.conn.requests.alive()
	} else {
		f.w.log.Debug("read failed", "uri", r.read.URI, "err", errorLine(r.err))
		if _, ok := errors.AsType[*session.TooLargeError](r.err); ok {
			f.w.pub.warnOnce("too large", "a resource is too large to be compared; others of the server that are will not be reported", r.err, "uri", r.read.URI)
		}
		if _, ok := errors.AsType[*net.OpError](r.err); ok { // the connection failed, not only this read
			f.liveness.pingSoon(time.Now())
		}
	}
	f.w.co.Answer(r.read, r.outcome, r.content, time.Now())
}
