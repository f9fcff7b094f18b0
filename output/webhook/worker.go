package webhook

import (
	"context"
	"crypto/rand"
	"maps"
	"slices"
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

// schedule returns the delays before each attempt of a delivery to a subscription: five attempts in 12 minutes.
func schedule() []time.Duration {
	return []time.Duration{0, 2 * time.Second, 15 * time.Second, 90 * time.Second, 10 * time.Minute}
}

// longSchedule returns the delays before each attempt of a delivery to a webhook in a config: eight attempts in 28 hours.
func longSchedule() []time.Duration {
	return []time.Duration{0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 10 * time.Hour}
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
	later    []*delivery        // to a patient destination: deliveries to start again, which the watermark has passed
	running  int                // deliveries in progress
	gapDue   bool
	gapAgain bool // send the gap message again after the next delivery
}

// delivery is the delivery of one event.
type delivery struct {
	again
	occ    *mcpevents.Occurrence // nil if it must be read from the log again
	out    bool                  // in progress
	done   bool
	passed bool // the endpoint has accepted another event since this one failed
}

// outcome is how a delivery ended: the event was accepted, failed and is to be sent again, is lost, or needs not be sent.
type outcome struct {
	d                      *delivery
	accepted, failed, lost bool
	err                    error // why the delivery was interrupted
}

// run delivers until ctx ends or nothing more may be sent, and returns the reason. When it returns, no delivery is in
// progress.
func (w *worker) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel(nil)
	ended := make(chan *outcome, maxConcurrent) // capacity for all deliveries in progress, so sends never block; never closed
	for {
		if w.gapDue {
			if err := w.sendGap(ctx); err != nil {
				return err
			}
		}
		d, next := w.pick(time.Now())
		if d != nil {
			o, cursor, refused := d.occ, w.start(d), d.passed
			running.Go(func() { ended <- w.send(ctx, d, o, cursor, refused) })
			continue
		}
		var moved <-chan struct{}
		if len(w.queue) == 0 && len(w.started) < w.most() || len(w.later) > 0 && len(w.queue) < lookAhead {
			b, more, err := w.reader.Look(ctx, w.at, w.wants, lookAhead)
			switch {
			case err != nil:
				next = sooner(next, time.Now().Add(readRetryAfter))
			case b.Truncated:
				if len(w.started) == 0 {
					w.at, w.gapDue = b.At, true
					w.missed()
					w.pass()
					continue
				} // otherwise send it after the started deliveries, which may be from another log
			case b.At != w.at:
				w.at = b.At
				w.enqueue(b.Occurrences)
				w.pass()
				continue
			default:
				moved = more
				ready, due := w.states.due(time.Now())
				if len(ready) > 0 {
					w.enqueue(ready)
					continue
				}
				next = sooner(next, due)
			}
		}
		var again <-chan time.Time
		if !next.IsZero() {
			again = time.After(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case o := <-ended:
			if o.err != nil { // neither accepted nor abandoned: the watermark must not pass it
				cancel(o.err)
				return o.err
			}
			w.end(o)
		case <-moved:
		case <-again:
		}
	}
}

func (w *worker) enqueue(all []*mcpevents.Occurrence) {
	for _, o := range all {
		w.queue = append(w.queue, &delivery{again: again{ID: o.ID, Time: o.Time}, occ: o})
	}
}

// sooner returns the earlier of two times; a zero time is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func (w *worker) most() int {
	if w.format.ordered {
		return 1
	}
	return maxConcurrent
}

// failing reports whether no event has been accepted since an attempt failed.
func (d *delivery) failing() bool { return d.Tries > 0 && !d.passed }

// pick returns the delivery to start now, or nil and when the next one is due, if that is known. What is to be sent
// again goes first. An endpoint is down while two events or more are failing: then there is one attempt at a time, and
// events that were not tried go first, as they tell a refused event from an endpoint that is down. To keep the order,
// the first event is tried twice before.
func (w *worker) pick(now time.Time) (d *delivery, next time.Time) {
	var st status
	w.locked(func() { st = w.e.Status })
	most, parts, failing := w.most(), [][]*delivery{w.later, nil}, 0
	if len(w.queue) > 0 && len(w.started) < most {
		parts[1] = w.queue[:1]
	}
	for _, d := range w.later {
		if d.failing() {
			failing++
		}
	}
	switch {
	case failing == 1 && w.format.ordered && st.failures == 1:
		parts[1] = nil
	case failing > 1:
		slices.Reverse(parts)
		most = 1
	}
	if w.running >= most {
		return nil, next
	}
	for _, d := range slices.Concat(parts...) {
		due := later(d.Due, st.quiet)
		if failing > 1 || d.failing() {
			due = later(due, st.next)
		}
		switch {
		case d.out:
		case !now.Before(due):
			return d, next
		default:
			next = sooner(next, due)
		}
	}
	return nil, next
}

// start records that a delivery begins, and returns the cursor to include in its message.
func (w *worker) start(d *delivery) (cursor string) {
	d.out = true
	w.running++
	if len(w.queue) == 0 || d != w.queue[0] {
		return w.cursor(d)
	}
	w.queue = w.queue[1:]
	cursor = w.cursor(d)
	w.started = append(w.started, d)
	return cursor
}

// end records how a delivery ended. An event that waits only because the endpoint is down has one failure.
func (w *worker) end(o *outcome) {
	d, same := o.d, func(d *delivery) bool { return d == o.d }
	w.running--
	w.later = slices.DeleteFunc(w.later, same)
	if d.occ != nil {
		w.states.done(d.occ)
	}
	if o.accepted {
		for _, l := range w.later {
			l.passed = true
		}
	}
	if o.failed && (d.Tries == 0 || d.passed) {
		d.Tries++
	}
	if o.failed && d.Tries < len(w.schedule) {
		d.occ, d.out, d.passed, d.Due = nil, false, false, time.Now().Add(backoff.Spread(w.schedule[d.Tries]))
		w.started = slices.DeleteFunc(w.started, same)
		w.later = append(w.later, d)
	} else {
		d.done = true
	}
	lost := o.lost || o.failed && d.done
	if i := slices.IndexFunc(w.later, func(d *delivery) bool { return !d.out }); len(w.later) > maxLater {
		w.later, lost = slices.Delete(w.later, i, i+1), true
	}
	if lost {
		if !o.lost {
			w.abandon()
		}
		w.missed()
	}
	w.gapDue = lost || w.gapAgain && d.done
	for len(w.started) > 0 && w.started[0].done {
		w.started = w.started[1:]
	}
	w.pass()
}

// wants reports whether an event must be delivered now.
func (w *worker) wants(o *mcpevents.Occurrence) bool {
	return w.match(o) && !w.states.hold(o)
}

// cursor returns the cursor to include in the message of a delivery that is in neither queue nor started. Once the
// delivery is accepted, all events up to the cursor have been accepted or abandoned.
func (w *worker) cursor(d *delivery) string {
	at, _ := w.watermark()
	at.Seq = min(at.Seq, d.position().Seq)
	for _, l := range w.later {
		if p := l.position(); l != d && p.Epoch == at.Epoch {
			at.Seq = min(at.Seq, p.Seq-1)
		}
	}
	return at.Cursor()
}

// watermark returns the position up to which all events, except later ones, were accepted or abandoned, and the
// time of the first event that is being delivered.
func (w *worker) watermark() (at mcpevents.Position, oldest time.Time) {
	at = w.at
	for _, part := range [][]*delivery{w.started, w.queue} {
		for _, d := range part {
			if !d.done && d.occ.Seq <= at.Seq {
				at.Seq, oldest = d.occ.Seq-1, d.Time
			}
		}
	}
	for _, d := range w.later {
		oldest = sooner(oldest, d.Time)
	}
	return w.states.before(at), oldest
}

// pass records the watermark, and what waits.
func (w *worker) pass() {
	at, oldest := w.watermark()
	cursor := at.Cursor()
	var later []again
	for _, d := range w.later {
		later = append(later, d.again)
	}
	w.locked(func() {
		if w.e.worker != w { // what is to be sent was changed meanwhile
			return
		}
		w.e.oldest, w.e.waiting = oldest, len(w.queue)+len(later)
		if w.e.Cursor != cursor || !slices.Equal(w.e.Later, later) {
			w.e.Cursor, w.e.Later, w.deliverer.changed = cursor, later, true
		}
		if w.states.changed {
			w.states.changed, w.deliverer.changed = false, true
			w.e.Sent = maps.Clone(w.states.sent)
		}
	})
}

// missed records that events were lost. It is called before the watermark passes them.
func (w *worker) missed() { w.locked(func() { w.missedLocked(w.e) }) }

// send attempts to send an event until it is accepted, abandoned or, to a patient destination, has failed once. o is
// nil if it must be read from the log again; refused means that the endpoint has accepted others since it failed. The
// body stays the same; attempts differ only in their signatures. The error of the outcome is the reason why nothing
// more may be sent, or the cause of ctx.
func (w *worker) send(ctx context.Context, d *delivery, o *mcpevents.Occurrence, cursor string, refused bool) *outcome {
	if o == nil {
		read, stored, err := readEvent(ctx, w.reader, d.position(), w.match)
		if read == nil {
			return &outcome{d: d, lost: !stored, err: err}
		}
		o = read
	}
	body, err := w.format.event(o, cursor)
	if err != nil { // the format cannot represent the event's URI or name
		w.logger.Warn("an event cannot be encoded for a webhook", "id", d.ID, "host", hostOf(w.url), "err", err)
		w.abandon()
		return &outcome{d: d, lost: true}
	}
	m := w.message(d.ID, body)
	for tries := 1; ; tries++ {
		began := time.Now()
		r, err := w.attempt(ctx, o, m)
		switch {
		case err == errHidden:
			return &outcome{d: d, lost: o.Name == mcpevents.ListChanged} // hidden, but other items in the event may still be visible
		case err != nil:
			return &outcome{d: d, err: err}
		case ctx.Err() != nil:
			return &outcome{d: d, err: context.Cause(ctx)}
		}
		r.retryAfter = min(r.retryAfter, slices.Max(w.schedule))
		w.attempted(w.e, d.ID, began, refused, r)
		switch {
		case r.err == "":
			return &outcome{d: d, accepted: true}
		case w.patient:
			return &outcome{d: d, failed: true}
		case tries == len(w.schedule):
			w.abandon()
			return &outcome{d: d, lost: true}
		case !backoff.Sleep(ctx, max(backoff.Spread(w.schedule[tries]), r.retryAfter)):
			return &outcome{d: d, err: context.Cause(ctx)}
		}
	}
}

// readEvent reads the event at a position, which must not be after the end of the log. o is nil if it does not match,
// or if the log no longer has it; stored tells which. readEvent retries until ctx ends, with its cause.
func readEvent(ctx context.Context, reader *mcpevents.Reader, at mcpevents.Position, match func(*mcpevents.Occurrence) bool) (o *mcpevents.Occurrence, stored bool, err error) {
	at.Seq--
	for {
		b, _, err := reader.Look(ctx, at, match, 1)
		switch {
		case err != nil || b.At == at: // the reader has not come to it yet
			if !backoff.Sleep(ctx, readRetryAfter) {
				return nil, false, context.Cause(ctx)
			}
		case b.Truncated || b.At.Seq > at.Seq+1:
			return nil, false, nil
		case len(b.Occurrences) > 0:
			return b.Occurrences[0], true, nil
		default:
			return nil, true, nil
		}
	}
}

// abandon counts an event that is not sent any more.
func (w *worker) abandon() {
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
