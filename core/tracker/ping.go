package tracker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcptrack/mcptrack/core/session"
)

// pingTimeout is how long a server may take to give a sign of life.
const pingTimeout = 10 * time.Second

// ping asks for a sign of life.
func (f *follower) ping(now time.Time) {
	f.signals(f.s.Signals().Take()) // what was only counted wakes nobody
	f.pingSince = now
	wait := pingTimeout
	if t := f.w.srv.RequestTimeout; t > 0 {
		wait = min(wait, t)
	}
	f.jobs.Go(func() {
		ctx, cancel := context.WithTimeout(f.ctx, wait)
		defer cancel()
		a := pingAnswer{since: now, err: f.s.Ping(ctx)}
		a.late = a.err != nil && time.Since(now) >= wait
		select { // after a suspension there may be two, and nobody to receive
		case f.pings <- a:
		case <-f.ctx.Done():
		}
	})
}

// pingAnswer is how a ping ended.
type pingAnswer struct {
	since time.Time
	err   error
	late  bool // no answer came in time
}

// pinged judges the answer. One that was given up because of a suspension of this
// process says nothing about the server: another ping has been sent since. Nor does
// one that a server left waiting which is at work for somebody: see errands.
func (f *follower) pinged(a pingAnswer) error {
	if !a.since.Equal(f.pingSince) {
		return nil
	}
	f.pingSince = time.Time{}
	f.nextPing = time.Now().Add(f.w.opts.Liveness)
	switch {
	case a.err == nil:
		f.conn.errands.alive()
		return nil
	case errors.Is(a.err, session.ErrAuth):
		return a.err
	case a.late && f.conn.errands.excuse(a.since):
		f.w.log.Debug("no answer to a ping: the server may be busy")
		f.nextPing = time.Now().Add(min(f.w.opts.Liveness, pingTimeout/2)) // dead or not, that is soon known
		return nil
	}
	return fmt.Errorf("no sign of life: %w", a.err)
}
