package webhook

import (
	"context"
	"log/slog"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/printable"
)

// turns are the periods in which this process delivers, among those that share a cluster: while
// it holds the lease.
type turns struct {
	journal *journal.Journal
	source  Source
	log     *slog.Logger
	retry   *backoff.Backoff
}

func newTurns(j *journal.Journal, source Source, log *slog.Logger) *turns {
	return &turns{journal: j, source: source, log: log, retry: backoff.New(500*time.Millisecond, 5*time.Second)}
}

func leaseName(source Source) string { return "webhooks/" + string(source) }

// once waits for the lease and calls work with a context that ends when the lease is lost. The
// lease is released when work has returned.
func (t *turns) once(ctx context.Context, work func(context.Context, *journal.Lease) error) {
	lease, err := t.journal.Lease(ctx, leaseName(t.source), journal.LeaseOptions{})
	if err == nil {
		held, lost := context.WithCancelCause(ctx)
		watched := make(chan struct{}) // closed when the goroutine below has ended
		go func() {
			defer close(watched)
			select {
			case <-lease.Lost():
				lost(errTaken)
			case <-held.Done():
			}
		}()
		err = work(held, lease)
		lost(nil)
		<-watched
		lease.Release()
	}
	if err == nil {
		t.retry.Reset()
		return
	}
	if ctx.Err() == nil {
		t.log.Warn("this process cannot deliver webhooks at present; trying again", "source", string(t.source), "err", err)
		backoff.Sleep(ctx, t.retry.Next())
	}
}

// stillHeld returns the function for endpoint.allowed that checks the lease; nil without a
// lease.
func stillHeld(lease *journal.Lease) func() error {
	if lease == nil {
		return nil
	}
	return func() error {
		if !lease.Held() {
			return errTaken
		}
		return nil
	}
}

// Delivery says which process on a cluster delivers webhooks of a source.
type Delivery struct {
	Source Source `json:"source"`
	// Process is the process that delivers; "": none does now.
	Process string `json:"process,omitempty"`
	Own     bool   `json:"own"` // it is this process
	// Waiting is why this process does not know who delivers, or cannot deliver.
	Waiting string `json:"waiting,omitempty"`
}

// Deliveries returns which process delivers to the webhooks of the config, if they are on a
// cluster.
func (h *Hooks) Deliveries() []Delivery {
	if h.turns == nil {
		return nil
	}
	return []Delivery{h.turns.delivery()}
}

// Deliveries returns who delivers to subscriptions, on a cluster; else none.
func (s *Subscriptions) Deliveries() []Delivery {
	if s.opts.Cluster == nil {
		return nil
	}
	return []Delivery{s.opts.Cluster.delivery()}
}

// delivery returns which process holds the lease.
func (t *turns) delivery() Delivery {
	d := Delivery{Source: t.source}
	leases, err := t.journal.Leases()
	if err != nil {
		d.Waiting = printable.Reason(err, 300)
		return d
	}
	for _, l := range leases {
		if l.Name == leaseName(t.source) {
			d.Process, d.Own = l.Process, l.Own
		}
	}
	return d
}
