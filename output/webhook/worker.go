package webhook

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/mcpevents"
	"github.com/mcptrack/mcptrack/core/standardwebhooks"
)

const (
	maxOpen    = 8 // deliveries of a subscription in progress
	lookAhead  = 128
	gapTries   = 2
	gapWait    = 2 * time.Second
	maxReplay  = 1000 // bounds the entries that a subscription catches up with
	readFailed = 250 * time.Millisecond
)

// schedule returns the waits before the attempts of a delivery: five attempts in 12 minutes.
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

// endpoint is the target of a worker. Several goroutines call its functions.
type endpoint struct {
	caller *caller // makes the attempts
	match  func(*mcpevents.Occurrence) bool
	shows  func(*mcpevents.Occurrence) bool
	// message returns the message of an event; it is called once, and attempts differ only in
	// the Secrets. nil: the event has no message and is given up.
	message func(o *mcpevents.Occurrence, cursor string) *Message
	// gap returns the message that events are missing; nil: there is none.
	gap func(cursor string) *Message
	// missed is called when events were given up or are no longer in the log, before passed is
	// for a position after them: what it stores makes the next run begin with a gap message.
	missed func()
	// gapTried is called after the last attempt to send a gap message, but not if the attempts
	// were cut short. It returns whether to send it again once the endpoint accepts events.
	gapTried func(taken bool) (again bool)
	// secrets returns the secrets that sign an attempt.
	secrets func() []standardwebhooks.Secret
	// allowed returns why nothing may be sent any more, nil if sending is allowed. It is called
	// right before each attempt; nil: always allowed.
	allowed func() error
	// noted is called after each attempt to send an event, and gaveUp after the last.
	noted  func(r Result)
	gaveUp func()
	// passed is called when all events up to at were accepted or given up. oldest is the time
	// of the first remaining event, zero if there is none.
	passed func(at mcpevents.Position, oldest time.Time)

	// open bounds the deliveries in progress; 0: maxOpen.
	open int
	// states keeps states of servers back; nil: none is.
	states *settler
}

// errHidden is why an event is not sent any more: it is not shown.
var errHidden = errors.New("the event is not shown any more")

// worker delivers to one endpoint.
type worker struct {
	endpoint
	sender *Sender
	reader *mcpevents.Reader

	at      mcpevents.Position // all events up to here were examined
	queue   []*flight          // found, but not started
	flights []*flight          // started, and not passed by the watermark, in order
	gapDue  bool
	gapOwed bool // a gap message was not accepted
}

// flight is one delivery.
type flight struct {
	occ  *mcpevents.Occurrence
	late bool // it was held back, and is before the watermark
	done bool
	lost bool  // given up
	err  error // why the attempts were cut short; set before it is sent on ended
}

// run delivers the events after a position until ctx ends or endpoint.allowed fails, and
// returns that error. When it returns, no delivery is in progress.
func (w *worker) run(ctx context.Context, from mcpevents.Position, gap bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel(nil)
	w.at, w.gapDue = from, gap
	most := cmp.Or(w.open, maxOpen)
	ended := make(chan *flight, most) // of all that are open, so that none waits to send; never closed
	for {
		if w.gapDue {
			if err := w.sendGap(ctx); err != nil {
				return err
			}
		}
		for len(w.queue) > 0 && len(w.flights) < most {
			f := w.queue[0]
			w.queue = w.queue[1:]
			cursor := w.cursor(f)
			w.flights = append(w.flights, f)
			running.Go(func() {
				f.err = w.deliver(ctx, f, w.message(f.occ, cursor))
				ended <- f
			})
		}
		var moved <-chan struct{}
		var again <-chan time.Time
		if len(w.queue) == 0 && len(w.flights) < most {
			b, more, err := w.reader.Look(ctx, w.at, w.wants, lookAhead)
			switch {
			case err != nil:
				again = time.After(readFailed)
			case b.Truncated:
				if len(w.flights) == 0 {
					w.at, w.gapDue = b.At, true
					w.missed()
					w.pass()
					continue
				} // else when those are passed, which may be of another log
			case b.At != w.at:
				w.at = b.At
				for _, o := range b.Occurrences {
					w.queue = append(w.queue, &flight{occ: o})
				}
				w.pass()
				continue
			default:
				moved = more
				wait, found := w.settled()
				if found {
					continue
				}
				again = wait
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case f := <-ended:
			if f.err != nil { // it was neither accepted nor given up: the mark must not pass it
				cancel(f.err)
				return f.err
			}
			f.done = true
			if f.lost {
				w.missed()
			}
			w.gapDue = w.gapDue || f.lost || w.gapOwed
			w.gapOwed = false
			if f.late {
				w.states.done(f.occ)
			}
			for len(w.flights) > 0 && w.flights[0].done {
				w.flights = w.flights[1:]
			}
			w.pass()
		case <-moved:
		case <-again:
		}
	}
}

// wants reports whether an event is to be delivered now.
func (w *worker) wants(o *mcpevents.Occurrence) bool {
	return w.match(o) && (w.states == nil || !w.states.hold(o))
}

// settled queues the states that have lasted. It returns whether there were any, and otherwise
// when to check again.
func (w *worker) settled() (wait <-chan time.Time, found bool) {
	if w.states == nil {
		return nil, false
	}
	ready, next := w.states.due(time.Now())
	for _, o := range ready {
		w.queue = append(w.queue, &flight{occ: o, late: true})
	}
	if len(ready) == 0 && !next.IsZero() {
		wait = time.After(time.Until(next))
	}
	return wait, len(ready) > 0
}

// cursor returns the cursor in the message of a delivery: all events up to it are accepted or
// given up once this delivery is.
func (w *worker) cursor(f *flight) string {
	at, _ := w.mark()
	open := slices.ContainsFunc(w.flights, func(before *flight) bool { return !before.late && !before.done })
	if open || f.late {
		return at.Cursor()
	}
	return f.occ.ID
}

// mark returns the position up to which all events were accepted or given up.
func (w *worker) mark() (at mcpevents.Position, oldest time.Time) {
	at = w.at
	for _, part := range [][]*flight{w.flights, w.queue} {
		for _, f := range part {
			if !f.late && !f.done {
				at.Seq = f.occ.Seq - 1
				return at, f.occ.Time
			}
		}
	}
	return at, oldest
}

func (w *worker) pass() { w.passed(w.mark()) }

// deliver attempts to send one event until it is accepted or given up. Its error is why nothing
// may be sent any more, or the cause of ctx.
func (w *worker) deliver(ctx context.Context, f *flight, m *Message) error {
	if m == nil {
		f.lost = true
		w.gaveUp()
		return nil
	}
	var after time.Duration
	for i, wait := range schedule() {
		wait = spread(wait)
		if after > 0 && i > 0 {
			wait = max(wait, after)
		}
		if wait > 0 && !backoff.Sleep(ctx, wait) {
			return context.Cause(ctx)
		}
		m.Secrets = w.secrets()
		r, err := w.sender.post(ctx, w.caller, m, func() error {
			if !w.shows(f.occ) {
				return errHidden
			}
			if w.allowed == nil {
				return nil
			}
			return w.allowed()
		})
		switch {
		case err == errHidden:
			f.lost = f.occ.Name == mcpevents.ListChanged // others of its items may be shown
			return nil
		case err != nil:
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

// sendGap says that events are missing. Endpoints need not understand it, so a failure is not
// counted.
func (w *worker) sendGap(ctx context.Context) error {
	w.gapDue = false
	if w.gap == nil {
		return nil
	}
	at, _ := w.mark()
	m := w.gap(at.Cursor())
	if m == nil {
		return nil
	}
	taken, err := w.control(ctx, m)
	if err == nil {
		w.gapOwed = w.gapTried(taken)
	}
	return err
}

// control sends a message that is not an event, in at most two attempts.
func (w *worker) control(ctx context.Context, m *Message) (taken bool, err error) {
	for i := range gapTries {
		if i > 0 && !backoff.Sleep(ctx, gapWait) {
			return false, context.Cause(ctx)
		}
		m.Secrets = w.secrets()
		r, err := w.sender.post(ctx, w.caller, m, w.allowed)
		if err != nil || r.Err == "" {
			return err == nil, err
		}
	}
	return false, nil
}
