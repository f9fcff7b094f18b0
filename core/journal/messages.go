package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// message is a stored message.
type message struct {
	seq     uint64
	pending uint64 // how many are known to follow
	stored  time.Time
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
	inbox := j.nc.NewRespInbox()
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

// messages is a stream of stored messages that goes on by itself after a lost
// connection.
type messages struct {
	j        *Journal
	stream   string
	consumer jetstream.Consumer
	it       jetstream.MessagesContext
	stop     func() bool
}

func (j *Journal) open(ctx context.Context, from uint64) (*messages, error) {
	return j.consume(ctx, j.opts.Stream, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from,
	})
}

func (j *Journal) consume(ctx context.Context, stream string, cfg jetstream.OrderedConsumerConfig) (*messages, error) {
	cfg.InactiveThreshold = time.Minute
	cfg.MaxResetAttempts = -1
	cfg.ReplayPolicy = jetstream.ReplayInstantPolicy
	start, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c, err := j.js.OrderedConsumer(start, stream, cfg)
	if err != nil {
		return nil, fmt.Errorf("journal: read the log: %w", err)
	}
	it, err := c.Messages(jetstream.PullMaxMessages(prefetch), jetstream.PullExpiry(30*time.Second), jetstream.PullHeartbeat(5*time.Second))
	if err != nil {
		return nil, fmt.Errorf("journal: read the log: %w", err)
	}
	return &messages{j, stream, c, it, context.AfterFunc(ctx, it.Stop)}, nil
}

// next waits for a message, at most a second.
func (m *messages) next(ctx context.Context) (message, error) {
	msg, err := m.it.Next(jetstream.NextMaxWait(time.Second))
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return message{}, err
	}
	meta, err := msg.Metadata()
	if err != nil {
		return message{}, err
	}
	return message{meta.Sequence.Stream, meta.NumPending, meta.Timestamp, msg.Headers().Get("Nats-Msg-Id"), msg.Data()}, nil
}

// close ends the stream and takes the consumer out of the store, which would
// keep it for a minute.
func (m *messages) close() {
	m.stop()
	m.it.Stop()
	info := m.consumer.CachedInfo()
	if info == nil || !m.j.nc.IsConnected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = m.j.js.DeleteConsumer(ctx, m.stream, info.Name) // else it runs out
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
		m, err := msgs.next(ctx)
		if errors.Is(err, nats.ErrTimeout) && j.embedded != nil {
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
