package webhook

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/natslog"
	"github.com/mcptrack/mcptrack/core/printable"
)

// turns are the periods in which this process delivers: while it holds the lease, among those that
// share a cluster; else always.
type turns struct {
	log    *natslog.Log // nil: this process has the event log for itself
	source Source
	logger *slog.Logger
	retry  *backoff.Backoff
	failed string // why the last turn failed, which was logged
}

func newTurns(log journal.Log, source Source, logger *slog.Logger) *turns {
	shared, _ := log.(*natslog.Log)
	return &turns{log: shared, source: source, logger: logger, retry: backoff.New(500*time.Millisecond, 5*time.Second)}
}

// shared reports whether other processes may deliver.
func (t *turns) shared() bool { return t.log != nil }

func leaseName(source Source) string { return "webhooks/" + string(source) }

// once waits for a turn and calls work, under a lease if there are others: then the context of
// work ends when the lease is lost, and the lease is released when work has returned. An error is
// logged the first time, and once returns after a wait.
func (t *turns) once(ctx context.Context, work func(context.Context, *natslog.Lease) error) {
	err := t.take(ctx, work)
	if err == nil {
		t.failed = ""
		t.retry.Reset()
		return
	}
	if ctx.Err() != nil {
		return
	}
	if errors.Is(err, journal.ErrClosed) { // soon ctx ends, too
		<-ctx.Done()
		return
	}
	if text := err.Error(); text != t.failed {
		t.failed = text
		t.logger.Warn("this process cannot deliver webhooks at present; trying again", "source", string(t.source), "err", err)
	}
	backoff.Sleep(ctx, t.retry.Next())
}

func (t *turns) take(ctx context.Context, work func(context.Context, *natslog.Lease) error) error {
	if !t.shared() {
		return work(ctx, nil)
	}
	lease, err := t.log.Lease(ctx, leaseName(t.source), natslog.LeaseOptions{})
	if err != nil {
		return err
	}
	defer lease.Release()
	held, lost := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer lost(nil)
	watching.Go(func() {
		select {
		case <-lease.Lost():
			lost(errTaken)
		case <-held.Done():
		}
	})
	return work(held, lease)
}

// stillHeld returns the function for endpoint.allowed that checks the lease; nil without a
// lease.
func stillHeld(lease *natslog.Lease) func() error {
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

// Deliveries returns which process delivers to the webhooks of the config, if the event log is on a
// cluster; else none.
func (h *Hooks) Deliveries() []Delivery {
	if !h.turns.shared() {
		return nil
	}
	return []Delivery{h.turns.delivery()}
}

// Deliveries returns which process delivers to subscriptions, if the event log is on a cluster;
// else none.
func (s *Subscriptions) Deliveries() []Delivery {
	if !s.turns.shared() {
		return nil
	}
	d := s.turns.delivery()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range s.unreadable {
		d.Waiting = printable.Line((&otherKeyError{key}).Error(), 300)
	}
	return []Delivery{d}
}

// delivery returns which process holds the lease.
func (t *turns) delivery() Delivery {
	d := Delivery{Source: t.source}
	leases, err := t.log.Leases()
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
