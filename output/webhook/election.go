package webhook

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/natslog"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/records"
)

// leaderElection decides which process delivers: the lease holder if several processes share the
// log, otherwise always this one.
type leaderElection struct {
	log    *natslog.Log // nil if no other process uses the log
	source Source
	logger *slog.Logger
	retry  *backoff.Backoff
	failed string // last logged error
}

func newLeaderElection(log journal.Log, source Source, logger *slog.Logger) *leaderElection {
	shared, _ := log.(*natslog.Log)
	return &leaderElection{log: shared, source: source, logger: logger, retry: backoff.New(500*time.Millisecond, 5*time.Second)}
}

// shared reports whether other processes may deliver.
func (l *leaderElection) shared() bool { return l.log != nil }

func (l *leaderElection) leaseName() string { return "webhooks/" + string(l.source) }

// run waits until this process may deliver, and then calls work. If other processes may deliver,
// work's context ends when the lease is lost, and the lease is released when work returns. run logs
// repeated errors once, and waits after an error before it returns.
func (l *leaderElection) run(ctx context.Context, work func(context.Context, *natslog.Lease) error) {
	err := l.lead(ctx, work)
	if err == nil {
		l.failed = ""
		l.retry.Reset()
		return
	}
	if ctx.Err() != nil {
		return
	}
	if errors.Is(err, journal.ErrClosed) { // ctx is about to end
		<-ctx.Done()
		return
	}
	if text := err.Error(); text != l.failed {
		l.failed = text
		l.logger.Warn("this process cannot deliver webhooks; retrying", "source", string(l.source), "err", err)
	}
	backoff.Sleep(ctx, l.retry.Next())
}

func (l *leaderElection) lead(ctx context.Context, work func(context.Context, *natslog.Lease) error) error {
	if !l.shared() {
		return work(ctx, nil)
	}
	lease, err := l.log.Lease(ctx, l.leaseName(), natslog.LeaseOptions{})
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
			lost(errSuperseded)
		case <-held.Done():
		}
	})
	return work(held, lease)
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

// deliverers returns the process that holds the lease, or nothing without a cluster.
func (l *leaderElection) deliverers() []Deliverer {
	if !l.shared() {
		return nil
	}
	d := Deliverer{Source: l.source}
	leases, err := l.log.Leases()
	if err != nil {
		d.Waiting = printable.Reason(err, 300)
	}
	for _, lease := range leases {
		if lease.Name == l.leaseName() {
			d.Process, d.Own = lease.Process, lease.Own
		}
	}
	return []Deliverer{d}
}

// recordsName is the name of the records of this package on a cluster.
const recordsName = "webhooks"

// OpenRecords opens the records of a log, which [Subscriptions] and [Webhooks] share: a bucket of its
// cluster, a file beside its file, or memory. Call it once for each log.
func OpenRecords(log journal.Log) (records.Store, error) {
	switch l := log.(type) {
	case *natslog.Log:
		return l.Records(recordsName), nil
	case interface{ RecordsFile() string }:
		return records.Open(l.RecordsFile())
	}
	return records.Open("")
}

// storedVersion is the format version of all data that this package stores.
const storedVersion = 1

// Record keys of the checkpoints.
const (
	configCheckpoint        = "config"
	subscriptionsCheckpoint = "subscriptions"
)

const (
	// checkpointWait limits how long saving a checkpoint may take.
	checkpointWait = 10 * time.Second
	// maxCheckpoint limits the size of a checkpoint in bytes, because a NATS message is limited to
	// 1 MiB.
	maxCheckpoint = 1<<20 - 16<<10
)

// errSuperseded reports that another process has loaded the checkpoint or acquired the lease.
var errSuperseded = errors.New("another process delivers the webhooks now")

// checkpoint is the stored record of delivery positions. Only the process that loaded it last can
// save it, so a process that has lost its lease without noticing cannot move a watermark.
type checkpoint struct {
	records records.Store
	key     string
	logger  *slog.Logger
	// dirty wakes the saving goroutine. It has capacity 1 and is never closed.
	dirty chan struct{}

	// busy is a semaphore of capacity 1, never closed. It is held during loads and saves, so that a
	// later save stores newer positions, and guards all fields below.
	busy     chan struct{}
	holder   string
	revision uint64
	failed   bool // the last save failed and the failure was logged
}

func newCheckpoint(store records.Store, key string, logger *slog.Logger) *checkpoint {
	return &checkpoint{records: store, key: key, logger: logger, dirty: make(chan struct{}, 1), busy: make(chan struct{}, 1)}
}

// positions is the decoded content of a checkpoint.
type positions struct {
	Version       int                    `json:"version"`
	Holder        string                 `json:"holder,omitempty"` // a unique ID for the last load
	Webhooks      []webhookProgress      `json:"webhooks,omitempty"`
	Subscriptions []subscriptionProgress `json:"advances,omitempty"`
}

// encode returns the stored form. To stay within the size limit it drops the last sent server
// states: some may be sent again after a restart, but no event is lost.
func (s positions) encode() ([]byte, error) {
	data, err := json.Marshal(s)
	if err == nil && len(data) > maxCheckpoint {
		for i := range s.Webhooks {
			s.Webhooks[i].Sent = nil
		}
		data, err = json.Marshal(s)
	}
	if err == nil && len(data) > maxCheckpoint {
		err = fmt.Errorf("too many webhooks: their delivery positions take %d bytes, and at most %d can be stored", len(data), maxCheckpoint)
	}
	return data, err
}

// read returns the stored positions, which may be slightly outdated.
func (c *checkpoint) read(ctx context.Context) (s positions, revision uint64, err error) {
	rec, err := c.records.Get(ctx, c.key)
	if err != nil || rec.Value == nil {
		return s, rec.Revision, err
	}
	s, err = parseCheckpoint(rec)
	return s, rec.Revision, err
}

func parseCheckpoint(rec records.Record) (s positions, err error) {
	if json.Unmarshal(rec.Value, &s) != nil || s.Version != storedVersion {
		return positions{}, fmt.Errorf("the stored delivery positions of webhooks are damaged or from a newer version; to discard them, remove the record %[2]s: "+
			"from deliveries.json in the data directory while mcptrack is not running, or on a NATS cluster from the key-value bucket whose name ends in _%[1]s", recordsName, rec.Key)
	}
	return s, nil
}

// load returns the stored positions, and takes the right to save them from any other process.
// revision identifies the write that did so.
func (c *checkpoint) load(ctx context.Context) (s positions, revision uint64, err error) {
	c.busy <- struct{}{}
	defer func() { <-c.busy }()
	holder := rand.Text()
	retry := backoff.New(10*time.Millisecond, time.Second)
	for {
		s, revision, err := c.read(ctx)
		if err != nil {
			return positions{}, 0, err
		}
		s.Version, s.Holder = storedVersion, holder
		data, err := s.encode()
		if err != nil {
			return positions{}, 0, err
		}
		if revision, err = c.records.Put(ctx, records.Record{Key: c.key, Value: data, Revision: revision}); err == nil {
			c.holder, c.revision = holder, revision
			return s, revision, nil
		}
		if !errors.Is(err, records.ErrChanged) || !backoff.Sleep(ctx, retry.Next()) {
			return positions{}, 0, err
		}
	}
}

// changed requests that the positions be saved.
func (c *checkpoint) changed() {
	select {
	case c.dirty <- struct{}{}:
	default:
	}
}

// save stores the positions that snapshot returns, even if ctx has ended. It calls snapshot only
// after earlier saves have finished. If saving fails, it logs the first error and requests another
// save.
func (c *checkpoint) save(ctx context.Context, snapshot func() positions) error {
	c.busy <- struct{}{}
	defer func() { <-c.busy }()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkpointWait)
	defer cancel()
	err := c.put(ctx, snapshot())
	// These errors lose nothing: another process delivers, or the log was in memory and has ended.
	if err != nil && !c.failed && !errors.Is(err, errSuperseded) && !errors.Is(err, journal.ErrClosed) {
		c.logger.Error("cannot store which events webhooks have received; some may be delivered again after a restart", "err", err)
	}
	if c.failed = err != nil; c.failed {
		c.changed()
	}
	return err
}

func (c *checkpoint) put(ctx context.Context, s positions) error {
	s.Version, s.Holder = storedVersion, c.holder
	data, err := s.encode()
	if err != nil {
		return err
	}
	retry := backoff.New(10*time.Millisecond, time.Second)
	for {
		revision, err := c.records.Put(ctx, records.Record{Key: c.key, Value: data, Revision: c.revision})
		if err == nil {
			c.revision = revision
			return nil
		}
		if !errors.Is(err, records.ErrChanged) {
			return err
		}
		// Either another process has loaded the checkpoint, or the response to an earlier save was
		// lost.
		now, revision, err := c.read(ctx)
		switch {
		case err != nil:
			return err
		case now.Holder != c.holder:
			return errSuperseded
		}
		if c.revision = revision; !backoff.Sleep(ctx, retry.Next()) { // a node with outdated data may have answered
			return context.Cause(ctx)
		}
	}
}
