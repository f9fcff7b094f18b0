package tracker

import (
	"errors"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
)

// readAnswer is how a read ended.
type readAnswer struct {
	k       *key
	got     content
	outcome readOutcome
	err     error
}

// startReads begins as many of the wished reads as may be in flight.
func (f *follower) startReads() {
	if f.s.Err() != nil {
		return
	}
	for {
		k, _ := f.w.co.nextRead(f.w.opts.Reads)
		if k == nil {
			return
		}
		if mutant == mutantCachedRead && k.role == roleResync {
			f.w.co.started(k)
			f.w.co.finish(k, readOK, k.told, time.Now())
			continue
		}
		f.w.co.started(k)
		uri, cause := k.uri, k.role.cause()
		f.jobs.Go(func() { f.reads <- f.read(k, uri, cause) })
	}
}

func (f *follower) read(k *key, uri string, cause event.Cause) readAnswer {
	keep := f.conn.fetch(uri)
	c, err := f.s.Read(f.ctx, uri)
	f.renew(keep, uri, c, err, cause)
	switch {
	case errors.Is(err, session.ErrNotFound):
		return readAnswer{k: k, outcome: readMissing, err: err}
	case err != nil:
		return readAnswer{k: k, outcome: readFailed, err: err}
	}
	got := content{digest: c.Digest, size: c.Size, mimeType: c.MimeType}
	if text, ok := c.Text(); ok && f.w.opts.Texts {
		got.text = &text
	}
	return readAnswer{k: k, got: got}
}

func (f *follower) answered(a readAnswer) {
	if a.outcome != readFailed {
		f.conn.errands.alive()
	} else {
		f.w.log.Debug("read failed", "uri", a.k.uri, "err", errorLine(a.err))
	}
	f.w.co.finish(a.k, a.outcome, a.got, time.Now())
	if a.outcome != readFailed && !a.k.removed {
		f.w.learned(a.k)
	}
}
