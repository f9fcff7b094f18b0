package webhook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/natslog"
	"github.com/mcptrack/mcptrack/core/mcpevents"
	"github.com/mcptrack/mcptrack/core/records"
)

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

const (
	// checkpointWait limits how long saving a checkpoint may take.
	checkpointWait = 10 * time.Second
	// maxCheckpoint limits the size of a checkpoint in bytes, because a NATS message is limited to
	// 1 MiB.
	maxCheckpoint = 1<<20 - 16<<10
)

// progress is what is stored of the deliveries to one endpoint. It contains neither the URL nor a
// secret. Its maps and slices are replaced, never modified.
type progress struct {
	ID   string `json:"id,omitempty"`   // of a subscription
	Life string `json:"life,omitempty"` // see [record.Life]
	// Digests of a webhook in a config: of its entry, of its URL, format and filters, and of its URL.
	Entry string    `json:"entry,omitempty"`
	Key   string    `json:"key,omitempty"`
	URL   string    `json:"url,omitempty"`
	was   *endpoint // that a reload has removed, if it was one

	// Cursor is the watermark: all events up to it, except Later, were accepted by the endpoint or abandoned.
	// If it is empty, the endpoint begins with the next event.
	Cursor string            `json:"cursor"`
	Later  []again           `json:"later,omitempty"`  // events to send again, at most maxLater
	Missed uint64            `json:"missed,omitempty"` // how often events were lost
	GapDue bool              `json:"gapDue,omitempty"` // a gap message must be sent next
	Status status            `json:"status,omitzero"`
	Sent   map[string]string `json:"sent,omitempty"` // see stateDebouncer
	Held   []string          `json:"held,omitempty"` // states that an earlier version had held back, and that are lost
}

// maxLater limits the events that wait to be sent again to one endpoint.
const maxLater = 100

// again is an event that is to be sent again. It is read from the log again for each attempt.
type again struct {
	ID    string    `json:"id"`
	Time  time.Time `json:"time,omitzero"`
	Tries int       `json:"tries,omitempty"` // failed attempts between which the endpoint accepted other events
	Due   time.Time `json:"due,omitzero"`    // when the next attempt may start
}

// position returns the position of the event.
func (a again) position() (p mcpevents.Position) {
	p.Epoch, p.Seq, _ = event.ParseID(a.ID)
	return p
}

// before reports whether the event is up to a position of the same log.
func (a again) before(at mcpevents.Position) bool {
	p := a.position()
	return p.Epoch == at.Epoch && p.Seq <= at.Seq
}

// checkpoint is the stored record of the delivery positions of one source.
type checkpoint struct {
	Version       int        `json:"version"`
	Webhooks      []progress `json:"webhooks,omitempty"`
	Subscriptions []progress `json:"advances,omitempty"`
}

// checkpointKey returns the key of the record that contains the checkpoint of a source.
func checkpointKey(source Source) string {
	if source == FromConfig {
		return "config"
	}
	return "subscriptions"
}

// encodeCheckpoint returns the stored form. To stay within the size limit it drops the last sent
// server states: some may be sent again after a restart, but no event is lost.
func encodeCheckpoint(source Source, all []progress) ([]byte, error) {
	sort.SliceStable(all, func(i, j int) bool {
		return cmp.Or(cmp.Compare(all[i].ID, all[j].ID), cmp.Compare(all[i].Key, all[j].Key)) < 0
	})
	c := checkpoint{Version: storedVersion}
	if source == FromConfig {
		c.Webhooks = all
	} else {
		c.Subscriptions = all
	}
	data, err := json.Marshal(c)
	if err == nil && len(data) > maxCheckpoint {
		for i := range all {
			all[i].Sent = nil
		}
		data, err = json.Marshal(c)
	}
	if err == nil && len(data) > maxCheckpoint {
		err = fmt.Errorf("too many webhooks: their delivery positions take %d bytes, and at most %d can be stored", len(data), maxCheckpoint)
	}
	return data, err
}

// parseCheckpoint returns the positions in a checkpoint, which need not exist.
func parseCheckpoint(rec records.Record) ([]progress, error) {
	if rec.Value == nil {
		return nil, nil
	}
	var c checkpoint
	if json.Unmarshal(rec.Value, &c) != nil || c.Version != storedVersion {
		return nil, fmt.Errorf("the stored delivery positions of webhooks are damaged or from a newer version; to discard them, remove the record %[2]s: "+
			"from deliveries.json in the data directory while mcptrack is not running, or on a NATS cluster from the key-value bucket whose name ends in _%[1]s", recordsName, rec.Key)
	}
	return append(c.Webhooks, c.Subscriptions...), nil
}

// save stores all delivery positions, if they have changed, even if ctx has ended. It logs the first of
// several errors. The error is errSuperseded if another process has saved since this one began to deliver.
func (d *deliverer) save(ctx context.Context) error {
	d.saving <- struct{}{}
	defer func() { <-d.saving }()
	d.mu.Lock()
	changed, all := d.changed, slices.Clone(d.kept)
	d.changed = false
	for _, e := range d.endpoints {
		all = append(all, e.progress)
	}
	d.mu.Unlock()
	if !changed {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkpointWait)
	defer cancel()
	data, err := encodeCheckpoint(d.source, all)
	if err == nil {
		var revision uint64
		if revision, err = d.records.Put(ctx, records.Record{Key: checkpointKey(d.source), Value: data, Revision: d.revision}); err == nil {
			d.revision = revision
		}
	}
	if errors.Is(err, records.ErrChanged) {
		err = errSuperseded
	}
	// Two errors lose nothing: another process delivers, or the log was in memory and has ended.
	if err != nil && !d.saveFailed && err != errSuperseded && !errors.Is(err, journal.ErrClosed) {
		d.logger.Error("cannot store which events webhooks have received; some may be delivered again after a restart", "err", err)
	}
	d.saveFailed = err != nil
	if err != nil {
		d.locked(func() { d.changed = true })
	}
	return err
}
