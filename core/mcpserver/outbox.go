package mcpserver

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// drainTimeout bounds how long a client that does not read can delay a shutdown.
const drainTimeout = time.Second

// outbox writes the lines of a connection in order.
type outbox struct {
	// The reader, requests, listens and notifiers send on jobs; it is never closed, as a
	// notification may come late. Its capacity is the number of answers from memory that
	// a client may request without reading.
	jobs chan job
	// quit is closed by the owner when all answers were sent on jobs.
	quit chan struct{}
	// gone is closed when the outbox will write nothing more, for any reason.
	gone  chan struct{}
	leave func() // closes gone, once

	failed func(error) // called at most once, with the first error of out
	// writes counts the begins and ends of calls of Write: it is odd during a call.
	writes atomic.Uint64
}

// job produces one or more lines on the writing goroutine, right before they are
// written. If lines returns nil, nothing is written.
type job struct {
	lines func() []byte
	done  chan struct{} // closed after writing; may be nil
}

func newOutbox(failed func(error)) *outbox {
	o := &outbox{jobs: make(chan job, 16), quit: make(chan struct{}), gone: make(chan struct{}), failed: failed}
	o.leave = sync.OnceFunc(func() { close(o.gone) })
	return o
}

// run is the only writer to out. It returns after an error, or when quit is closed and
// all jobs are done.
func (o *outbox) run(out io.Writer) {
	defer o.leave()
	for {
		select {
		case j := <-o.jobs:
			if !o.do(j, out) {
				return
			}
		case <-o.quit: // write the jobs that are queued
			for {
				select {
				case j := <-o.jobs:
					if !o.do(j, out) {
						return
					}
				default:
					return
				}
			}
		}
	}
}

// do runs one job; it reports false when out has failed.
func (o *outbox) do(j job, out io.Writer) bool {
	if lines := j.lines(); lines != nil {
		o.writes.Add(1)
		_, err := out.Write(lines)
		o.writes.Add(1)
		if err != nil {
			o.failed(fmt.Errorf("write to the client: %w", err))
			return false
		}
	}
	if j.done != nil {
		close(j.done)
	}
	return true
}

// watch calls abandon when one call of Write takes longer than drainTimeout. It returns
// then, or when the outbox is done.
func (o *outbox) watch(abandon func()) {
	tick := time.NewTicker(drainTimeout)
	defer tick.Stop()
	for before := o.writes.Load(); ; {
		select {
		case <-tick.C:
			now := o.writes.Load()
			if now == before && now%2 == 1 {
				abandon()
				return
			}
			before = now
		case <-o.gone:
			return
		}
	}
}

// put queues a job without waiting for it to be done.
func (o *outbox) put(lines func() []byte) {
	select {
	case o.jobs <- job{lines: lines}:
	case <-o.gone:
	}
}

// write queues a message and waits until it is written. After an error, which is the
// cause of ctx or io.ErrClosedPipe, it may or may not be written.
func (o *outbox) write(ctx context.Context, message []byte) error {
	_, err := o.deliver(ctx, message)
	return err
}

// queue is write, but reports whether the message was queued: then it is written before those
// that are queued later, also if ctx is done, unless the client is gone.
func (o *outbox) queue(ctx context.Context, message []byte) bool {
	queued, _ := o.deliver(ctx, message)
	return queued
}

func (o *outbox) deliver(ctx context.Context, message []byte) (queued bool, err error) {
	j := job{lines: func() []byte { return line(message) }, done: make(chan struct{})}
	select {
	case o.jobs <- j:
	case <-ctx.Done():
		return false, context.Cause(ctx)
	case <-o.gone:
		return false, io.ErrClosedPipe
	}
	select {
	case <-j.done:
		return true, nil
	case <-ctx.Done():
		return true, context.Cause(ctx)
	case <-o.gone:
		return true, io.ErrClosedPipe
	}
}

func line(message []byte) []byte { return append(message, '\n') }
