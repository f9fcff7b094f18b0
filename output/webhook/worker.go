package webhook

import (
	"context"
	"crypto/rand"
	"maps"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/mcpevents"
	"github.com/mcptrack/mcptrack/core/tracing"
)

const (
	maxConcurrent  = 8 // maximum concurrent deliveries to one endpoint
	lookAhead      = 128
	controlTries   = 2
	controlWait    = 2 * time.Second
	readRetryAfter = 250 * time.Millisecond
)

// schedule returns the delays before each attempt of a delivery: five attempts in 12 minutes.
func schedule() []time.Duration {
	return []time.Duration{0, 2 * time.Second, 15 * time.Second, 90 * time.Second, 10 * time.Minute}
}

// worker delivers events to one endpoint, as long as its destination and reader stay the same.
type worker struct {
	*deliverer
	e *endpoint
	*destination
	reader *mcpevents.Reader
	states *stateDebouncer

	at       mcpevents.Position // all events up to this position were examined
	queue    []*delivery        // deliveries to start
	started  []*delivery        // started deliveries that the watermark has not passed, in order
	gapDue   bool
	gapAgain bool // send the gap message again after the next delivery
}

// delivery is the delivery of one event.
type delivery struct {
	occ  *mcpevents.Occurrence
	done bool
	lost bool  // abandoned
	err  error // why the attempts were interrupted; set before d is sent to ended
}

// run delivers the events after a position until ctx ends or nothing more may be sent, and returns
// the reason. When it returns, no delivery is in progress.
func (w *worker) run(ctx context.Context, from mcpevents.Position, gap bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel(nil)
	w.at, w.gapDue = from, gap
	most := maxConcurrent
	if w.format.ordered {
		most = 1
	}
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
				d.err = w.send(ctx, d, cursor)
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
			w.states.done(d.occ)
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
	return w.match(o) && !w.states.hold(o)
}

// settled queues the states that have lasted long enough. It reports whether there were any, and
// otherwise when to check again.
func (w *worker) settled() (wait <-chan time.Time, found bool) {
	ready, next := w.states.due(time.Now())
	for _, o := range ready {
		w.queue = append(w.queue, &delivery{occ: o})
	}
	if len(ready) == 0 && !next.IsZero() {
		wait = time.After(time.Until(next))
	}
	return wait, len(ready) > 0
}

// cursor returns the cursor to include in the message of a delivery that is in neither queue nor started. Once
// the delivery is accepted, all events up to the cursor have been accepted or abandoned.
func (w *worker) cursor(d *delivery) string {
	at, _ := w.watermark()
	at.Seq = min(at.Seq, d.occ.Seq)
	return at.Cursor()
}

// watermark returns the position up to which all events were accepted or abandoned, and the time of
// the first event that is being delivered.
func (w *worker) watermark() (at mcpevents.Position, oldest time.Time) {
	at = w.at
	for _, part := range [][]*delivery{w.started, w.queue} {
		for _, d := range part {
			if !d.done && d.occ.Seq <= at.Seq {
				at.Seq, oldest = d.occ.Seq-1, d.occ.Time
			}
		}
	}
	return w.states.before(at), oldest
}

// pass records the watermark.
func (w *worker) pass() {
	at, oldest := w.watermark()
	cursor := at.Cursor()
	w.locked(func() {
		w.e.oldest = oldest
		if w.e.Cursor != cursor {
			w.e.Cursor, w.deliverer.changed = cursor, true
		}
		if w.states.changed {
			w.states.changed, w.deliverer.changed = false, true
			w.e.Sent = maps.Clone(w.states.sent)
		}
	})
}

// missed records that events were lost. It is called before the watermark passes them.
func (w *worker) missed() { w.locked(func() { w.missedLocked(w.e) }) }

// send attempts to send one event until it is accepted or abandoned. The body stays the same; attempts differ
// only in their signatures. The returned error is the reason why nothing more may be sent, or the cause of ctx.
func (w *worker) send(ctx context.Context, d *delivery, cursor string) error {
	body, err := w.format.event(d.occ, cursor)
	if err != nil { // the format cannot represent the event's URI or name
		w.logger.Warn("an event cannot be encoded for a webhook", "id", d.occ.ID, "host", hostOf(w.url), "err", err)
		w.abandon(d)
		return nil
	}
	m := w.message(d.occ.ID, body)
	var after time.Duration
	for i, wait := range w.schedule {
		if i > 0 && !backoff.Sleep(ctx, max(backoff.Spread(wait), after)) {
			return context.Cause(ctx)
		}
		r, err := w.attempt(ctx, d.occ, m)
		switch {
		case err == errHidden:
			d.lost = d.occ.Name == mcpevents.ListChanged // hidden, but other items in the event may still be visible
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		w.attempted(w.e, r)
		if r.err == "" {
			return nil
		}
		after = r.retryAfter
	}
	w.abandon(d)
	return nil
}

// abandon records that the last attempt to send an event has failed.
func (w *worker) abandon(d *delivery) {
	d.lost = true
	w.mu.Lock()
	w.total.Abandoned++
	w.e.count.Abandoned++
	st := &w.e.Status
	warn := w.e.sub == nil && !st.warned
	st.warned = true
	last := st.LastError
	w.mu.Unlock()
	if warn {
		w.logger.Warn("events could not be delivered to a webhook in the config", "host", hostOf(w.url), "error", string(last))
	}
}

// attempt makes one attempt to send an event, and records it if the sender has a tracer.
func (w *worker) attempt(ctx context.Context, o *mcpevents.Occurrence, m *message) (result, error) {
	var span tracing.Span
	r, err := w.post(ctx, m, func() error {
		if err := w.allowed(w.e, o); err != nil {
			return err
		}
		if w.sender.Tracer != nil {
			_, span = w.sender.Tracer.Delivery(ctx, "webhook", time.Time{}, tracing.Event{Type: o.Name, Server: o.Server, URI: o.URI(), Trace: o.Trace})
		}
		return nil
	})
	if err != nil {
		span.FailWith(err)
	} else if r.err != "" {
		span.Fail(string(r.err), "")
	}
	span.End()
	return r, err
}

// post makes one attempt to send a message, signed with the current secrets.
func (w *worker) post(ctx context.Context, m *message, before func() error) (result, error) {
	w.locked(func() { m.secrets = w.e.secrets() })
	return w.sender.post(ctx, &w.e.responder, m, before)
}

// sendGap sends a message that reports lost events. Endpoints need not understand it, so a failure
// is not counted. To a subscription it is not sent again, because the next refresh reports the gap too.
func (w *worker) sendGap(ctx context.Context) error {
	w.gapDue = false
	at, _ := w.watermark()
	id := "msg_gap_" + rand.Text()
	body, err := w.format.gap(id, at.Cursor())
	if err != nil {
		return nil
	}
	w.locked(func() {
		w.total.Gaps++
		w.e.count.Gaps++
	})
	taken, err := w.control(ctx, w.message(id, body), func() error { return w.allowed(w.e, nil) })
	if err != nil {
		return err
	}
	if w.gapAgain = !taken && w.e.sub == nil; !w.gapAgain {
		w.locked(func() { w.e.GapDue, w.deliverer.changed = false, true })
	}
	return nil
}

// control sends a control message, in at most two attempts.
func (w *worker) control(ctx context.Context, m *message, before func() error) (taken bool, err error) {
	for i := range controlTries {
		if i > 0 && !backoff.Sleep(ctx, controlWait) {
			return false, context.Cause(ctx)
		}
		r, err := w.post(ctx, m, before)
		if err != nil || r.err == "" {
			return err == nil, err
		}
	}
	return false, nil
}
