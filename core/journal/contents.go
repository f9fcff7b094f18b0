package journal

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/s2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/catalog"
)

const (
	// maxContent is the size in bytes of the largest text that is stored or returned.
	maxContent = 4 << 20
	// maxContentQueue bounds the texts that wait to be stored, in bytes as compressed.
	maxContentQueue = 16 << 20
	// contentBatch bounds the texts that are stored as one step.
	contentBatch, contentBatchBytes = 256, 2 << 20
	// maxKnown is how many digests are remembered as stored.
	maxKnown = 16 << 10
)

// Contents holds texts of resources by the digest of their content, so that versions can be
// shown and compared after a restart. It is separate from the log: nothing waits for it.
// [Options.KeepContent] limits its size; the oldest texts are removed first. Texts that cannot
// be stored in time are dropped and counted. Its methods may be called from several goroutines.
type Contents struct {
	store  *store
	keep   bool // whether Put stores
	pub    *publisher
	wakeup chan struct{} // signalled by Put; capacity 1, never closed

	dropped atomic.Uint64

	mu      sync.Mutex // guards all below
	queue   []storedContent
	queued  int                         // bytes in queue
	flying  int                         // taken from the queue and not stored yet
	known   map[catalog.Digest]struct{} // recently stored or queued
	written int64                       // bytes that were stored since known was empty
}

// storedContent is a compressed text.
type storedContent struct {
	digest catalog.Digest
	data   []byte
}

func newContents(s *store) *Contents {
	return &Contents{store: s, keep: s.opts.KeepContent > 0 && !s.opts.Existing, wakeup: make(chan struct{}, 1), known: map[catalog.Digest]struct{}{}}
}

func (c *Contents) open() (err error) {
	if c.keep {
		c.pub, err = newPublisher(c.store)
	}
	return err
}

// Put stores a text under the digest of its content, unless it is stored already. It
// never waits. Texts of more than 4 MiB, or more than a message of the store can hold
// when compressed, are not stored.
func (c *Contents) Put(d catalog.Digest, text string) {
	if !c.keep || d.IsZero() || len(text) > maxContent || c.isKnown(d) {
		return
	}
	data := s2.Encode(nil, []byte(text))
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.known[d]; ok {
		return
	}
	if len(data) > int(c.store.nc.MaxPayload())-1024 || c.queued+len(data) > maxContentQueue {
		c.dropped.Add(1)
		return
	}
	if len(c.known) >= maxKnown || c.written > c.store.opts.KeepContent/2 { // the store may have removed known texts since
		clear(c.known)
		c.written = 0
	}
	c.known[d] = struct{}{}
	c.written += int64(len(data))
	c.queue, c.queued = append(c.queue, storedContent{d, data}), c.queued+len(data)
	select {
	case c.wakeup <- struct{}{}:
	default:
	}
}

func (c *Contents) isKnown(d catalog.Digest) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.known[d]
	return ok
}

// Dropped counts texts that could not be stored.
func (c *Contents) Dropped() uint64 { return c.dropped.Load() }

// waiting returns how many texts are not stored yet.
func (c *Contents) waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queue) + c.flying
}

// run stores texts until ctx ends, and then those that are still queued.
func (c *Contents) run(ctx context.Context) {
	if !c.keep {
		return
	}
	defer c.pub.close()
	for {
		select {
		case <-c.wakeup:
			c.flush(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.store.opts.Drain)
			c.flush(last)
			cancel()
			return
		}
	}
}

// take removes the texts of one step from the queue.
func (c *Contents) take() []storedContent {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, size := 0, 0
	for n < len(c.queue) && n < contentBatch && (n == 0 || size+len(c.queue[n].data) <= contentBatchBytes) {
		size += len(c.queue[n].data)
		n++
	}
	taken := c.queue[:n:n]
	c.queue, c.queued, c.flying = c.queue[n:], c.queued-size, n
	return taken
}

// flush stores all queued texts. Texts that cannot be stored are dropped: the next event with
// the same digest puts them again.
func (c *Contents) flush(ctx context.Context) {
	for taken := c.take(); len(taken) > 0; taken = c.take() {
		var records []*record
		for _, t := range taken {
			records = append(records, &record{subject: c.subject(t.digest), data: t.data})
		}
		for failures := 0; len(records) > 0 && failures < 3; {
			n, err := c.pub.publish(ctx, records)
			if records = records[n:]; err != nil {
				failures++
			}
		}
		c.mu.Lock()
		for _, t := range taken[len(taken)-len(records):] {
			delete(c.known, t.digest)
			c.dropped.Add(1)
		}
		c.flying = 0
		c.mu.Unlock()
	}
}

func (c *Contents) stream() string { return c.store.opts.Stream + contentsSuffix }

// contentsSuffix follows the name of the log in the name of the stream of texts.
const contentsSuffix = "_contents"

func (c *Contents) subject(d catalog.Digest) string {
	return c.store.subjects.of("text.") + hex.EncodeToString(d[:])
}

// Get returns the text with the digest; ok is false if it is not stored.
func (c *Contents) Get(ctx context.Context, d catalog.Digest) (text string, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	m, err := c.store.nc.RequestWithContext(ctx, "$JS.API.DIRECT.GET."+c.stream()+"."+c.subject(d), nil)
	switch {
	case errors.Is(err, nats.ErrNoResponders): // no texts were ever stored
		return "", false, nil
	case err != nil:
		return "", false, fmt.Errorf("journal: read a stored text: %w", err)
	case m.Header.Get("Status") != "":
		return "", false, nil
	}
	if n, err := s2.DecodedLen(m.Data); err != nil || n > maxContent {
		return "", false, nil // on a cluster others may have stored anything
	}
	data, err := s2.Decode(nil, m.Data)
	if err != nil {
		return "", false, nil
	}
	return string(data), true, nil
}

// Stored returns those of the digests whose text is stored. After an error, others may be, too.
func (c *Contents) Stored(ctx context.Context, digests []catalog.Digest) (map[catalog.Digest]bool, error) {
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
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return found, retried(ctx, func() error { return c.find(ctx, subjects, found) })
}

// find adds the digests of the texts that are stored under the subjects.
func (c *Contents) find(ctx context.Context, subjects []string, found map[catalog.Digest]bool) error {
	msgs, err := c.store.consume(ctx, c.stream(), jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubjects: subjects, HeadersOnly: true,
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) { // no texts were ever stored
		return nil
	}
	if err != nil {
		return err
	}
	defer msgs.close()
	for left := msgs.pending; left > 0; {
		m, err := msgs.await(ctx)
		if errors.Is(err, errEnd) || errors.Is(err, errWithheld) && c.store.embedded != nil {
			return nil // those that could not be read back are not there
		}
		if err != nil {
			return fmt.Errorf("journal: find stored texts: %w", err)
		}
		left = m.pending
		var d catalog.Digest
		if _, err := hex.Decode(d[:], []byte(m.subject[strings.LastIndexByte(m.subject, '.')+1:])); err == nil {
			found[d] = true
		}
	}
	return nil
}
