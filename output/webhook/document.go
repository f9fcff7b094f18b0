package webhook

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/journal"
)

// document is a value that is stored as a whole: a file of this process, or a page shared by
// the processes on a cluster.
type document interface {
	// load returns the stored value, the zero value if there is none.
	load(ctx context.Context) (stored, error)
	// save replaces the stored value by the result of snapshot, which is called only when this
	// save may write.
	save(ctx context.Context, snapshot func() stored) error
}

// recordsName names the records of this package on a cluster.
const recordsName = "webhooks"

// Keys of pages.
const (
	pageOfConfig        = "config"
	pageOfSubscriptions = "subscriptions"
)

// errTaken is the error of saving a page that another process has loaded since.
var errTaken = errors.New("another process delivers the webhooks now")

// page is a document on a cluster. Only the process that loaded it last can save it, so a
// process that has lost its lease without knowing it moves no watermark.
type page struct {
	records *journal.Records
	key     string
	what    string // name in messages

	mu       sync.Mutex // held while loading and saving: what is saved later is newer
	holder   string
	revision uint64
}

// pageWait bounds the time to save a page.
const pageWait = 10 * time.Second

// read returns the stored value, which may be slightly outdated.
func (p *page) read(ctx context.Context) (s stored, revision uint64, err error) {
	rec, err := p.records.Get(ctx, p.key)
	if err != nil || rec.Value == nil {
		return s, rec.Revision, err
	}
	s, err = p.parse(rec.Value)
	return s, rec.Revision, err
}

func (p *page) parse(data []byte) (s stored, err error) {
	if json.Unmarshal(data, &s) != nil || s.Version != fileVersion {
		return s, fmt.Errorf("the %s on the NATS cluster are damaged or of a newer version; to start with none, delete the key %s in the key-value bucket whose name ends in _%s", p.what, p.key, recordsName)
	}
	return s, nil
}

func (p *page) load(ctx context.Context) (stored, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	holder := rand.Text()
	retry := backoff.New(10*time.Millisecond, time.Second)
	for {
		s, revision, err := p.read(ctx)
		if err != nil {
			return stored{}, err
		}
		s.Version, s.Holder = fileVersion, holder
		data, err := json.Marshal(s)
		if err != nil {
			return stored{}, err
		}
		if revision, err = p.records.Put(ctx, journal.Record{Key: p.key, Value: data, Revision: revision}); err == nil {
			p.holder, p.revision = holder, revision
			return s, nil
		}
		if !errors.Is(err, journal.ErrChanged) || !backoff.Sleep(ctx, retry.Next()) {
			return stored{}, err
		}
	}
}

func (p *page) save(ctx context.Context, snapshot func() stored) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, pageWait)
	defer cancel()
	s := snapshot()
	s.Version, s.Holder = fileVersion, p.holder
	data, err := json.Marshal(s)
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
