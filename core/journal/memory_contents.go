package journal

import (
	"context"
	"sync"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// memoryContents are the texts of a [Memory].
type memoryContents struct {
	keep int64

	mu      sync.Mutex // guards all below
	texts   map[catalog.Digest]string
	order   []catalog.Digest // oldest first
	bytes   int64
	dropped uint64
}

// Put implements [Contents].
func (c *memoryContents) Put(d catalog.Digest, text string) {
	if c.keep <= 0 || d.IsZero() || len(text) > MaxContent {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.texts[d]; ok {
		return
	}
	if int64(len(text)) > c.keep {
		c.dropped++
		return
	}
	if c.texts == nil {
		c.texts = map[catalog.Digest]string{}
	}
	c.texts[d], c.order, c.bytes = text, append(c.order, d), c.bytes+int64(len(text))
	for c.bytes > c.keep {
		oldest := c.order[0]
		c.order = c.order[1:]
		c.bytes -= int64(len(c.texts[oldest]))
		delete(c.texts, oldest)
	}
}

// Get implements [Contents].
func (c *memoryContents) Get(_ context.Context, d catalog.Digest) (string, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text, ok := c.texts[d]
	return text, ok, nil
}

// Stored implements [Contents].
func (c *memoryContents) Stored(_ context.Context, digests []catalog.Digest) (map[catalog.Digest]bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[catalog.Digest]bool{}
	for _, d := range digests {
		if _, ok := c.texts[d]; ok {
			out[d] = true
		}
	}
	return out, nil
}

// Dropped implements [Contents].
func (c *memoryContents) Dropped() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dropped
}
