package serve

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// goodbye bounds how long a client that does not read can delay the end.
const goodbye = time.Second

// outbox writes the lines of a connection, one after the other.
type outbox struct {
	// jobs are sent to by the reader, by requests, listens and notifiers, and
	// closed by nobody: a notification may come late. Their capacity is what a
	// client may ask for from memory without reading answers.
	jobs chan job
	// quit is closed by the owner when no more answers come.
	quit chan struct{}
	// gone is closed when nothing is written any more, for whatever reason.
	gone  chan struct{}
	leave func() // closes gone, once

	failed func(error) // told of an error of out, once
	// writes counts begun and ended calls of Write: odd while one is under way.
	writes atomic.Uint64
}

// job makes one or more lines, on the goroutine that writes them: what it does
// happens right before they are written. Nothing is written if they are nil.
type job struct {
	lines func() []byte
	done  chan struct{} // closed by the writer after writing; nil: nobody waits
}

func newOutbox(failed func(error)) *outbox {
	o := &outbox{jobs: make(chan job, 16), quit: make(chan struct{}), gone: make(chan struct{}), failed: failed}
	o.leave = sync.OnceFunc(func() { close(o.gone) })
	return o
}

// run is the only one to touch out. It returns after an error, or when quit is
// closed and all jobs are done.
func (o *outbox) run(out io.Writer) {
	defer o.leave()
	for {
		select {
		case j := <-o.jobs:
			if !o.do(j, out) {
				return
			}
		case <-o.quit: // no more answers come, but some may wait
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

// do reports false when nothing more can be written.
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

// watch abandons the writer when one call of Write takes longer than goodbye. It
// returns when nothing is written any more.
func (o *outbox) watch(abandon func()) {
	tick := time.NewTicker(goodbye)
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

// put hands a job over without waiting for it to be done.
func (o *outbox) put(lines func() []byte) {
	select {
	case o.jobs <- job{lines: lines}:
	case <-o.gone:
	}
}

// write waits until the message is written. The error says that it may not be,
// because ctx ended or nothing is written any more.
func (o *outbox) write(ctx context.Context, message []byte) error {
	j := job{lines: func() []byte { return line(message) }, done: make(chan struct{})}
	select {
	case o.jobs <- j:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-o.gone:
		return io.ErrClosedPipe
	}
	select {
	case <-j.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-o.gone:
		return io.ErrClosedPipe
	}
}

func line(message []byte) []byte { return append(message, '\n') }
