package webhook

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/natslog"
	"github.com/mcptrack/mcptrack/core/mcpevents"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/records"
)

var (
	// errSuperseded reports that another process delivers.
	errSuperseded = errors.New("another process delivers the webhooks now")
	// errChanged is the cancellation cause for a worker whose endpoint has changed.
	errChanged = errors.New("the endpoint has changed")
	errNotYet  = errors.New("it is not known what the client may see")
	// errIdle reports that there is nothing to deliver to.
	errIdle = errors.New("there are no webhooks")
)

// deliverer delivers the events of a log to the endpoints of one source, and stores how far it is. If
// several processes share the log, the holder of a lease delivers.
type deliverer struct {
	owner
	source  Source
	log     *natslog.Log // nil if no other process uses the log
	records records.Store
	sender  *Sender
	logger  *slog.Logger
	// saveEvery is how often changed positions are stored.
	saveEvery time.Duration
	publish   func(event.Payload) // publishes an event that concerns no server; nil if it is not needed
	// woken wakes run. It has capacity 1 and is never closed.
	woken chan struct{}

	// saving is a semaphore of capacity 1, never closed. It is held during loads and saves, so that a
	// later save stores newer positions, and guards the two fields below.
	saving     chan struct{}
	revision   uint64 // of the checkpoint that this process loaded or saved last
	saveFailed bool   // and the failure was logged

	mu        sync.Mutex // guards the fields below and the fields of all endpoints
	endpoints []*endpoint
	kept      []progress      // stored progress of endpoints that are not in endpoints
	changed   bool            // some progress was not saved
	total     Stats           // counts of all endpoints, also of those that were removed
	ctx       context.Context // context of deliveries; nil while this process does not deliver
	lease     *natslog.Lease  // held while delivering; nil if not needed
	working   sync.WaitGroup  // the goroutines of endpoints
}

// owner is what a deliverer asks of the Webhooks or Subscriptions that it delivers for.
type owner interface {
	// ready returns the reason why this process cannot deliver; nil if it can.
	ready() error
	// caughtUp waits until all records are known that were written before a checkpoint.
	caughtUp(ctx context.Context, revision uint64) error
	// adoptLocked gives the progress in kept to the endpoints to which it belongs, and removes it
	// from kept, with all that no endpoint can need.
	adoptLocked(all []*endpoint)
	// view returns what an endpoint may receive; reader is nil if that is not known yet. It may be called
	// with the lock of the deliverer.
	view(e *endpoint) (reader *mcpevents.Reader, scope mcpevents.Scope)
	// phaseLocked returns what is to be done for an endpoint that was not removed, and when that may change.
	phaseLocked(e *endpoint) (now phase, until time.Time)
	// suspendsLocked reports whether deliveries to an endpoint end because all attempts failed, and records in its
	// status what resumes them.
	suspendsLocked(e *endpoint) bool
	// end removes an endpoint whose phase is ended.
	end(ctx context.Context, e *endpoint) error
}

func newDeliverer(o owner, source Source, log journal.Log, store records.Store, sender *Sender, logger *slog.Logger) *deliverer {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	shared, _ := log.(*natslog.Log)
	return &deliverer{owner: o, source: source, log: shared, records: store, sender: sender, logger: logger,
		saveEvery: time.Second, woken: make(chan struct{}, 1), saving: make(chan struct{}, 1)}
}

func (d *deliverer) locked(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

// wake makes run call ready again.
func (d *deliverer) wake() {
	select {
	case d.woken <- struct{}{}:
	default:
	}
}

// run delivers until ctx ends, whenever this process may. It logs repeated errors once.
func (d *deliverer) run(ctx context.Context) {
	retry := backoff.New(500*time.Millisecond, 5*time.Second)
	logged := ""
	for ctx.Err() == nil {
		err := d.lead(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			logged = ""
			retry.Reset()
			continue
		case errors.Is(err, journal.ErrClosed): // ctx is about to end
			<-ctx.Done()
			return
		case err.Error() != logged && err != errIdle:
			logged = err.Error()
			d.logger.Warn("this process cannot deliver webhooks; retrying", "source", string(d.source), "err", err)
		}
		var again <-chan time.Time
		if err != errIdle {
			again = time.After(retry.Next())
		}
		select {
		case <-d.woken:
		case <-again:
		case <-ctx.Done():
		}
	}
}

func (d *deliverer) leaseName() string { return "webhooks/" + string(d.source) }

// lead waits until this process may deliver, and delivers until ctx ends, another process delivers, or
// this process can no longer deliver. When it returns, no delivery is in progress, and it has tried to
// store the positions; if that fails, the next process resumes from those stored before.
func (d *deliverer) lead(ctx context.Context) error {
	if err := d.ready(); err != nil {
		return err
	}
	var lease *natslog.Lease
	var lost <-chan struct{}
	if d.log != nil {
		var err error
		if lease, err = d.log.Lease(ctx, d.leaseName(), natslog.LeaseOptions{}); err != nil {
			return err
		}
		defer lease.Release()
		lost = lease.Lost()
	}
	rec, err := d.records.Get(ctx, checkpointKey(d.source))
	if err != nil {
		return err
	}
	stored, err := parseCheckpoint(rec)
	if err != nil {
		return err
	}
	if err := d.caughtUp(ctx, rec.Revision); err != nil {
		return err
	}
	if err := d.ready(); err != nil {
		return err
	}
	d.saving <- struct{}{}
	d.revision = rec.Revision
	<-d.saving
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d.locked(func() {
		d.ctx, d.lease, d.kept, d.changed = ctx, lease, stored, len(d.endpoints) > 0
		d.adoptLocked(d.endpoints)
		for _, e := range d.endpoints {
			d.startLocked(e)
		}
	})
	tick := time.NewTicker(d.saveEvery)
	defer tick.Stop()
	for err = d.ready(); err == nil && ctx.Err() == nil; {
		select {
		case <-d.woken:
			err = d.ready()
		case <-tick.C:
			if err = d.save(ctx); err != errSuperseded {
				err = d.ready()
			}
		case <-lost:
			err = errSuperseded
		case <-ctx.Done():
		}
	}
	d.locked(cancel) // start no more deliveries
	d.working.Wait()
	_ = d.save(ctx) // save logs errors
	d.locked(func() { d.ctx = nil })
	if err == errSuperseded {
		return nil
	}
	return err
}

// addLocked adds an endpoint, and starts deliveries if this process delivers.
func (d *deliverer) addLocked(e *endpoint) {
	d.endpoints = append(d.endpoints, e)
	d.changed = true
	d.startLocked(e)
}

func (d *deliverer) startLocked(e *endpoint) {
	if ctx := d.ctx; ctx != nil && ctx.Err() == nil {
		e.responder.late.Store(e.Status.LastError == Timeout && !e.Status.FailedSince.IsZero())
		d.working.Go(func() { d.serve(ctx, e) })
	}
}

// removeLocked removes an endpoint.
func (d *deliverer) removeLocked(e *endpoint) {
	if i := slices.Index(d.endpoints, e); i >= 0 {
		d.endpoints = slices.Delete(d.endpoints, i, i+1)
	}
	e.removed, d.changed = true, true
	e.wakeLocked()
}

// phase is what is to be done for an endpoint.
type phase int

const (
	delivering phase = iota
	waiting          // wait until something changes
	ended
)

// serve delivers to one endpoint until it is removed or ctx ends.
func (d *deliverer) serve(ctx context.Context, e *endpoint) {
	retry := backoff.New(100*time.Millisecond, 5*time.Second)
	for ctx.Err() == nil {
		gone, err := d.step(ctx, e)
		if gone {
			return
		}
		if err == nil || errors.Is(err, errChanged) {
			retry.Reset()
		} else {
			backoff.Sleep(ctx, retry.Next())
		}
	}
}

// step does what is to be done for an endpoint until that may have changed. It reports whether the
// endpoint was removed.
func (d *deliverer) step(ctx context.Context, e *endpoint) (gone bool, err error) {
	d.mu.Lock()
	gone = e.removed
	now, until := d.phaseLocked(e)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if !until.IsZero() && now != ended {
		var over context.CancelFunc
		ctx, over = context.WithDeadlineCause(ctx, until, errChanged)
		defer over()
	}
	if now != ended {
		e.stop = stop
	}
	d.mu.Unlock()
	defer d.locked(func() { e.stop = nil })
	switch {
	case gone:
	case now == delivering:
		var w *worker
		if w, err = d.worker(ctx, e); err == nil {
			err = w.run(ctx)
		}
	case now == waiting:
		<-ctx.Done()
	case now == ended:
		err = d.end(ctx, e)
	}
	return gone, err
}

// worker returns a worker that starts at the watermark, or with the next event if there is none.
func (d *deliverer) worker(ctx context.Context, e *endpoint) (*worker, error) {
	w := &worker{deliverer: d, e: e}
	d.mu.Lock()
	p := e.progress
	w.destination = e.destination
	w.reader, _ = d.view(e)
	e.reader, e.worker, e.waiting = w.reader, w, 0
	d.mu.Unlock()
	if w.reader == nil {
		return nil, errNotYet
	}
	var cursor *string
	if p.Cursor != "" {
		cursor = &p.Cursor
	}
	var truncated bool
	var err error
	if w.at, truncated, err = w.reader.Start(ctx, cursor, 0, w.maxReplay); err != nil {
		return nil, err
	}
	w.states = newStateDebouncer(w.settle, p.Sent)
	for _, a := range p.Later {
		if a.Tries == 1 { // the endpoint was down
			a.Due = time.Time{}
		}
		w.later = append(w.later, &delivery{again: a})
	}
	d.locked(func() {
		if e.worker != w { // what is to be sent was changed meanwhile
			err = errChanged
			return
		}
		if truncated || len(p.Held) > 0 {
			d.missedLocked(e)
			e.Held = nil
		}
		if now := w.at.Cursor(); e.Cursor != now {
			e.Cursor, d.changed = now, true
		}
		w.gapDue = e.GapDue
	})
	if err == nil && cursor == nil { // store a position, so that no later event is lost
		err = d.save(ctx)
	}
	return w, err
}

// missedLocked records that events were lost: a gap message must be sent.
func (d *deliverer) missedLocked(e *endpoint) {
	e.GapDue, d.changed = true, true
	e.Missed++
}

// errHidden reports that an event is no longer visible and must not be sent.
var errHidden = errors.New("the event is no longer shown")

// allowed returns an error if an event, or a control message if o is nil, may not be sent to an endpoint
// now. It is called immediately before each attempt.
func (d *deliverer) allowed(e *endpoint, o *mcpevents.Occurrence) error {
	d.mu.Lock()
	reader, scope := d.view(e)
	now, _ := d.phaseLocked(e)
	changed := e.removed || now != delivering || reader != e.reader
	lease := d.lease
	d.mu.Unlock()
	switch {
	case changed:
		return errChanged
	case lease != nil && !lease.Held():
		return errSuperseded
	case o != nil && !scope.Shows(o):
		return errHidden
	}
	return nil
}

// attempted records an attempt to deliver the event with an id.
func (d *deliverer) attempted(e *endpoint, id string, began time.Time, refused bool, r result) {
	d.mu.Lock()
	d.total.note(r)
	e.count.note(r)
	e.note(began, refused, r)
	if e.conf != nil {
		e.results = append([]Result{{stamp(time.Now()), id, r.outcome()}}, e.results[:min(len(e.results), maxResults-1)]...)
	}
	st := e.Status
	suspend := r.err != "" && !st.Suspended && d.suspendsLocked(e)
	if suspend {
		e.Status.Suspended, d.changed = true, true
		e.wakeLocked()
	}
	d.mu.Unlock()
	if suspend {
		d.logger.Warn("deliveries to a webhook are suspended because all of them fail", "id", e.ID, "host", hostOf(e.url), "error", string(r.err))
	}
	if suspend && d.publish != nil {
		d.publish(event.WebhookDisabled{Host: hostOf(e.url), Format: string(e.format.name), Error: string(r.err), FailedSince: st.FailedSince})
	}
}

// Stats returns the current state.
func (d *deliverer) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := d.total
	for _, e := range d.endpoints {
		switch {
		case d.source == FromConfig && d.ctx == nil: // another process delivers
		case e.Status.Suspended:
			out.Suspended++
		default:
			out.Active++
			if !e.oldest.IsZero() {
				out.Lag = max(out.Lag, time.Since(e.oldest))
			}
		}
	}
	return out
}

// Deliverer reports which process in a cluster delivers the webhooks of a source.
type Deliverer struct {
	Source Source `json:"source"`
	// Process identifies the delivering process; empty if there is none at present.
	Process string `json:"process,omitempty"`
	Own     bool   `json:"own"` // whether it is this process
	// Waiting explains why this process cannot deliver or cannot determine which process does;
	// empty if there is no problem.
	Waiting string `json:"waiting,omitempty"`
}

// Deliverers returns the process that delivers to the endpoints, or nothing if the log is not on a
// cluster.
func (d *deliverer) Deliverers() []Deliverer {
	if d.log == nil {
		return nil
	}
	out := Deliverer{Source: d.source}
	leases, err := d.log.Leases()
	for _, lease := range leases {
		if lease.Name == d.leaseName() {
			out.Process, out.Own = lease.Process, lease.Own
		}
	}
	if why := d.ready(); why != nil && why != errIdle {
		err = why
	}
	if err != nil {
		out.Waiting = printable.Reason(err, 300)
	}
	return []Deliverer{out}
}
