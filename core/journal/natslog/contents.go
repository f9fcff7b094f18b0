package natslog

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/internal/wake"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/internal/storing"
)

const (
	// maxContentQueue limits the total size, in bytes, of the texts that wait to be stored.
	maxContentQueue = 32 << 20
	// contentBatch and contentBatchBytes limit how many texts, and how many bytes of text, are
	// stored in one step.
	contentBatch, contentBatchBytes = 256, 2 << 20
	// maxKnown limits how many digests this process remembers as already stored.
	maxKnown = 16 << 10
)

// contents implements [journal.Contents]. It stores the texts in a separate JetStream stream. Texts
// that cannot be stored in time are dropped and counted.
type contents struct {
	store  *store
	keep   bool // Put does nothing unless keep is set
	pub    *publisher
	wakeup wake.Channel // signalled by Put

	dropped  atomic.Uint64
	progress storing.Progress // tracks each text from when it is queued until it is stored or dropped

	mu      sync.Mutex // guards the fields below
	queue   []storedContent
	queued  int                         // total size of queue, in bytes
	known   map[catalog.Digest]struct{} // digests of texts that were recently queued or stored
	written int64                       // size of the texts that were queued since known was last cleared
}

type storedContent struct {
	digest catalog.Digest
	text   string
}

func newContents(s *store) *contents {
	return &contents{store: s, keep: s.opts.KeepContent > 0 && !s.opts.Existing, pub: newPublisher(s, callTimeout/2), wakeup: wake.New(), known: map[catalog.Digest]struct{}{}}
}

func (c *contents) Put(d catalog.Digest, text string) {
	if !c.keep || d.IsZero() || len(text) > journal.MaxContent {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.known[d]; known {
		return
	}
	if c.queued+len(text) > maxContentQueue {
		c.dropped.Add(1)
		return
	}
	if len(c.known) >= maxKnown || c.written > c.store.opts.KeepContent/2 { // the store may have removed texts that are in known
		clear(c.known)
		c.written = 0
	}
	c.known[d] = struct{}{}
	c.written += int64(len(text))
	c.queue, c.queued = append(c.queue, storedContent{d, text}), c.queued+len(text)
	c.progress.Begin()
	c.wakeup.Send()
}

func (c *contents) Dropped() uint64 { return c.dropped.Load() }

// run stores queued texts until ctx ends. Then it stores the texts that are still queued, within
// the Drain limit, and returns.
func (c *contents) run(ctx context.Context) {
	if !c.keep {
		return
	}
	last, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(c.store.opts.Drain, cancel) })()
	for ended := false; !ended; {
		select {
		case <-c.wakeup:
		case <-ctx.Done():
			ended = true
		}
		c.flush(last)
	}
}

// take removes the texts for one step from the queue and returns them.
func (c *contents) take() []storedContent {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, size := 0, 0
	for n < len(c.queue) && n < contentBatch && (n == 0 || size+len(c.queue[n].text) <= contentBatchBytes) {
		size += len(c.queue[n].text)
		n++
	}
	taken := c.queue[:n:n]
	c.queue, c.queued = c.queue[n:], c.queued-size
	return taken
}

// flush stores all queued texts. It drops texts that cannot be stored; the next event with the same
// digest queues the text again.
func (c *contents) flush(ctx context.Context) {
	for taken := c.take(); len(taken) > 0; taken = c.take() {
		var records []*record
		var digests []catalog.Digest // of records
		for _, t := range taken {
			data := s2.Encode(nil, []byte(t.text))
			if len(data) > c.store.largest() {
				c.drop(t.digest)
				continue
			}
			records, digests = append(records, &record{subject: c.subject(t.digest), data: data}), append(digests, t.digest)
		}
		for failures := 0; len(records) > 0 && failures < 3; {
			n, err := c.pub.publish(ctx, records)
			if records = records[n:]; err != nil {
				failures++
			}
		}
		for _, d := range digests[len(digests)-len(records):] {
			c.drop(d)
		}
		c.progress.Advance(len(taken))
	}
}

func (c *contents) drop(d catalog.Digest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, d)
	c.dropped.Add(1)
}

func (c *contents) stream() string { return c.store.opts.Stream + contentsSuffix }

// contentsSuffix is appended to the name of the log's stream to form the name of the stream for
// texts.
const contentsSuffix = "_contents"

func (c *contents) subject(d catalog.Digest) string {
	return c.store.subjects.of("text.") + hex.EncodeToString(d[:])
}

func (c *contents) Get(ctx context.Context, d catalog.Digest) (text string, ok bool, err error) {
	var packed []byte
	err = retried(ctx, func(ctx context.Context) (bool, error) {
		stream, err := c.store.stream(ctx, c.stream())
		if err != nil {
			return false, err
		}
		try, cancel := context.WithTimeout(ctx, callTimeout/4)
		defer cancel()
		m, err := stream.GetLastMsgForSubject(try, c.subject(d))
		if err == nil {
			ok, packed = true, m.Data
		} else if errors.Is(err, jetstream.ErrMsgNotFound) {
			err = nil
		}
		return false, err
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) { // no text was ever stored
		return "", false, nil
	}
	if err != nil || !ok {
		return "", false, storing.Cause(ctx, err)
	}
	data, ok := unpack(packed, journal.MaxContent)
	return string(data), ok, nil
}

// unpack returns what is compressed in data. ok is false if it is malformed or larger than limit, because
// any client of the cluster can store messages.
func unpack(data []byte, limit int) (out []byte, ok bool) {
	if n, err := s2.DecodedLen(data); err != nil || n > limit {
		return nil, false
	}
	out, err := s2.Decode(nil, data)
	return out, err == nil
}

func (c *contents) Stored(ctx context.Context, digests []catalog.Digest) (map[catalog.Digest]bool, error) {
	found := map[catalog.Digest]bool{}
	var subjects []string
	for _, d := range digests {
		if !d.IsZero() && !found[d] {
			found[d] = true
			subjects = append(subjects, c.subject(d))
		}
	}
	clear(found)
	if len(subjects) == 0 {
		return found, nil
	}
	err := retried(ctx, func(ctx context.Context) (bool, error) {
		_, err := c.store.each(ctx, c.stream(), jetstream.ConsumerConfig{
			DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubjects: subjects, HeadersOnly: true,
		}, func(m message) bool {
			var d catalog.Digest
			if _, err := hex.Decode(d[:], []byte(m.subject[strings.LastIndexByte(m.subject, '.')+1:])); err == nil {
				found[d] = true
			}
			return true
		})
		return false, err
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) { // no text was ever stored
		err = nil
	}
	return found, storing.Cause(ctx, err)
}
