package webhook

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/mcpevents"
	"github.com/mcptrack/mcptrack/core/standardwebhooks"
	"github.com/mcptrack/mcptrack/core/tracing"
)

const (
	maxConcurrent  = 8 // maximum concurrent deliveries to one endpoint
	lookAhead      = 128
	controlTries   = 2
	controlWait    = 2 * time.Second
	maxReplay      = 1000 // limit on the events that a subscription catches up on
	readRetryAfter = 250 * time.Millisecond
)

// schedule returns the delays before each attempt of a delivery: five attempts in 12 minutes.
func schedule() []time.Duration {
	return []time.Duration{0, 2 * time.Second, 15 * time.Second, 90 * time.Second, 10 * time.Minute}
}

// endpoint describes where and how a worker delivers. Its functions must be safe for concurrent
// use.
type endpoint struct {
	responder *responder
	match     func(*mcpevents.Occurrence) bool
	shows     func(*mcpevents.Occurrence) bool
	// message returns the message for an event, or nil if the event cannot be encoded and is
	// abandoned. It is called once per event; attempts differ only in their secrets.
	message func(o *mcpevents.Occurrence, cursor string) *message
	// gap returns a message that reports lost events. It is nil if the endpoint has no gap
	// messages.
	gap func(cursor string) *message
	// missed is called when events were abandoned or are no longer in the log, and before passed is
	// called for a later position. It makes the next run start with a gap message.
	missed func()
	// gapTried is called after the last attempt to send a gap message, unless the attempts were
	// interrupted. It returns whether to send it again after the next delivery.
	gapTried func(taken bool) (again bool)
	// secrets returns the secrets that sign an attempt.
	secrets func() []standardwebhooks.Secret
	// allowed returns an error if nothing more may be sent. It is called immediately before each
	// attempt; if nil, sending is always allowed.
	allowed func() error
	// attempted is called after each attempt to send an event; abandoned is called after the last
	// attempt if it failed.
	attempted func(r result)
	abandoned func()
	// passed is called when all events up to at were accepted or abandoned. oldest is the time of
	// the first remaining event, or zero if none remains.
	passed func(at mcpevents.Position, oldest time.Time)

	// concurrent limits the deliveries in progress; 0 means maxConcurrent.
	concurrent int
	// states debounces server states. If nil, they are delivered immediately.
	states *stateDebouncer
}

// errHidden reports that an event is no longer visible and must not be sent.
var errHidden = errors.New("the event is no longer shown")

// worker delivers events to one endpoint.
type worker struct {
	endpoint
	sender *Sender
	reader *mcpevents.Reader

	at       mcpevents.Position // all events up to this position were examined
	queue    []*delivery        // deliveries to start
	started  []*delivery        // started deliveries that the watermark has not passed, in order
	gapDue   bool
	gapAgain bool // send the gap message again after the next delivery
}

// delivery is the delivery of one event.
type delivery struct {
	occ  *mcpevents.Occurrence
	late bool // the event was held back, and the watermark has already passed it
	done bool
	lost bool  // abandoned
	err  error // why the attempts were interrupted; set before d is sent to ended
}

// run delivers the events after a position until ctx ends or endpoint.allowed fails, and returns
// that error. When it returns, no delivery is in progress.
func (w *worker) run(ctx context.Context, from mcpevents.Position, gap bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel(nil)
	w.at, w.gapDue = from, gap
	most := cmp.Or(w.concurrent, maxConcurrent)
	ended := make(chan *delivery, most) // capacity for all deliveries in progress, so sends never block; never closed
	for {
		if w.gapDue {
			if err := w.sendGap(ctx); err != nil {
				return err
			}
		}
		for len(w.queue) > 0 && len(w.started) < most {
			d := w.queue[0]
			w.queue = w.queue[1:]
			cursor := w.cursor(d)
			w.started = append(w.started, d)
			running.Go(func() {
				d.err = w.deliver(ctx, d, w.message(d.occ, cursor))
				ended <- d
			})
		}
		var moved <-chan struct{}
		var again <-chan time.Time
		if len(w.queue) == 0 && len(w.started) < most {
			b, more, err := w.reader.Look(ctx, w.at, w.wants, lookAhead)
			switch {
			case err != nil:
				again = time.After(readRetryAfter)
			case b.Truncated:
				if len(w.started) == 0 {
					w.at, w.gapDue = b.At, true
					w.missed()
					w.pass()
					continue
				} // otherwise send it after the started deliveries, which may be from another log
			case b.At != w.at:
				w.at = b.At
				for _, o := range b.Occurrences {
					w.queue = append(w.queue, &delivery{occ: o})
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
		case d := <-ended:
			if d.err != nil { // neither accepted nor abandoned: the watermark must not pass it
				cancel(d.err)
				return d.err
			}
			d.done = true
			if d.lost {
				w.missed()
			}
			w.gapDue = w.gapDue || d.lost || w.gapAgain
			w.gapAgain = false
			if d.late {
				w.states.done(d.occ)
			}
			for len(w.started) > 0 && w.started[0].done {
				w.started = w.started[1:]
			}
			w.pass()
		case <-moved:
		case <-again:
		}
	}
}

// wants reports whether an event must be delivered now.
func (w *worker) wants(o *mcpevents.Occurrence) bool {
	return w.match(o) && (w.states == nil || !w.states.hold(o))
}

// settled queues the states that have lasted long enough. It reports whether there were any, and
// otherwise when to check again.
func (w *worker) settled() (wait <-chan time.Time, found bool) {
	if w.states == nil {
		return nil, false
	}
	ready, next := w.states.due(time.Now())
	for _, o := range ready {
		w.queue = append(w.queue, &delivery{occ: o, late: true})
	}
	if len(ready) == 0 && !next.IsZero() {
		wait = time.After(time.Until(next))
	}
	return wait, len(ready) > 0
}

// cursor returns the cursor to include in a delivery's message. Once the delivery is accepted, all
// events up to the cursor have been accepted or abandoned.
func (w *worker) cursor(d *delivery) string {
	at, _ := w.watermark()
	open := slices.ContainsFunc(w.started, func(before *delivery) bool { return !before.late && !before.done })
	if open || d.late {
		return at.Cursor()
	}
	return d.occ.ID
}

// watermark returns the position up to which all events were accepted or abandoned, and the time of
// the first event after it.
func (w *worker) watermark() (at mcpevents.Position, oldest time.Time) {
	at = w.at
	for _, part := range [][]*delivery{w.started, w.queue} {
		for _, d := range part {
			if !d.late && !d.done {
				at.Seq = d.occ.Seq - 1
				return at, d.occ.Time
			}
		}
	}
	return at, oldest
}

func (w *worker) pass() { w.passed(w.watermark()) }

// deliver attempts to send one event until it is accepted or abandoned. The returned error is the
// reason why nothing more may be sent, or the cause of ctx.
func (w *worker) deliver(ctx context.Context, d *delivery, m *message) error {
	if m == nil {
		d.lost = true
		w.abandoned()
		return nil
	}
	var after time.Duration
	for i, wait := range schedule() {
		if i > 0 && !backoff.Sleep(ctx, max(backoff.Spread(wait), after)) {
			return context.Cause(ctx)
		}
		m.secrets = w.secrets()
		r, err := w.attempt(ctx, d.occ, m, func() error {
			if !w.shows(d.occ) {
				return errHidden
			}
			if w.allowed == nil {
				return nil
			}
			return w.allowed()
		})
		switch {
		case err == errHidden:
			d.lost = d.occ.Name == mcpevents.ListChanged // hidden, but other items in the event may still be visible
			return nil
		case err != nil:
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		w.attempted(r)
		if r.err == "" {
			return nil
		}
		after = r.retryAfter
	}
	d.lost = true
	w.abandoned()
	return nil
}

// attempt makes one attempt to send an event, and records it if the sender has a tracer.
func (w *worker) attempt(ctx context.Context, o *mcpevents.Occurrence, m *message, before func() error) (result, error) {
	if w.sender.Tracer == nil {
		return w.sender.post(ctx, w.responder, m, before)
	}
	var span tracing.Span
	r, err := w.sender.post(ctx, w.responder, m, func() error {
		err := before()
		if err == nil { // otherwise nothing is sent
			_, span = w.sender.Tracer.Delivery(ctx, "webhook", time.Time{}, tracing.Event{Type: o.Name, Server: o.Server, URI: o.URI(), Trace: o.Trace})
		}
		return err
	})
	if err != nil {
		span.FailWith(err)
	} else if r.err != "" {
		span.Fail(string(r.err), "")
	}
	span.End()
	return r, err
}

// sendGap sends a message that reports lost events. Endpoints need not understand it, so a failure
// is not counted.
func (w *worker) sendGap(ctx context.Context) error {
	w.gapDue = false
	if w.gap == nil {
		return nil
	}
	at, _ := w.watermark()
	m := w.gap(at.Cursor())
	if m == nil {
		return nil
	}
	taken, err := w.control(ctx, m)
	if err == nil {
		w.gapAgain = w.gapTried(taken)
	}
	return err
}

// control sends a control message, in at most two attempts.
func (w *worker) control(ctx context.Context, m *message) (taken bool, err error) {
	for i := range controlTries {
		if i > 0 && !backoff.Sleep(ctx, controlWait) {
			return false, context.Cause(ctx)
		}
		m.secrets = w.secrets()
		r, err := w.sender.post(ctx, w.responder, m, w.allowed)
		if err != nil || r.err == "" {
			return err == nil, err
		}
	}
	return false, nil
}
