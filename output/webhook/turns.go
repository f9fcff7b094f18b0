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

// recordsName names the records of this package.
const recordsName = "webhooks"

// storedVersion is the version of everything that this package stores.
const storedVersion = 1

// Keys of pages.
const (
	pageOfConfig        = "config"
	pageOfSubscriptions = "subscriptions"
)

// errTaken is the error of saving a page that another process has loaded since.
var errTaken = errors.New("another process delivers the webhooks now")

// expected reports whether an error of saving a page loses nothing: another process delivers, or the
// log was in memory and has ended, which it does with the tracker.
func expected(err error) bool { return errors.Is(err, errTaken) || errors.Is(err, journal.ErrClosed) }

// page is a record that says how far deliveries are. Only the process that loaded it last can
// save it, so a process that has lost its lease without knowing it moves no watermark.
type page struct {
	records journal.Records
	key     string

	// busy is a semaphore of capacity 1, never closed: whoever has sent loads or saves, and
	// receives when done, so that what is saved later is newer. It guards all below.
	busy     chan struct{}
	holder   string
	revision uint64
}

func newPage(records journal.Records, key string) *page {
	return &page{records: records, key: key, busy: make(chan struct{}, 1)}
}

// stored is the content of a page.
type stored struct {
	Version int    `json:"version"`
	Holder  string `json:"holder,omitempty"` // who loaded it
	// Webhooks are the webhooks of the config.
	Webhooks []mark `json:"webhooks,omitempty"`
	// Advances belong to subscriptions.
	Advances []advance `json:"advances,omitempty"`
}

const (
	// pageWait bounds the time to save a page.
	pageWait = 10 * time.Second
	// maxPage bounds the size of a page in bytes: a message of NATS has at most 1 MiB.
	maxPage = 1<<20 - 16<<10
)

// encode returns the stored form. What does not fit is left out as long as no event is lost by
// that: which states were sent last, so that some are sent again after a restart.
func (s stored) encode() ([]byte, error) {
	data, err := json.Marshal(s)
	if err == nil && len(data) > maxPage {
		for i := range s.Webhooks {
			s.Webhooks[i].Sent = nil
		}
		data, err = json.Marshal(s)
	}
	if err == nil && len(data) > maxPage {
		err = fmt.Errorf("too many webhooks: their delivery positions take %d bytes, and at most %d can be stored", len(data), maxPage)
	}
	return data, err
}

// read returns the stored content, which may be slightly outdated.
func (p *page) read(ctx context.Context) (s stored, revision uint64, err error) {
	rec, err := p.records.Get(ctx, p.key)
	if err != nil || rec.Value == nil {
		return s, rec.Revision, err
	}
	s, err = parsePage(rec)
	return s, rec.Revision, err
}

func parsePage(rec journal.Record) (s stored, err error) {
	if json.Unmarshal(rec.Value, &s) != nil || s.Version != storedVersion {
		return stored{}, fmt.Errorf("the delivery positions of webhooks in the event log are damaged or of a newer version; to start with none, delete that record: "+
			"in a file with the SQL DELETE FROM records WHERE name = '%[1]s' AND key = '%[2]s', or on a NATS cluster the key %[2]s in the key-value bucket whose name ends in _%[1]s", recordsName, rec.Key)
	}
	return s, nil
}

// load returns the stored content, and makes this page the only one that can save it. revision is
// the number of the write that did so.
func (p *page) load(ctx context.Context) (s stored, revision uint64, err error) {
	p.busy <- struct{}{}
	defer func() { <-p.busy }()
	holder := rand.Text()
	retry := backoff.New(10*time.Millisecond, time.Second)
	for {
		s, revision, err := p.read(ctx)
		if err != nil {
			return stored{}, 0, err
		}
		s.Version, s.Holder = storedVersion, holder
		data, err := s.encode()
		if err != nil {
			return stored{}, 0, err
		}
		if revision, err = p.records.Put(ctx, journal.Record{Key: p.key, Value: data, Revision: revision}); err == nil {
			p.holder, p.revision = holder, revision
			return s, revision, nil
		}
		if !errors.Is(err, journal.ErrChanged) || !backoff.Sleep(ctx, retry.Next()) {
			return stored{}, 0, err
		}
	}
}

// save replaces the stored content by the result of snapshot, which is called once earlier saves
// have ended.
func (p *page) save(ctx context.Context, snapshot func() stored) error {
	p.busy <- struct{}{}
	defer func() { <-p.busy }()
	ctx, cancel := context.WithTimeout(ctx, pageWait)
	defer cancel()
	s := snapshot()
	s.Version, s.Holder = storedVersion, p.holder
	data, err := s.encode()
	if err != nil {
		return err
	}
	retry := backoff.New(10*time.Millisecond, time.Second)
	for {
		revision, err := p.records.Put(ctx, journal.Record{Key: p.key, Value: data, Revision: p.revision})
		if err == nil {
			p.revision = revision
			return nil
		}
		if !errors.Is(err, journal.ErrChanged) {
			return err
		}
		// Another process has loaded it, or the answer to a save of ours was lost.
		now, revision, err := p.read(ctx)
		switch {
		case err != nil:
			return err
		case now.Holder != p.holder:
			return errTaken
		}
		if p.revision = revision; !backoff.Sleep(ctx, retry.Next()) { // a node that is behind may have answered
			return context.Cause(ctx)
		}
	}
}
