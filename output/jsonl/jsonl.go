// Package jsonl writes events as NDJSON, one compact JSON object per line, and reads them.
//
// A batch of events is one write, which is flushed immediately: no event waits in a
// buffer. All lines are complete, except possibly the last one after a failed write.
package jsonl

import (
	"fmt"
	"io"

	"github.com/mcptrack/mcptrack/core/event"
)

// Writer writes events to one stream. It must be used by one goroutine at a time.
type Writer struct {
	w   io.Writer
	buf []byte
}

// maxKept is the largest buffer that is reused for the next batch.
const maxKept = 1 << 20

// NewWriter returns a writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write writes the events, in order, and returns when the stream has accepted them.
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
