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

// message is a message that was read from a JetStream stream.
type message struct {
	seq     uint64
	pending uint64 // number of messages that are known to follow
	stored  time.Time
	subject string // subject in the stream; set only by consumers
	id      string // message id (Nats-Msg-Id)
	more    bool   // set if the next message has already arrived
	data    []byte
}

// direct limits the number of messages that one request reads.
const direct = 512

// get reads messages from a range of numbers with a single request. The response may contain only
// the first messages of the range, or none.
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
		if m.Header.Get("Status") != "" { // end of the response, or no messages in the range
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

// messages reads from a stream with one JetStream consumer, which delivers all messages from some
// sequence number on, in order. If the consumer's node or the connection is lost, the consumer
// fails or delivers nothing more; the caller must then open another one.
//
// It sends its own pull requests. The client library has a similar "ordered" consumer, but that
// creates two timers for every message, detects a lost node only in a call that waits longer than
// two heartbeats, and cannot be interrupted while it reconnects.
type messages struct {
	store    *store
	stream   string
	consumer string
	sub      *nats.Subscription
	// in receives the messages from the NATS connection and is never closed. Its capacity exceeds
	// the number of messages that are ever requested at a time, so the connection drops none.
	in      chan *nats.Msg
	timer   *time.Timer
	quiet   time.Duration // how long next waits before it returns errQuiet
	asked   int           // number of messages requested but not delivered yet
	pending uint64        // number of matching messages when the consumer was opened
	last    uint64        // consumer sequence number of the last delivered message
	ahead   *nats.Msg     // message that was received early; nil if none
}

func (s *store) consumeFrom(ctx context.Context, from uint64) (*messages, error) {
	return s.consume(ctx, s.opts.Stream, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from,
	})
}

// consume creates a consumer on the stream. The caller must call close.
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
	// Use a separate inbox. With the connection's shared inbox, the connection would also receive
	// every delivery and could mistake one for the response to another request.
	if m.sub, err = s.nc.ChanSubscribe(s.nc.NewInbox(), m.in); err != nil {
		return nil, fmt.Errorf("event log: read the log: %w", err)
	}
	return m, nil
}

// quietAfter is the default time that next waits for a message.
const quietAfter = 500 * time.Millisecond

var (
	errQuiet = errors.New("no message arrived")
	// errMissed means that the connection dropped a message. A new consumer delivers it again.
	errMissed = errors.New("a message from the store was dropped")
)

// next waits for the next message. It returns errQuiet if none arrives within m.quiet.
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
		if raw.Reply == "" { // a status message: the pull request has ended
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
			got.more = m.ahead.Reply != "" // true only for a message, not for a status
		default:
		}
		return got, nil
	}
}

// ask requests the next n messages, to be delivered to the inbox.
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

// parseReply extracts the metadata of a delivered message from its reply subject, which has the
// form $JS.ACK.[DOMAIN.ACCOUNT.]STREAM.CONSUMER.TRIES.SEQ.DELIVERY.NANOSECONDS.PENDING[.RANDOM]
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

// close deletes the consumer on the server, which would otherwise keep it for another minute.
func (m *messages) close() {
	_ = m.sub.Unsubscribe()
	if !m.store.nc.IsConnected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = m.store.js.DeleteConsumer(ctx, m.stream, m.consumer) // if this fails, the consumer expires by itself
}

// scan calls found with the number and the message id of every message in a range of numbers.
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
			return nil // the remaining messages are unreadable
		}
		if err != nil {
			return fmt.Errorf("event log: look up the stored events: %w", err)
		}
		found(m.seq, m.id)
		if m.seq >= to {
			return nil
		}
	}
}

var (
	errEnd = errors.New("no messages are left to read")
	// errWithheld means that the store responds and has more messages, but does not deliver them.
	errWithheld = errors.New("the store has stopped delivering stored events")
)

// nudgeAfter is how long await waits for a message that the store has before it requests another
// one.
const nudgeAfter = 20 * time.Millisecond

// await is a version of next for callers that must know whether more messages exist, because a
// quiet store may only be slow. It returns errEnd only if the store confirms that no messages are
// left. It waits for at most callTimeout.
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
			if unanswered++; unanswered == 2 { // the node that runs the consumer is down
				return message{}, fmt.Errorf("%w: %w", errNoAnswer, err)
			}
			continue
		case !left:
			return message{}, errEnd
		}
		// The consumer may be stuck at a damaged message. Requesting another message skips some
		// kinds of damage.
		unanswered, m.quiet = 0, nudgeAfter
		if err := m.ask(m.store.nc.NewInbox(), 1); err != nil {
			return message{}, err
		}
	}
}

// left asks the store whether there are messages that the consumer has not delivered yet.
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

// each creates a consumer and calls f with every message that it delivers, in order, until f
// returns false or no messages are left.
func (s *store) each(ctx context.Context, stream string, cfg jetstream.ConsumerConfig, f func(message) (more bool)) error {
	msgs, err := s.consume(ctx, stream, cfg)
	if err != nil {
		return err
	}
	defer msgs.close()
	for left := msgs.pending; left > 0; {
		m, err := msgs.await(ctx)
		if errors.Is(err, errEnd) { // the remaining messages are unreadable
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

// retried calls f until it succeeds: at least maxEmptyConsumers times and, while the store may only be
// unavailable, for callTimeout after the first failure. A consumer fails permanently when its node goes
// down, but a new consumer works. While the cluster elects a leader, no consumer can be created.
func retried(ctx context.Context, f func() error) error {
	retry := newPatience()
	for {
		err := f()
		if err == nil || ctx.Err() != nil {
			return err
		}
		if wait, more := retry.next(err); !more || !backoff.Sleep(ctx, wait) {
			return err
		}
	}
}

// patience decides how often a read that fails is repeated.
type patience struct {
	waits *backoff.Backoff
	since time.Time // the first failure after the last success
}

func newPatience() *patience {
	return &patience{waits: backoff.New(50*time.Millisecond, 1600*time.Millisecond)}
}

// next records a failure. err is nil if the store responded without delivering anything. more is
// false if the read should not be repeated.
func (p *patience) next(err error) (wait time.Duration, more bool) {
	wait = p.waits.Next()
	if p.waits.Failures() == 1 {
		p.since = time.Now()
	}
	refused, _ := errors.AsType[*jetstream.APIError](err)
	passing := (refused == nil || refused.Code >= 500) && !errors.Is(err, nats.ErrConnectionClosed)
	return wait, p.waits.Failures() <= maxEmptyConsumers || passing && time.Since(p.since) < callTimeout
}

// entryOf converts a message to an entry. ok is false if the message is not an event. Any client of
// the cluster can store anything in the log, and readers may display it on a terminal, so entryOf
// accepts only JSON in one line and escapes hidden characters.
func entryOf(epoch string, m message) (e journal.Entry, ok bool) {
	data := sanitize(m.data)
	if !journal.Keepable(data) {
		return journal.Entry{}, false
	}
	return journal.NewEntry(epoch, m.seq, m.stored, data), true
}

// sanitize returns the JSON in data with hidden characters escaped, or nil if data is not JSON in
// one line.
func sanitize(data []byte) []byte {
	if !json.Valid(data) || !utf8.Valid(data) || bytes.ContainsAny(data, "\r\n") {
		return nil
	}
	return printable.JSON(data)
}
