package webhook

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/events"
)

const (
	maxOpen    = 8 // deliveries of a subscription in progress
	lookAhead  = 128
	gapTries   = 2
	gapWait    = 2 * time.Second
	maxReplay  = 1000 // entries that a subscription catches up with
	readFailed = 250 * time.Millisecond
)

// schedule are the waits before the attempts of a delivery: five in 12 minutes.
func schedule() []time.Duration {
	return []time.Duration{0, 2 * time.Second, 15 * time.Second, 90 * time.Second, 10 * time.Minute}
}

// spread varies a wait by 20 % in both directions.
func spread(d time.Duration) time.Duration {
	if d == 0 {
		return 0
	}
	return d - d/5 + rand.N(2*d/5+1)
}

// endpoint is what a worker delivers to. Its functions are called by several goroutines.
type endpoint struct {
	match func(*events.Occurrence) bool
	shows func(*events.Occurrence) bool
	// message makes the message of an event, once; attempts differ in its Secrets only.
	message func(o *events.Occurrence, cursor string) *Message
	// gap makes the message that says that events are missing; nil: there is none.
	gap func(cursor string) *Message
	// secrets returns what an attempt is signed with.
	secrets func() []Secret
	// allowed returns why nothing may be sent any more, nil if it may. It is called right
	// before each attempt.
	allowed func() error
	// noted is called after each attempt to send an event, and gaveUp after the last.
	noted  func(r Result)
	gaveUp func()
	// passed is called when everything up to at was taken or given up. oldest is when the
	// first of what is left happened, zero if nothing is.
	passed func(at events.Position, oldest time.Time)
}

// worker delivers to one endpoint.
type worker struct {
	endpoint
	sender *Sender
	reader *events.Reader

	at     events.Position      // everything up to here was looked at
	queue  []*events.Occurrence // found and not begun
	open   []*flight            // begun and not passed, in order
	gapDue bool
}

// flight is one delivery.
type flight struct {
	occ  *events.Occurrence
	done bool
	lost bool  // given up
	err  error // why it was not tried to the end; set before it is sent on ended
}

// run delivers what comes after a position, until ctx ends or endpoint.allowed forbids
// it. Its error is the cause. When it returns nothing is in progress.
func (w *worker) run(ctx context.Context, from events.Position, gap bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var flights sync.WaitGroup
	defer flights.Wait()
	defer cancel(nil)
	w.at, w.gapDue = from, gap
	ended := make(chan *flight, maxOpen) // of all that are open, so that none waits to send; never closed
	for {
		if w.gapDue {
			if err := w.sendGap(ctx); err != nil {
				return err
			}
		}
		for len(w.queue) > 0 && len(w.open) < maxOpen {
			f := &flight{occ: w.queue[0]}
			w.queue = w.queue[1:]
			cursor := f.occ.ID
			if len(w.open) > 0 {
				cursor = events.Position{Epoch: w.at.Epoch, Seq: w.open[0].occ.Seq - 1}.Cursor()
			}
			w.open = append(w.open, f)
			flights.Go(func() {
				f.err = w.deliver(ctx, f, w.message(f.occ, cursor))
				ended <- f
			})
		}
		var moved <-chan struct{}
		var again <-chan time.Time
		if len(w.queue) == 0 && len(w.open) < maxOpen {
			b, more, err := w.reader.Look(ctx, w.at, w.match, lookAhead)
			switch {
			case err != nil:
				again = time.After(readFailed)
			case b.Truncated:
				if len(w.open) == 0 {
					w.at, w.gapDue = b.At, true
					w.pass()
					continue
				} // else when those are passed, which may be of another log
			case b.At != w.at:
				w.at, w.queue = b.At, b.Occurrences
				w.pass()
				continue
			default:
				moved = more
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case f := <-ended:
			if f.err != nil { // it was neither taken nor given up: the mark must not pass it
				cancel(f.err)
				return f.err
			}
			f.done = true
			w.gapDue = w.gapDue || f.lost
			for len(w.open) > 0 && w.open[0].done {
				w.open = w.open[1:]
			}
			w.pass()
		case <-moved:
		case <-again:
		}
	}
}

// mark is everything up to which was taken or given up.
func (w *worker) mark() (at events.Position, oldest time.Time) {
	at = w.at
	switch {
	case len(w.open) > 0:
		at.Seq, oldest = w.open[0].occ.Seq-1, w.open[0].occ.Time
	case len(w.queue) > 0:
		at.Seq, oldest = w.queue[0].Seq-1, w.queue[0].Time
	}
	return at, oldest
}

func (w *worker) pass() { w.passed(w.mark()) }

// deliver sends one event until it is taken or given up. Its error is why nothing may be
// sent any more, or the cause of ctx.
func (w *worker) deliver(ctx context.Context, f *flight, m *Message) error {
	var after time.Duration
	for i, wait := range schedule() {
		wait = spread(wait)
		if after > 0 && i > 0 {
			wait = max(wait, after)
		}
		if wait > 0 && !backoff.Sleep(ctx, wait) {
			return context.Cause(ctx)
		}
		if !w.shows(f.occ) {
			return nil
		}
		m.Secrets = w.secrets()
		r, err := w.sender.Post(ctx, m, w.allowed)
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		w.noted(r)
		if r.Err == "" {
			return nil
		}
		after = r.RetryAfter
	}
	f.lost = true
	w.gaveUp()
	return nil
}

// sendGap says that events are missing. Endpoints need not understand it, so a failure
// counts for nothing.
func (w *worker) sendGap(ctx context.Context) error {
	w.gapDue = false
	if w.gap == nil {
		return nil
	}
	at, _ := w.mark()
	return w.control(ctx, w.gap(at.Cursor()))
}

// control sends a message that is no event, twice at most.
func (w *worker) control(ctx context.Context, m *Message) error {
	for i := range gapTries {
		if i > 0 && !backoff.Sleep(ctx, gapWait) {
			return context.Cause(ctx)
		}
		m.Secrets = w.secrets()
		r, err := w.sender.Post(ctx, m, w.allowed)
		if err != nil || r.Err == "" {
			return err
		}
	}
	return nil
}
