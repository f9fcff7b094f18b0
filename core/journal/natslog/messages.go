package natslog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/printable"
)

// message is a stored message.
type message struct {
	seq     uint64
	pending uint64 // how many messages are known to follow
	stored  time.Time
	subject string // under which it was stored; only set by consumers
	id      string // its message id
	more    bool   // another message has already arrived
	data    []byte
}

// direct bounds the messages that one request reads.
const direct = 512

// get reads the messages of a range with one request. It returns the first of them, possibly none.
func (s *store) get(ctx context.Context, from, to uint64) ([]message, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	want := to - from + 1
	request, err := json.Marshal(struct {
		Seq   uint64 `json:"seq"`
		Batch uint64 `json:"batch"`
	}{from, want})
	if err != nil {
		return nil, err
	}
	inbox := s.nc.NewInbox()
	sub, err := s.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("event log: read the log: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := s.nc.PublishRequest("$JS.API.DIRECT.GET."+s.opts.Stream, inbox, request); err != nil {
		return nil, fmt.Errorf("event log: read the log: %w", err)
	}
	out := make([]message, 0, want)
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return nil, fmt.Errorf("event log: read the log: %w", err)
		}
		if m.Header.Get("Status") != "" { // the end of the response, or no message
			return out, nil
		}
		seq, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
		if err != nil {
			return nil, errors.New("event log: read the log: a stored message has no sequence number")
		}
		stored, err := time.Parse(time.RFC3339Nano, m.Header.Get("Nats-Time-Stamp"))
		if err != nil {
			return nil, errors.New("event log: read the log: a stored message has no time")
		}
		out = append(out, message{seq: seq, stored: stored, id: m.Header.Get("Nats-Msg-Id"), data: m.Data})
	}
}

// messages is what one consumer of the store delivers: everything from some sequence on, in order.
// When the consumer's node or connection is lost, the consumer delivers nothing or fails, and
// another one must be opened.
//
// It pulls by itself. The client's "ordered" consumer does something similar, but creates two
// timers for every message, notices a lost node only in a call that waits longer than two
// heartbeats, and cannot be interrupted while it reconnects.
type messages struct {
	store    *store
	stream   string
	consumer string
	sub      *nats.Subscription
	// in is sent to by the connection and never closed. Its capacity is larger than what is ever
	// requested, so that the connection drops nothing.
	in      chan *nats.Msg
	timer   *time.Timer
	quiet   time.Duration // how long next waits before it returns errQuiet
	asked   int           // requested and not yet delivered
	pending uint64        // messages that were stored when it was opened
	last    uint64        // number of the last delivery
	ahead   *nats.Msg     // received ahead of next; nil: none
}

func (s *store) consumeFrom(ctx context.Context, from uint64) (*messages, error) {
	return s.consume(ctx, s.opts.Stream, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from,
	})
}

// consume opens a consumer.
func (s *store) consume(ctx context.Context, stream string, cfg jetstream.ConsumerConfig) (*messages, error) {
	cfg.AckPolicy = jetstream.AckNonePolicy
	cfg.MemoryStorage = true
	cfg.Replicas = 1
	cfg.InactiveThreshold = time.Minute
	cfg.ReplayPolicy = jetstream.ReplayInstantPolicy
	start, cancel := context.WithTimeout(ctx, callTimeout/4)
	defer cancel()
	c, err := s.js.CreateConsumer(start, stream, cfg)
	if err != nil {
		return nil, fmt.Errorf("event log: read the log: %w", err)
	}
	info := c.CachedInfo()
	m := &messages{store: s, stream: stream, consumer: info.Name, pending: info.NumPending,
		in: make(chan *nats.Msg, 2*prefetch), timer: time.NewTimer(quietAfter), quiet: quietAfter}
	// Use a new inbox: the connection's own would also get every delivery, and take one for the
	// response to another request.
	if m.sub, err = s.nc.ChanSubscribe(s.nc.NewInbox(), m.in); err != nil {
		return nil, fmt.Errorf("event log: read the log: %w", err)
	}
	return m, nil
}

// quietAfter is how long next normally waits for a message.
const quietAfter = 500 * time.Millisecond

var (
	errQuiet = errors.New("no message arrived")
	// errMissed: the connection dropped a message. Another consumer will deliver it again.
	errMissed = errors.New("the consumer of the store missed a message")
)

// next waits for a message, and returns errQuiet if none arrives for a while.
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
		if raw.Reply == "" { // a status: the request has ended
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
		select {
		case m.ahead = <-m.in:
			got.more = m.ahead.Reply != "" // not only a status
		default:
		}
		return got, nil
	}
}

// ask requests the next n messages.
func (m *messages) ask(inbox string, n int) error {
	return m.store.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+m.stream+"."+m.consumer, inbox,
		fmt.Appendf(nil, `{"batch":%d,"expires":%d}`, n, 30*time.Second))
}

func (m *messages) receive(ctx context.Context) (*nats.Msg, error) {
	if raw := m.ahead; raw != nil {
		m.ahead = nil
		return raw, nil
	}
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

// parseReply reads the metadata of a delivery from its reply subject:
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

// close removes the consumer from the store, which would otherwise keep it for a minute.
func (m *messages) close() {
	_ = m.sub.Unsubscribe()
	if !m.store.nc.IsConnected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = m.store.js.DeleteConsumer(ctx, m.stream, m.consumer) // otherwise it expires
}

// scan calls found for every message of a range, with its message id.
func (s *store) scan(ctx context.Context, from, to uint64, found func(seq uint64, id string)) error {
	if from > to {
		return nil
	}
	msgs, err := s.consumeFrom(ctx, from)
	if err != nil {
		return err
	}
	defer msgs.close()
	for {
		m, err := msgs.await(ctx)
		if errors.Is(err, errEnd) {
			return nil // the rest is unreadable
		}
		if err != nil {
			return fmt.Errorf("event log: look up what was stored: %w", err)
		}
		found(m.seq, m.id)
		if m.seq >= to {
			return nil
		}
	}
}

var (
	errEnd = errors.New("nothing is left to read")
	// errWithheld: the store responds and has messages, but does not deliver them.
	errWithheld = errors.New("the store has stopped delivering stored events")
)

// nudgeAfter is how long await waits for a message that the store has, before it requests one more.
const nudgeAfter = 20 * time.Millisecond

// await is like next, for callers that must know whether there are more messages: silence may only
// mean a busy disk or a remote cluster. It returns errEnd only if the store says that nothing is
// left. It waits at most callTimeout.
func (m *messages) await(ctx context.Context) (message, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errWithheld)
	defer cancel()
	defer func() { m.quiet = quietAfter }()
	for unanswered := 0; ; {
		got, err := m.next(ctx)
		if !errors.Is(err, errQuiet) {
			return got, err
		}
		left, err := m.left(ctx)
		switch {
		case ctx.Err() != nil:
			return message{}, context.Cause(ctx)
		case errors.Is(err, jetstream.ErrConsumerNotFound):
			return message{}, err
		case err != nil:
			if unanswered++; unanswered == 2 { // the consumer's node is lost
				return message{}, fmt.Errorf("%w: %w", errNoAnswer, err)
			}
			continue
		case !left:
			return message{}, errEnd
		}
		// A damaged message stops the store's consumer. Requesting another message skips some kinds
		// of damage.
		unanswered, m.quiet = 0, nudgeAfter
		if err := m.ask(m.store.nc.NewInbox(), 1); err != nil {
			return message{}, err
		}
	}
}

// left asks the store whether it has messages that it has not delivered yet.
func (m *messages) left(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	c, err := m.store.js.Consumer(ctx, m.stream, m.consumer)
	if err != nil {
		return false, err
	}
	info := c.CachedInfo()
	return info.NumPending > 0 || info.Delivered.Consumer > m.last, nil
}

// each calls f with every message that a new consumer finds, in order, until f returns false.
func (s *store) each(ctx context.Context, stream string, cfg jetstream.ConsumerConfig, f func(message) (more bool)) error {
	msgs, err := s.consume(ctx, stream, cfg)
	if err != nil {
		return err
	}
	defer msgs.close()
	for left := msgs.pending; left > 0; {
		m, err := msgs.await(ctx)
		if errors.Is(err, errEnd) { // some messages are unreadable
			return nil
		}
		if err != nil {
			return fmt.Errorf("event log: read the log: %w", err)
		}
		if left = m.pending; !f(m) {
			return nil
		}
	}
	return nil
}

// retried calls f up to maxEmptyConsumers times until it succeeds: a consumer fails permanently
// when its node dies, and a new one works.
func retried(ctx context.Context, f func() error) error {
	var err error
	for range maxEmptyConsumers {
		if err = f(); err == nil || ctx.Err() != nil || !backoff.Sleep(ctx, 100*time.Millisecond) {
			break
		}
	}
	return err
}

// entryOf returns the entry of a message; ok is false if the message is not an event. Any client of
// the cluster can store anything in the log, and readers show it on terminals, so an entry is JSON
// in one line without hidden characters.
func entryOf(epoch string, m message) (e journal.Entry, ok bool) {
	data := sanitize(m.data)
	if !journal.Keepable(data) {
		return journal.Entry{}, false
	}
	return journal.NewEntry(epoch, m.seq, m.stored, data), true
}

// sanitize returns JSON in one line without hidden characters, or nil if data is not JSON in one
// line.
func sanitize(data []byte) []byte {
	if !json.Valid(data) || !utf8.Valid(data) || bytes.ContainsAny(data, "\r\n") {
		return nil
	}
	return printable.JSON(data)
}
