package tracker

import (
	"context"
	"errors"
	"time"

	"github.com/mcptrack/mcptrack/core/session"
)

// drain publishes outstanding changes before the end, unless the server was removed: nothing is
// published about a removed server.
func (f *follower) drain(cause error) {
	if errors.Is(cause, errRemoved) {
		return
	}
	over := time.NewTimer(f.w.opts.Drain)
	defer over.Stop()
	f.signals(f.s.Signals().Take())
	f.w.co.EndWindows(time.Now())
	for f.reader.start(f.w.co); f.w.co.Busy(); f.reader.start(f.w.co) {
		select {
		case r := <-f.reader.results:
			f.answered(r)
		case <-f.s.Done():
			return
		case <-over.C:
			return
		}
		f.w.co.EndWindows(time.Now())
	}
}

// open makes the session available to clients.
func (f *follower) open() {
	f.w.following = f
	f.w.conn.Store(f.conn)
}

// shut ends the clients' access to the session, and clears its cache and subscriptions.
func (f *follower) shut() {
	f.w.following = nil
	f.w.conn.Store(nil)
	close(f.conn.ended)
	f.conn.publishing.Lock()
	defer f.conn.publishing.Unlock()
	f.conn.cache.Close()
	f.clients.end()
}

// close ends the jobs and the session, and waits for both. In an orderly end it
// unsubscribes first, which takes at most a second.
func (f *follower) close() {
	if f.s.Err() == nil {
		ctx, cancel := context.WithTimeout(f.jobs.ctx, time.Second)
		f.events.end() // at the same time as the other steps: each may take the whole second
		f.syncs.quiesce(ctx)
		_, _ = f.s.Subscribe(ctx, session.Filter{})
		f.events.wait(ctx)
		cancel()
	}
	f.jobs.cancel()
	f.s.Close()
	f.w.pub.dropped(f.s.Signals().Take().Dropped)
	f.jobs.wg.Wait()
	f.dropTrial()
	f.w.co.Abandon()
}
