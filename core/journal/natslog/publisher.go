package natslog

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/internal/storing"
)

// record is a message that is to be stored in a stream.
type record struct {
	subject, id string // id identifies repeated attempts; empty unless it is an event
	data        []byte
	ttl         time.Duration // time to live; 0 means until retention removes it
	lease       *Lease        // lease that must be held to store it; nil if none
	seq         uint64        // sequence number; set once stored

	// The fields below are set only in records of events.
	item  *item   // item whose event the record ends; nil if more records of the item follow
	lists []value // lists that the event reports
	after []*item // items without an event that directly follow in the queue
}

// Error codes of the NATS server for which the client library defines no constants.
const (
	codeBatchTooLarge         = 10199
	codeNotClustered          = 10074 // replicas > 1 not supported in non-clustered mode
	codeNoPeers               = 10005 // no suitable peers for placement
	codeWrongSequence         = 10071 // the expected last sequence is wrong
	codeWrongSequenceConstant = 10164 // the same error, in a batch or on several nodes
)

// wrongRevision reports whether the store rejected a message because of a conflicting message:
// another write to the same key, or the fence of another holder of the lease.
func wrongRevision(err error) bool {
	e, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (e.ErrorCode == codeWrongSequence || e.ErrorCode == codeWrongSequenceConstant)
}

// errNoAnswer means that no response arrived, so it is unknown whether the record was stored.
var errNoAnswer = errors.New("the store does not respond")

// maxBatch limits how many records are stored in one step. It equals the default limit of NATS
// servers; if a server has a lower limit, the publisher uses smaller batches.
const maxBatch = 1000

// publisher writes records to one stream. It must be used by one goroutine only.
type publisher struct {
	store   *store
	largest int           // number of records that the store accepts in one batch
	wait    time.Duration // how long to wait for a response
}

// newPublisher returns a publisher that waits at most the given time for each response.
func newPublisher(s *store, wait time.Duration) *publisher {
	return &publisher{store: s, largest: maxBatch, wait: wait}
}

// publish stores the first records, in order and in one step, and returns how many it stored. If it
// returns an error, it is unknown whether they are stored.
func (p *publisher) publish(ctx context.Context, records []*record) (int, error) {
	records = records[:min(len(records), p.largest)]
	ctx, cancel := context.WithTimeoutCause(ctx, p.wait, errNoAnswer)
	defer cancel()
	id := journal.NewEpoch()
	var ack *jetstream.PubAck
	var err error
	for i, r := range records {
		m := p.message(r)
		if len(records) > 1 { // a single record needs no batch
			m.Header["Nats-Batch-Id"] = []string{id}
			m.Header["Nats-Batch-Sequence"] = []string{strconv.Itoa(i + 1)}
		}
		if i < len(records)-1 {
			err = p.store.nc.PublishMsg(m)
		} else {
			if i > 0 {
				m.Header["Nats-Batch-Commit"] = []string{"1"}
			}
			ack, err = p.store.js.PublishMsg(ctx, m, jetstream.WithRetryAttempts(0))
		}
		if err != nil {
			break
		}
	}
	if e, ok := errors.AsType[*jetstream.APIError](err); ok && e.ErrorCode == codeBatchTooLarge && p.largest > 1 {
		p.largest /= 2
		return 0, nil
	}
	if err != nil {
		return 0, storing.Cause(ctx, err)
	}
	for i, r := range records {
		r.seq = ack.Sequence - uint64(len(records)-1-i)
	}
	return len(records), nil
}

func (p *publisher) message(r *record) *nats.Msg {
	m := &nats.Msg{Subject: r.subject, Data: r.data, Header: nats.Header{}}
	if r.id != "" {
		m.Header["Nats-Msg-Id"] = []string{r.id}
	}
	if r.lease != nil {
		m.Header["Nats-Expected-Last-Subject-Sequence"] = []string{strconv.FormatUint(r.lease.fenced().Seq, 10)}
		m.Header["Nats-Expected-Last-Subject-Sequence-Subject"] = []string{p.store.subjects.fence(r.lease.Name)}
	}
	if r.ttl > 0 {
		m.Header["Nats-TTL"] = []string{strconv.Itoa(int(r.ttl.Seconds()))}
	}
	return m
}
