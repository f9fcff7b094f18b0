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
	"github.com/nats-io/nats.go/jetstream"
)

// message is a stored message.
type message struct {
	seq     uint64
	pending uint64 // how many are known to follow
	stored  time.Time
	subject string // where it was stored; only of consumers
	id      string // under which it was stored
	data    []byte
}

// direct is up to how many messages one question is asked for.
const direct = 512

// get asks the store for the messages of a range. It returns the first of them,
// possibly none.
func (j *Journal) get(ctx context.Context, from, to uint64) ([]message, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	want := to - from + 1
	ask, err := json.Marshal(struct {
		Seq   uint64 `json:"seq"`
		Batch uint64 `json:"batch"`
	}{from, want})
	if err != nil {
		return nil, err
	}
	inbox := j.nc.NewInbox()
	sub, err := j.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("journal: read the log: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := j.nc.PublishRequest("$JS.API.DIRECT.GET."+j.opts.Stream, inbox, ask); err != nil {
		return nil, fmt.Errorf("journal: read the log: %w", err)
	}
	out := make([]message, 0, want)
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return nil, fmt.Errorf("journal: read the log: %w", err)
		}
		if m.Header.Get("Status") != "" { // the end, or nothing there
			return out, nil
		}
		seq, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
		if err != nil {
			return nil, errors.New("journal: read the log: a message without a number")
		}
		stored, err := time.Parse(time.RFC3339Nano, m.Header.Get("Nats-Time-Stamp"))
		if err != nil {
			return nil, errors.New("journal: read the log: a message without a time")
		}
		out = append(out, message{seq: seq, stored: stored, id: m.Header.Get("Nats-Msg-Id"), data: m.Data})
	}
}

// messages is what one consumer of the store delivers: everything from some
// place on, in order. When the node or the connection that it lives on is gone,
// it is silent or fails, and another has to be opened.
//
// It pulls by itself. The client's "ordered" consumer does the like, but makes two
// timers for every message, notices that a node is gone only in a call that waits
// longer than two heartbeats, and cannot be interrupted while it looks for another.
type messages struct {
	j        *Journal
	stream   string
	consumer string
	sub      *nats.Subscription
	// in is sent to by the connection and never closed. Its capacity is above what
	// is ever asked for, so that the connection does not drop any.
	in      chan *nats.Msg
	timer   *time.Timer
	quiet   time.Duration // when next says that nothing comes
	asked   int           // and not yet delivered
	pending uint64        // how many there were when it was opened
	last    uint64        // deliveries so far
}

func (j *Journal) open(ctx context.Context, from uint64) (*messages, error) {
	return j.consume(ctx, j.opts.Stream, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from,
	})
}

// consume opens a consumer.
func (j *Journal) consume(ctx context.Context, stream string, cfg jetstream.ConsumerConfig) (*messages, error) {
	cfg.AckPolicy = jetstream.AckNonePolicy
	cfg.MemoryStorage = true
	cfg.Replicas = 1
	cfg.InactiveThreshold = time.Minute
	cfg.ReplayPolicy = jetstream.ReplayInstantPolicy
	start, cancel := context.WithTimeout(ctx, callTimeout/4)
	defer cancel()
	c, err := j.js.CreateConsumer(start, stream, cfg)
	if err != nil {
		return nil, fmt.Errorf("journal: read the log: %w", err)
	}
	info := c.CachedInfo()
	m := &messages{j: j, stream: stream, consumer: info.Name, pending: info.NumPending,
		in: make(chan *nats.Msg, 2*prefetch), timer: time.NewTimer(quietAfter), quiet: quietAfter}
	// Not an inbox of the connection's own: it would get every delivery as well, and
	// take one for the answer to whatever is asked meanwhile.
	if m.sub, err = j.nc.ChanSubscribe(j.nc.NewInbox(), m.in); err != nil {
		return nil, fmt.Errorf("journal: read the log: %w", err)
	}
	return m, nil
}

// quietAfter is when next says that nothing comes, as a rule.
const quietAfter = 500 * time.Millisecond

var (
	errQuiet = errors.New("no message came")
	// errMissed: the connection lost something. Another consumer delivers it again.
	errMissed = errors.New("the store's consumer missed a message")
)

// next waits for a message, for a while: errQuiet.
func (m *messages) next(ctx context.Context) (message, error) {
	for {
		if m.asked <= prefetch/2 {
			if err := m.ask(m.sub.Subject, prefetch-m.asked); err != nil {
				return message{}, err
			}
			m.asked = prefetch
		}
		raw, err := m.receive(ctx)
		if err != nil {
			return message{}, err
		}
		if raw.Reply == "" { // a status: of what was asked, no more will come
			if status := raw.Header.Get("Status"); status != "404" && status != "408" {
				return message{}, fmt.Errorf("%w (status %s)", errNoAnswer, status)
			}
			m.asked = 0
			continue
		}
		m.asked--
		got, delivered, ok := parseReply(raw.Reply)
		if !ok || delivered != m.last+1 {
			return message{}, errMissed
		}
		m.last++
		if ids := raw.Header["Nats-Msg-Id"]; len(ids) > 0 {
			got.id = ids[0]
		}
		got.subject, got.data = raw.Subject, raw.Data
		return got, nil
	}
}

// ask asks the store for so many messages.
func (m *messages) ask(inbox string, n int) error {
	return m.j.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+m.stream+"."+m.consumer, inbox,
		fmt.Appendf(nil, `{"batch":%d,"expires":%d}`, n, 30*time.Second))
}

func (m *messages) receive(ctx context.Context) (*nats.Msg, error) {
	select {
	case raw := <-m.in:
		return raw, nil
	default:
	}
	m.timer.Reset(m.quiet)
	defer m.timer.Stop()
	select {
	case raw := <-m.in:
		return raw, nil
	case <-m.timer.C:
		return nil, errQuiet
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// parseReply reads what a delivery says of its message in its reply subject:
// $JS.ACK.[DOMAIN.ACCOUNT.]STREAM.CONSUMER.TRIES.SEQ.DELIVERY.NANOSECONDS.PENDING[.RANDOM]
func parseReply(reply string) (m message, delivered uint64, ok bool) {
	const fixed = 9
	tokens := make([]string, 0, fixed+3)
	for t := range strings.SplitSeq(reply, ".") {
		tokens = append(tokens, t)
	}
	if len(tokens) > fixed {
		tokens = tokens[2:]
	}
	if len(tokens) < fixed {
		return message{}, 0, false
	}
	var n [4]uint64
	for i := range n {
		var err error
		if n[i], err = strconv.ParseUint(tokens[5+i], 10, 64); err != nil {
			return message{}, 0, false
		}
	}
	return message{seq: n[0], stored: time.Unix(0, int64(n[2])), pending: n[3]}, n[1], true
}

// close takes the consumer out of the store, which would keep it for a minute.
func (m *messages) close() {
	_ = m.sub.Unsubscribe()
	if !m.j.nc.IsConnected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = m.j.js.DeleteConsumer(ctx, m.stream, m.consumer) // else it runs out
}

// scan tells the id under which every message from seq on was stored, durable
// or not. It is the writer's.
func (j *Journal) scan(ctx context.Context, from, to uint64, found func(seq uint64, id string)) error {
	if from > to {
		return nil
	}
	msgs, err := j.open(ctx, from)
	if err != nil {
		return err
	}
	defer msgs.close()
	for {
		m, err := msgs.await(ctx)
		if errors.Is(err, errEnd) || errors.Is(err, errWithheld) && j.embedded != nil {
			return nil // what is left cannot be read
		}
		if err != nil {
			return fmt.Errorf("journal: look up what was stored: %w", err)
		}
		found(m.seq, m.id)
		if m.seq >= to {
			return nil
		}
	}
}
