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
	running  int                // attempts in progress
	gapDue   bool
	gapAgain bool // send the gap message again after the next delivery

	// How a patient destination responded.
	accepted uint64    // accepted attempts
	fails    int       // failed attempts after the last accepted one, without those of refused events
	step     int       // of the schedule of attempts while all fail
	next     time.Time // when the next attempt may start while all fail
	quiet    time.Time // when the next attempt may start after Retry-After
}

// delivery is the delivery of one event.
type delivery struct {
	again
	occ  *mcpevents.Occurrence // nil if it must be read from the log
	m    *message              // nil if it must be encoded
	at   time.Time             // when the next attempt is due
	out  bool                  // an attempt is in progress
	done bool
	lost bool // abandoned
	// refused means that the endpoint accepted other events between two failed attempts of this one.
	refused  bool
	accepted uint64 // worker.accepted after the last failed attempt
	step     int    // worker.step when the last attempt began

	// Of the last attempt, set before it ends.
	result result
	err    error // why it was interrupted
}

// run delivers the events after a position until ctx ends or nothing more may be sent, and returns
// the reason. When it returns, no delivery is in progress.
func (w *worker) run(ctx context.Context, from mcpevents.Position, gap bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel(nil)
	w.at, w.gapDue = from, gap
	type attempted struct {
		d     *delivery
		after delivery
	}
	ended := make(chan attempted, maxConcurrent) // capacity for all attempts in progress, so sends never block; never closed
	for {
		if w.gapDue {
			if err := w.sendGap(ctx); err != nil {
				return err
			}
		}
		var next time.Time
		for {
			var d *delivery
			if d, next = w.pick(time.Now()); d == nil {
				break
			}
			cursor, a := w.start(d), attempted{d: d}
			a.after = *d // d itself belongs to this loop
			running.Go(func() {
				a.after.err = w.send(ctx, &a.after, cursor)
				ended <- a
			})
		}
		w.locked(func() { w.e.next = next })
		var moved <-chan struct{}
		if len(w.queue) == 0 && len(w.started) < w.most() || w.failing() && len(w.queue) < lookAhead {
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
		case a := <-ended:
			d, after := a.d, &a.after
			d.occ, d.m, d.time, d.done, d.lost, d.result, d.err = after.occ, after.m, after.time, after.done, after.lost, after.result, after.err
			if d.err != nil { // neither accepted nor abandoned: the watermark must not pass it
				cancel(d.err)
				return d.err
			}
			w.end(d)
		case <-moved:
		case <-again:
		}
	}
}

func (w *worker) enqueue(all []*mcpevents.Occurrence) {
	for _, o := range all {
		w.queue = append(w.queue, &delivery{again: again{ID: o.ID, time: o.Time}, occ: o})
	}
}

// sooner returns the earlier of two times; a zero time is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
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

// failing reports whether the endpoint of a patient destination seems to be down. One failure may be due to the
// event, but to keep the order no other event may be sent before that is known.
func (w *worker) failing() bool {
	return w.patient && (w.fails > 1 || w.fails == 1 && w.format.ordered)
}

// pick returns the delivery to start now, or nil and when the next one is due, if that is known. While the endpoint
// fails, there is one attempt at a time, of the event with the fewest: this tells a refused event from an endpoint
// that is down.
func (w *worker) pick(now time.Time) (best *delivery, next time.Time) {
	failing, most, from := w.failing(), w.most(), w.quiet
	if failing {
		most = 1
		if from.Before(w.next) {
			from = w.next
		}
	}
	if w.running >= most {
		return nil, next
	}
	tries := func(d *delivery) int {
		if w.format.ordered && d.Tries == 1 {
			return -1 // it is tried twice before others
		}
		return d.Tries
	}
	consider := func(d *delivery) {
		due := d.at
		if due.Before(from) {
			due = from
		}
		switch {
		case d.out || d.done:
		case now.Before(due):
			next = sooner(next, due)
		case best == nil || failing && tries(d) < tries(best):
			best = d
		}
	}
	for _, part := range [][]*delivery{w.later, w.started} {
		for _, d := range part {
			consider(d)
		}
	}
	if len(w.queue) > 0 && len(w.started) < w.most() {
		consider(w.queue[0])
	}
	return best, next
}

// start records that an attempt begins, and returns the cursor to include in its message.
func (w *worker) start(d *delivery) (cursor string) {
	fresh := len(w.queue) > 0 && d == w.queue[0]
	if fresh {
		w.queue = w.queue[1:]
	}
	cursor = w.cursor(d)
	if fresh {
		w.started = append(w.started, d)
	}
	d.out, d.step = true, w.step
	w.running++
	return cursor
}

// end records the result of an attempt.
func (w *worker) end(d *delivery) {
	d.out = false
	w.running--
	switch {
	case d.done: // nothing was sent
	case d.result.err == "":
		d.done = true
		w.accepted++
		w.fails, w.step = 0, 0
		for _, l := range w.later {
			if !l.refused {
				l.at = time.Time{}
			}
		}
	default:
		w.failed(d)
	}
	if d.occ != nil && (d.done || w.patient) {
		w.states.done(d.occ)
	}
	same := func(o *delivery) bool { return o == d }
	switch again := slices.ContainsFunc(w.later, same); {
	case d.done && again:
		w.later = slices.DeleteFunc(w.later, same)
	case !d.done && w.patient:
		d.occ, d.m = nil, nil
		if !again {
			w.started = slices.DeleteFunc(w.started, same)
			w.later = append(w.later, d)
		}
	}
	if len(w.later) > maxLater {
		if i := slices.IndexFunc(w.later, func(d *delivery) bool { return !d.out }); i >= 0 {
			w.abandon(w.later[i])
			w.missed()
			w.later, w.gapDue = slices.Delete(w.later, i, i+1), true
		}
	}
	if d.lost {
		w.missed()
	}
	if d.done {
		w.gapDue = w.gapDue || d.lost || w.gapAgain
		w.gapAgain = false
	}
	for len(w.started) > 0 && w.started[0].done {
		w.started = w.started[1:]
	}
	w.pass()
}

// failed determines when the next attempt is due, or abandons the event after the last one. An event that waits only
// because the endpoint is down is not abandoned, if the destination is patient: the endpoint is switched off.
func (w *worker) failed(d *delivery) {
	last := len(w.schedule) - 1
	after := min(d.result.retryAfter, slices.Max(w.schedule))
	d.refused, d.accepted = d.Tries > 0 && d.accepted != w.accepted, w.accepted
	d.Tries++
	if d.Tries > last && (d.refused || !w.patient) {
		w.abandon(d)
		return
	}
	now := time.Now()
	d.at = now.Add(max(backoff.Spread(w.schedule[min(d.Tries, last)]), after))
	if until := now.Add(after); w.patient && after > 0 && w.quiet.Before(until) {
		w.quiet = until
	}
	if d.refused {
		return
	}
	w.fails++
	switch {
	case w.fails == 1:
		w.next = d.at
	case d.step == w.step: // attempts that were in progress together count as one
		w.step = min(w.step+1, last)
		w.next = now.Add(backoff.Spread(w.schedule[w.step]))
	}
}

// wants reports whether an event must be delivered now.
func (w *worker) wants(o *mcpevents.Occurrence) bool {
	return w.match(o) && !w.states.hold(o)
}

// cursor returns the cursor to include in the message of a delivery that is in neither queue nor started, or has
// a message already. Once the delivery is accepted, all events up to the cursor have been accepted or abandoned.
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
				at.Seq, oldest = d.occ.Seq-1, d.time
			}
		}
	}
	for _, d := range w.later {
		oldest = sooner(oldest, d.time)
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
	waiting := len(w.queue) + len(later)
	for _, d := range w.started {
		if !d.done {
			waiting++
		}
	}
	w.locked(func() {
		if w.e.worker != w { // what is to be sent was changed meanwhile
			return
		}
		w.e.oldest, w.e.waiting = oldest, waiting
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

// send makes one attempt to send an event, unless nothing of it is to be sent: then it is done. The body stays the
// same while it waits in memory; attempts differ only in their signatures. The returned error is the reason why
// nothing more may be sent, or the cause of ctx.
func (w *worker) send(ctx context.Context, d *delivery, cursor string) error {
	if d.occ == nil {
		if err := w.read(ctx, d); err != nil || d.done {
			return err
		}
	}
	if d.m == nil {
		body, err := w.format.event(d.occ, cursor)
		if err != nil { // the format cannot represent the event's URI or name
			w.logger.Warn("an event cannot be encoded for a webhook", "id", d.ID, "host", hostOf(w.url), "err", err)
			w.abandon(d)
			return nil
		}
		d.m = w.message(d.ID, body)
	}
	r, err := w.attempt(ctx, d.occ, d.m)
	switch {
	case err == errHidden:
		d.done, d.lost = true, d.occ.Name == mcpevents.ListChanged // hidden, but other items in the event may still be visible
		return nil
	case err != nil:
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	w.attempted(w.e, d.ID, r)
	d.result = r
	return nil
}

// read reads the event of a delivery from the log again. It is done if the endpoint is not to receive it any more.
func (w *worker) read(ctx context.Context, d *delivery) error {
	o, stored, err := readEvent(ctx, w.reader, d.position(), w.match)
	if o == nil {
		d.done, d.lost = err == nil, !stored
		return err
	}
	d.occ, d.time = o, o.Time
	return nil
}

// readEvent reads the event at a position, which must not be after the end of the log. o is nil if it does not match,
// or if the log no longer has it; stored tells which. readEvent retries until ctx ends, with its cause.
func readEvent(ctx context.Context, reader *mcpevents.Reader, at mcpevents.Position, match func(*mcpevents.Occurrence) bool) (o *mcpevents.Occurrence, stored bool, err error) {
	at.Seq--
	for {
		b, moved, err := reader.Look(ctx, at, match, 1)
		switch {
		case err == nil && (b.Truncated || b.At.Seq > at.Seq+1):
			return nil, false, nil
		case err == nil && len(b.Occurrences) > 0:
			return b.Occurrences[0], true, nil
		case err == nil && b.At != at:
			return nil, true, nil
		}
		var again <-chan time.Time
		if err != nil {
			again = time.After(readRetryAfter)
		}
		select {
		case <-moved:
		case <-again:
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
	}
}

// abandon records that an event is not sent any more.
func (w *worker) abandon(d *delivery) {
	d.done, d.lost = true, true
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
