package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/printable"
)

const (
	// keyOfSubscription begins the keys of the records of subscriptions.
	keyOfSubscription = "s."
	// storeWait bounds how long a request of a client is stored.
	storeWait = 15 * time.Second
	// answerWait is how long the process that delivers waits for the process that makes a
	// subscription to say that its client has the answer: that one may have died.
	answerWait = 10 * time.Second
)

// Cluster has the subscriptions on a NATS cluster. Any process makes, refreshes and removes
// them, each in a record of its own, encrypted; one delivers, and stores how far it is in a
// page. All know all, as they follow the records.
type Cluster struct {
	keys    *Keys
	records *journal.Records
	page    *page
	turns   *turns
	log     *slog.Logger
	s       *Subscriptions // set by attach, and then not changed

	mu         sync.Mutex // guards all below; acquired before that of s, if both are
	read       bool       // the records were read
	last       uint64     // the number of the last write that is known
	moved      chan struct{}
	advances   map[string]advance // by id, as stored; also of subscriptions that are not known yet
	removed    map[string]uint64  // revisions that this process removed, until that is seen
	unreadable map[string]string  // ids of records of other keys, and those
	ctx        context.Context    // of run; nil: it does not run
	answers    sync.WaitGroup     // the goroutines of answered
}

// advance is how far the deliveries of a subscription are.
type advance struct {
	ID   string `json:"id"`
	Life string `json:"life"`
	progress
}

// OpenCluster returns the subscriptions on the cluster of a log. It waits until they were
// read, and fails if they are encrypted with a key that is not among keys.
func OpenCluster(ctx context.Context, j *journal.Journal, keys *Keys, log *slog.Logger) (*Cluster, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c := &Cluster{
		keys: keys, records: journal.NewRecords(j, recordsName), turns: newTurns(j, FromSubscription, log), log: log,
		moved: make(chan struct{}), advances: map[string]advance{}, removed: map[string]uint64{}, unreadable: map[string]string{},
	}
	c.page = &page{records: c.records, key: pageOfSubscriptions, what: "delivery positions of webhooks"}
	ctx, cancel := context.WithTimeout(ctx, 2*storeWait)
	defer cancel()
	var err error
	read := false
	c.records.Follow(ctx, func(ch journal.Changes) {
		read = true
		for _, rec := range ch.Records {
			if id, ok := strings.CutPrefix(rec.Key, keyOfSubscription); ok {
				if other, ok := errors.AsType[*otherKeyError](c.try(id, rec.Value)); ok {
					err = other
				}
			}
		}
		cancel()
	})
	if !read {
		err = fmt.Errorf("read the subscriptions of webhooks on the NATS cluster: %w", context.Cause(ctx))
	}
	return c, err
}

// try returns why a record cannot be opened; nil if it can, or is none.
func (c *Cluster) try(id string, value []byte) error {
	if value == nil {
		return nil
	}
	_, err := c.keys.open(id, value)
	return err
}

func (c *Cluster) attach(s *Subscriptions) { c.s = s }

func (c *Cluster) durable() bool { return true }

// wait waits until something is written after last, and reports whether ctx goes on.
func (c *Cluster) wait(ctx context.Context, last uint64) bool {
	c.mu.Lock()
	if c.last > last {
		c.mu.Unlock()
		return ctx.Err() == nil
	}
	moved := c.moved
	c.mu.Unlock()
	timer := time.NewTimer(time.Second) // a write may have failed for another reason
	defer timer.Stop()
	select {
	case <-moved:
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

func (c *Cluster) seen() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

func (c *Cluster) snapshotLocked() stored {
	var out []advance
	for _, sub := range c.s.byID {
		out = append(out, advance{sub.ID, sub.Life, sub.progress})
	}
	slices.SortFunc(out, func(a, b advance) int { return cmp.Compare(a.ID, b.ID) })
	return stored{Advances: out}
}

// delivery returns who delivers, and why this process would not.
func (c *Cluster) delivery() Delivery {
	d := c.turns.delivery()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range c.unreadable {
		d.Waiting = printable.Line((&otherKeyError{key}).Error(), 300)
	}
	return d
}

// run follows the records, and delivers while this process has the lease.
func (c *Cluster) run(ctx context.Context) error {
	var following sync.WaitGroup
	following.Go(func() { c.records.Follow(ctx, c.changed) })
	c.mu.Lock()
	c.ctx = ctx
	c.mu.Unlock()
	for ctx.Err() == nil {
		if c.mayDeliver() {
			c.turns.once(ctx, c.deliver)
		} else {
			backoff.Sleep(ctx, time.Second)
		}
	}
	c.mu.Lock()
	c.ctx = nil
	c.mu.Unlock()
	c.answers.Wait()
	following.Wait()
	return nil
}

// mayDeliver reports whether this process knows all subscriptions. If it does not, it
// leaves them to others.
func (c *Cluster) mayDeliver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read && len(c.unreadable) == 0
}

// deliver takes over from the process that delivered before.
func (c *Cluster) deliver(ctx context.Context, lease *journal.Lease) error {
	kept, err := c.page.load(ctx)
	if err != nil {
		return err
	}
	// What was subscribed before is to be known, as its watermark would be forgotten.
	for loaded := c.page.loaded(); c.seen() < loaded; {
		if !c.wait(ctx, loaded-1) {
			return context.Cause(ctx)
		}
	}
	if !c.mayDeliver() { // since the wait for the lease: saving would forget the watermarks of what cannot be read
		return nil
	}
	c.mu.Lock()
	c.advanceLocked(kept.Advances)
	c.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() { // give it up when a record of another key appears
		for c.mayDeliver() {
			if !c.wait(ctx, c.seen()) {
				return
			}
		}
		cancel()
	})
	_ = c.s.deliverAll(ctx, lease)                                          // it was logged, and the next one goes on from what was stored
	if now, _, err := c.page.read(context.WithoutCancel(ctx)); err == nil { // it was not followed meanwhile
		c.mu.Lock()
		defer c.mu.Unlock()
		c.advanceLocked(now.Advances)
	}
	return nil
}
