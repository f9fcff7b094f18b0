// Package jsonl writes events as NDJSON: one compact JSON object in one line.
//
// A batch of events is one write, which is flushed at once: nothing waits in a
// buffer for more to come. Each event's line is whole; after a failed write the
// last line may not be.
package jsonl

import (
	"fmt"
	"io"

	"github.com/mcptrack/mcptrack/core/event"
)

// Writer writes events to one stream. It belongs to one goroutine.
type Writer struct {
	w   io.Writer
	buf []byte
}

// maxKept is the largest buffer that is kept between batches.
const maxKept = 1 << 20

// NewWriter returns a writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write writes the events, in order, and returns when the stream has taken them.
func (w *Writer) Write(events ...*event.Event) error {
	b := w.buf[:0]
	for _, e := range events {
		var err error
		if b, err = e.AppendJSON(b); err != nil {
			return err
		}
		b = append(b, '\n')
	}
	if cap(b) <= maxKept {
		w.buf = b
	}
	if len(b) == 0 {
		return nil
	}
	if _, err := w.w.Write(b); err != nil {
		return fmt.Errorf("write events: %w", err)
	}
	return nil
}
