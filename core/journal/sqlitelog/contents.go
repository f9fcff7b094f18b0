package sqlitelog

import (
	"context"
	"sync"

	"zombiezen.com/go/sqlite"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/internal/storing"
)

const (
	// maxWaitingTexts limits the total size, in bytes, of the texts that wait to be stored.
	maxWaitingTexts = 16 << 20
	// maxGroupTexts is the total size, in bytes, after which no more texts are added to a
	// transaction.
	maxGroupTexts = 2 << 20
)

// contents implements [journal.Contents]. New texts wait in memory until the writer stores them
// together with events.
type contents struct {
	keep  int64  // limit in bytes; 0 means that no texts are stored
	rouse func() // makes the writer store the waiting texts
	read  func(ctx context.Context, f func(*file, *sqlite.Conn) error) error

	progress storing.Progress // tracks each text from when it is accepted until it is stored or dropped

	mu      sync.Mutex // guards the fields below
	queue   []text
	bytes   int                        // total size of queue and of the texts that the writer has taken
	queued  map[catalog.Digest]*string // the same texts by digest, so that they can be read
	dropped uint64
	closed  bool
}

type text struct {
	digest catalog.Digest
	text   string
}

func (c *contents) Put(d catalog.Digest, content string) {
	if c.keep > 0 && !d.IsZero() && len(content) <= journal.MaxContent && c.add(text{d, content}) {
		c.rouse()
	}
}

func (c *contents) add(t text) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.queued[t.digest]; ok || c.closed {
		return false
	}
	if int64(len(t.text)) > c.keep || c.bytes+len(t.text) > maxWaitingTexts {
		c.dropped++
		return false
	}
	c.queue, c.bytes = append(c.queue, t), c.bytes+len(t.text)
	c.progress.Begin()
	c.queued[t.digest] = &t.text
	return true
}

func (c *contents) Dropped() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dropped
}

// waiting returns the number of texts that are not stored yet.
func (c *contents) waiting() int {
	_, n := c.progress.Count()
	return n
}

func (c *contents) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}

// take removes the texts for one transaction from the queue and returns them. The writer must then
// pass them to done or drop.
func (c *contents) take() []text {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, size := 0, 0
	for n < len(c.queue) && size < maxGroupTexts {
		size += len(c.queue[n].text)
		n++
	}
	taken := c.queue[:n:n]
	if c.queue = c.queue[n:]; len(c.queue) == 0 {
		c.queue = nil // taken now owns the array
	}
	return taken
}

func (c *contents) done(taken []text) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range taken {
		c.bytes -= len(t.text)
		delete(c.queued, t.digest)
	}
	c.progress.Advance(len(taken))
}

func (c *contents) drop(taken []text) {
	c.done(taken)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropped += uint64(len(taken))
}

// putTexts stores the texts in a batch. If their total size then exceeds the limit, it removes the
// oldest texts.
func (w *writer) putTexts(b *batch) error {
	for _, t := range b.texts {
		has, err := number(w.conn, "SELECT 1 FROM contents WHERE digest = ?", t.digest[:])
		if err != nil {
			return err
		}
		if has == 1 {
			continue
		}
		if err := do(w.stmts.text, t.digest[:], int64(len(t.text)), t.text); err != nil {
			return err
		}
		b.next.textBytes += int64(len(t.text))
	}
	if b.next.textBytes <= w.l.opts.KeepContent {
		return nil
	}
	s := w.stmts.oldText
	upTo := int64(0)
	for b.next.textBytes > w.l.opts.KeepContent {
		row, err := s.Step()
		if err != nil {
			return err
		}
		if !row {
			b.next.textBytes = 0
			break
		}
		upTo = s.ColumnInt64(0)
		b.next.textBytes -= s.ColumnInt64(1)
	}
	if err := s.Reset(); err != nil {
		return err
	}
	return do(w.stmts.dropText, upTo)
}

func (c *contents) Get(ctx context.Context, d catalog.Digest) (content string, ok bool, err error) {
	c.mu.Lock()
	waiting, ok := c.queued[d]
	c.mu.Unlock()
	if ok {
		return *waiting, true, nil
	}
	err = c.read(ctx, func(_ *file, conn *sqlite.Conn) error {
		return query(conn, "SELECT text FROM contents WHERE digest = ?", func(s *sqlite.Stmt) error {
			content, ok = s.ColumnText(0), true
			return nil
		}, d[:])
	})
	return content, ok, err
}

func (c *contents) Stored(ctx context.Context, digests []catalog.Digest) (map[catalog.Digest]bool, error) {
	found := map[catalog.Digest]bool{}
	for len(digests) > 0 { // in several queries, so that none uses a connection for long
		part := digests[:min(len(digests), 1024)]
		err := c.read(ctx, func(_ *file, conn *sqlite.Conn) error {
			for _, d := range part {
				has, err := number(conn, "SELECT 1 FROM contents WHERE digest = ?", d[:])
				if err != nil {
					return err
				}
				if has == 1 {
					found[d] = true
				}
			}
			return nil
		})
		if err != nil {
			return found, err
		}
		digests = digests[len(part):]
	}
	return found, nil
}
