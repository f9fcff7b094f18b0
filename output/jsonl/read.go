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

// maxLine is the length of the longest line of NDJSON: it may have content.
const maxLine = 4 << 20

// Read reads NDJSON to its end, the end of ctx (which is no error), or the first error of
// offer, and calls offer with each event, in order. Lines that are not events are skipped;
// the first one and their number are logged. A line is at most 4 MiB long. A read of in that
// blocks when ctx ends keeps its goroutine until it returns.
func Read(ctx context.Context, in io.Reader, log *slog.Logger, offer func(*event.Event) error) error {
	lines := make(chan []byte) // from the reader below; closed by it at the end
	var failed error           // valid once lines is closed
	go func() {
		// A read cannot be cancelled: this ends with the process, or with the next
		// line.
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

// Decode decodes one line. It returns no event and no error for an empty one, and for an event of a type
// that this version does not know.
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
		return nil, nil // of a newer version, and no update
	} else if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		return nil, errors.New("not valid JSON")
	} else if err != nil {
		return nil, err
	}
	if e.Type() == event.TypeResourceUpdated && (e.ResourceURI == "" || e.ServerID == "") {
		return nil, errors.New("the update has no server or no resource")
	}
	return e, nil
}

// eachLine calls yield with each line, in memory of its own, until it returns false. A line
// that is too long is cut to maxLine bytes.
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
