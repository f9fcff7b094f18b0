package natslog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// record is one message on its way into the store.
type record struct {
	subject, id string // id: recognizes a repeated attempt; "" for a value that is only remembered
	data        []byte
	ttl         time.Duration // 0: stored until retention removes it
	lease       *Lease        // under which it is stored; nil: none is needed
	seq         uint64        // set once it is stored

	// The rest is for records of events.
	item  *item   // the item that is finished once this record is stored; nil if more of its records follow
	lists []value // the lists that are known after the event
	whole bool    // data is the whole event
	after []*item // the items without an event that directly follow in the queue
}

// Error codes of the server that its client gives no names.
const (
	codeBatchTooLarge         = 10199
	codeNotClustered          = 10074 // replicas > 1 not supported in non-clustered mode
	codeNoPeers               = 10005 // no suitable peers for placement
	codeWrongSequence         = 10071 // the expected last sequence is wrong
	codeWrongSequenceConstant = 10164 // likewise, in a batch or on several nodes
)

// wrongRevision reports whether the store refused a message because another one was stored before:
// another write of the key, or the fence of another holder of the lease.
func wrongRevision(err error) bool {
	e, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (e.ErrorCode == codeWrongSequence || e.ErrorCode == codeWrongSequenceConstant)
}

// errNoAnswer: there was no response, so it is unknown whether the record is stored.
var errNoAnswer = errors.New("the store does not respond")

// maxBatch bounds the records that are stored in one step. Servers accept as many unless configured
// otherwise.
const maxBatch = 1000

// publisher writes records to one stream. One goroutine uses it.
type publisher struct {
	store *store
	sub   *nats.Subscription
	// acks is sent to by the connection and never closed. Its capacity is larger than the number of
	// responses to an attempt, so that the connection drops none.
	acks    chan *nats.Msg
	inbox   string
	round   uint64        // part of the reply inbox; recognizes late responses to earlier attempts
	largest int           // the most records that the store accepts as one batch
	wait    time.Duration // for a response
}

// newPublisher returns a publisher that waits that long for each response.
func newPublisher(s *store, wait time.Duration) (*publisher, error) {
	p := &publisher{store: s, inbox: s.nc.NewRespInbox(), acks: make(chan *nats.Msg, 64), largest: maxBatch, wait: wait}
	var err error
	if p.sub, err = s.nc.ChanSubscribe(p.inbox+".*", p.acks); err != nil {
		return nil, fmt.Errorf("event log: %w", err)
	}
	return p, nil
}

func (p *publisher) close() { _ = p.sub.Unsubscribe() }

// publish stores the first records, in order and in one step, and returns how many. After an error
// it is unknown whether they are stored.
func (p *publisher) publish(ctx context.Context, records []*record) (int, error) {
	records = records[:min(len(records), p.largest)]
	p.round++
	reply := p.inbox + "." + strconv.FormatUint(p.round, 36)
	id := strings.ReplaceAll(reply[len(p.inbox)-16:], ".", "_")
	for i, r := range records {
		m := p.message(r)
		if len(records) > 1 { // one record needs no batch
			m.Header["Nats-Batch-Id"] = []string{id}
			m.Header["Nats-Batch-Sequence"] = []string{strconv.Itoa(i + 1)}
		}
		if i == len(records)-1 {
			m.Reply = reply
			if i > 0 {
				m.Header["Nats-Batch-Commit"] = []string{"1"}
			}
		}
		if err := p.store.nc.PublishMsg(m); err != nil {
			return 0, err
		}
	}
	last, err := p.answer(ctx, reply)
	if e, ok := errors.AsType[*jetstream.APIError](err); ok && e.ErrorCode == codeBatchTooLarge && p.largest > 1 {
		p.largest /= 2
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for i, r := range records {
		r.seq = last - uint64(len(records)-1-i)
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

// answer waits for the next response to the attempt and returns the sequence.
func (p *publisher) answer(ctx context.Context, reply string) (uint64, error) {
	timeout := time.NewTimer(p.wait)
	defer timeout.Stop()
	for {
		select {
		case m := <-p.acks:
			if m.Subject != reply {
				continue
			}
			if status := m.Header.Get("Status"); status != "" {
				return 0, fmt.Errorf("%w (status %s)", errNoAnswer, status)
			}
			var ack struct {
				Error *jetstream.APIError `json:"error"`
				Seq   uint64              `json:"seq"`
			}
			if err := json.Unmarshal(m.Data, &ack); err != nil {
				return 0, fmt.Errorf("malformed response of the store: %w", err)
			}
			if ack.Error != nil {
				return 0, ack.Error
			}
			return ack.Seq, nil
		case <-timeout.C:
			return 0, errNoAnswer
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}
