package publish

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/bus"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// recorder appends every event of a tracker to a journal.
type recorder struct {
	tracker *tracker.Tracker
	journal *journal.Journal
	texts   *texts
	log     *slog.Logger
	sharing *sharing // nil: no leases are needed

	seq                atomic.Uint64 // of the last event that was appended
	reloaded, rejected atomic.Uint64
	bad                atomic.Bool // the last config on disk was rejected
}

func newRecorder(t *tracker.Tracker, j *journal.Journal, x *texts, log *slog.Logger) *recorder {
	return &recorder{tracker: t, journal: j, texts: x, log: log}
}

// Reloads counts the reloads of the config by their outcome.
type Reloads struct {
	Reloaded, Rejected uint64
	Good               bool // the config on disk is the one in use
}

func (r *recorder) reloads() Reloads {
	return Reloads{Reloaded: r.reloaded.Load(), Rejected: r.rejected.Load(), Good: !r.bad.Load()}
}

// start subscribes to the tracker, so that no event after it is missed, and appends
// until the tracker has ended.
func (r *recorder) start() (running *sync.WaitGroup) {
	_, events := r.tracker.Subscribe(context.Background())
	running = new(sync.WaitGroup)
	running.Go(func() { r.record(events) })
	return running
}

// record appends the events. When the tracker has cut the subscription for being too far
// behind, it continues with the last event of every resource.
func (r *recorder) record(events *bus.Subscription) {
	for {
		var seq uint64
		for e := range events.Events() {
			seq = e.Seq
			r.append(e)
			r.seq.Store(seq)
		}
		if !errors.Is(events.Err(), bus.ErrLagged) {
			return
		}
		var snap *tracker.Snapshot
		snap, events = r.tracker.Subscribe(context.Background())
		r.append(&event.Event{ID: event.FormatID(snap.Epoch, snap.Seq), Seq: snap.Seq, Timestamp: time.Now(), Payload: event.Gap{
			From: event.FormatID(snap.Epoch, seq), To: event.FormatID(snap.Epoch, snap.Seq), Reason: "storing was too slow"}})
		for _, e := range snap.LastAfter(seq) {
			r.append(e)
		}
		r.seq.Store(snap.Seq)
	}
}

func (r *recorder) append(e *event.Event) {
	switch e.Type() {
	case event.TypeConfigReloaded:
		r.reloaded.Add(1)
		r.bad.Store(false)
	case event.TypeConfigRejected:
		r.rejected.Add(1)
		r.bad.Store(true)
	}
	r.texts.putEvent(e)
	store := r.journal.Append
	if lease := r.sharing.lease(e.ServerID); lease != nil {
		store = lease.Append
	}
	if err := store(e); err != nil {
		r.log.Warn("cannot store an event", "err", err)
	}
}

// recorded is the number of the last event that was appended.
func (r *recorder) recorded() uint64 { return r.seq.Load() }

// settle waits until every event of the tracker so far is appended.
func (r *recorder) settle(ctx context.Context) {
	for seq := r.tracker.Snapshot().Seq; r.recorded() < seq && backoff.Sleep(ctx, 5*time.Millisecond); {
	}
}
