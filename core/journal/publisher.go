package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// record is one message on its way into the store.
type record struct {
	subject, id string // id: recognises a repeated attempt; "" for states
	data        []byte
	ttl         time.Duration // 0: stored until retention removes it
	item        *item         // the item that is stored once this record is; nil if more of its records follow
	states      []*item       // states that were queued directly after the item
	lease       *Lease        // the lease it is stored under; nil: none is needed
	fence       string        // the subject of the lease's fence; "" without a lease
	seq         uint64        // set once it is stored
}

// storeError is an error response of the store.
type storeError struct {
	Code        int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *storeError) Error() string { return fmt.Sprintf("%s (%d)", e.Description, e.Code) }

const codeBatchTooLarge = 10199

// errNoAnswer: there was no response, so it is unknown whether the store stored it.
var errNoAnswer = errors.New("the store does not respond")

// publisher writes records to one stream. One goroutine uses it.
type publisher struct {
	nc    *nats.Conn
	sub   *nats.Subscription
	acks  chan *nats.Msg // sent to by the connection, never closed
	inbox string
	round uint64 // part of the reply inbox, to recognise late responses to earlier attempts
	fault <-chan struct{}

	// batchFrom is the least number of records for which a batch is used: it is stored as a
	// whole with one sync, but costs several. Fewer records are sent one by one.
	batchFrom int
	// largest is the most records that the store accepts as one batch.
	largest int
	wait    time.Duration // for a response
}

// newPublisher makes a publisher for the store. Its fault and wait may be changed
// before it is used.
func newPublisher(s *store) (*publisher, error) {
	p := &publisher{nc: s.nc, inbox: s.nc.NewRespInbox(), acks: make(chan *nats.Msg, maxBatch), batchFrom: 2, largest: 1000, wait: callTimeout / 2}
	if s.embedded != nil {
		// Measured: a batch costs as much as 60 single syncs; without syncs, nothing
		// is gained. On a cluster only a batch keeps the order when a node dies.
		p.batchFrom, p.largest = 64, maxBatch
		if s.opts.Durability != Always {
			p.batchFrom = maxBatch + 1
		}
	}
	var err error
	if p.sub, err = s.nc.ChanSubscribe(p.inbox+".*", p.acks); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	return p, nil
}

func (p *publisher) close() { _ = p.sub.Unsubscribe() }

// publish stores the records in their order and returns how many of the first are stored for
// certain. If err is not nil, the others may or may not be stored.
func (p *publisher) publish(ctx context.Context, records []*record) (int, error) {
	if len(records) >= p.batchFrom {
		records = records[:min(len(records), p.largest)]
		err := p.batch(ctx, records)
		if e, ok := errors.AsType[*storeError](err); ok && e.Code == codeBatchTooLarge && p.largest > 1 {
			p.largest /= 2
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		return len(records), nil
	}
	return p.singles(ctx, records[:min(len(records), cap(p.acks))])
}

func (p *publisher) message(r *record, reply string) *nats.Msg {
	m := &nats.Msg{Subject: r.subject, Reply: reply, Data: r.data, Header: nats.Header{}}
	if r.id != "" {
		m.Header["Nats-Msg-Id"] = []string{r.id}
	}
	if r.fence != "" {
		m.Header["Nats-Expected-Last-Subject-Sequence"] = []string{strconv.FormatUint(r.lease.fence.Load(), 10)}
		m.Header["Nats-Expected-Last-Subject-Sequence-Subject"] = []string{r.fence}
	}
	if r.ttl > 0 {
		m.Header["Nats-TTL"] = []string{strconv.Itoa(int(r.ttl.Seconds()))}
	}
	return m
}

// singles sends the records one after the other and then waits for the answers.
func (p *publisher) singles(ctx context.Context, records []*record) (int, error) {
	p.round++
	reply := p.inbox + "." + strconv.FormatUint(p.round, 36)
	for i, r := range records {
		if err := p.nc.PublishMsg(p.message(r, reply)); err != nil {
			return p.collect(ctx, reply, records[:i], err)
		}
	}
	return p.collect(ctx, reply, records, nil)
}

// collect waits for one answer to each record; the store answers in order.
func (p *publisher) collect(ctx context.Context, reply string, records []*record, err error) (int, error) {
	for i, r := range records {
		seq, failed := p.answer(ctx, reply)
		if failed != nil {
			return i, failed
		}
		r.seq = seq
	}
	return len(records), err
}

// batch stores all records or none, with one sync.
func (p *publisher) batch(ctx context.Context, records []*record) error {
	p.round++
	reply := p.inbox + "." + strconv.FormatUint(p.round, 36)
	id := strings.ReplaceAll(reply[len(p.inbox)-16:], ".", "_")
	for i, r := range records {
		m := p.message(r, "")
		m.Header["Nats-Batch-Id"] = []string{id}
		m.Header["Nats-Batch-Sequence"] = []string{strconv.Itoa(i + 1)}
		if i == len(records)-1 {
			m.Header["Nats-Batch-Commit"] = []string{"1"}
			m.Reply = reply
		}
		if err := p.nc.PublishMsg(m); err != nil {
			return err
		}
	}
	last, err := p.answer(ctx, reply)
	if err != nil {
		return err
	}
	for i, r := range records {
		r.seq = last - uint64(len(records)-1-i)
	}
	return nil
}

// answer waits for the next answer to the attempt and returns the sequence.
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
				Error *storeError `json:"error"`
				Seq   uint64      `json:"seq"`
			}
			if err := json.Unmarshal(m.Data, &ack); err != nil {
				return 0, fmt.Errorf("malformed response of the store: %w", err)
			}
			if ack.Error != nil {
				return 0, ack.Error
			}
			return ack.Seq, nil
		case <-p.fault:
			return 0, errFault
		case <-timeout.C:
			return 0, errNoAnswer
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// errFault: the server in this process reported that its store cannot be written.
var errFault = errors.New("the store cannot be written to: the disk is full or failing")
