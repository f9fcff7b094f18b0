// Package jsonl writes and reads events as NDJSON: one compact JSON object per line.
//
// Each batch of events is written with one call to Write, so no event waits in a buffer. Only the
// last line after a failed write can be incomplete.
package jsonl

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/mcptrack/mcptrack/core/event"
)

// Writer writes events to one stream. Only one goroutine may use it at a time.
type Writer struct {
	w   io.Writer
	buf []byte
}

// maxKept is the capacity, in bytes, up to which a buffer is reused for the next batch.
const maxKept = 1 << 20

// NewWriter returns a writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write writes the events, in order, and returns when the underlying writer has accepted them.
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

// maxLine limits the bytes of an NDJSON line, which may include the content of a resource.
const maxLine = 4 << 20

// Read calls offer with each event of an NDJSON stream, in order. It returns at the end of the
// stream, when ctx ends (without an error), or with the first error from offer. It skips lines that
// are not events or are longer than 4 MiB, and logs the first such line and their number. If a read
// from in is blocked when ctx ends, the reading goroutine remains until that read returns.
func Read(ctx context.Context, in io.Reader, log *slog.Logger, offer func(*event.Event) error) error {
	lines := make(chan []byte) // the goroutine below sends and closes; unbuffered, so that it does not read ahead
	var failed error           // read error; may be accessed once lines is closed
	go func() {
		// A read cannot be cancelled, so this goroutine stops at the next line or when the process
		// exits.
		defer close(lines)
		failed = eachLine(in, func(line []byte) bool {
			select {
			case lines <- line:
				return true
			case <-ctx.Done():
				return false
			}
		})
	}()
	bad := 0
	defer func() {
		if bad > 0 {
			log.Warn("ignored lines that are not events", "lines", bad)
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case line, ok := <-lines:
			if !ok {
				return failed
			}
			e, err := Decode(line)
			if err != nil {
				if bad++; bad == 1 {
					log.Warn("ignored a line that is not an event", "err", err)
				}
				continue
			}
			if e == nil {
				continue
			}
			if err := offer(e); err != nil {
				return err
			}
		}
	}
}

// Decode decodes one line. It returns neither an event nor an error for an empty line or for an
// event type that is unknown to this version.
func Decode(line []byte) (*event.Event, error) {
	line = bytes.TrimSpace(line)
	switch {
	case len(line) == 0:
		return nil, nil
	case len(line) >= maxLine:
		return nil, fmt.Errorf("longer than %d bytes", maxLine)
	}
	e := &event.Event{}
	if err := json.Unmarshal(line, e); errors.Is(err, event.ErrUnknownType) {
		return nil, nil // a type from a newer version
	} else if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		return nil, errors.New("not valid JSON")
	} else if err != nil {
		return nil, err
	}
	if e.Type() == event.TypeResourceUpdated && (e.ResourceURI == "" || e.ServerID == "") {
		return nil, errors.New("the update is missing a server or resource")
	}
	return e, nil
}

// eachLine calls yield with each line until yield returns false. yield may keep the line. Lines are
// truncated to maxLine bytes.
func eachLine(in io.Reader, yield func([]byte) bool) error {
	r := bufio.NewReaderSize(in, 64<<10)
	var line []byte
	for {
		piece, err := r.ReadSlice('\n')
		line = append(line, piece[:min(len(piece), maxLine-len(line))]...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if len(line) > 0 && !yield(line) {
			return nil
		}
		line = nil
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read events: %w", err)
		}
	}
}
