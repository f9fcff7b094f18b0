package wire

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mcptrack/mcptrack/core/eventstream"
)

// limitBody is an HTTP body whose Read fails beyond a limit. It counts the bytes after
// decompression, so that a small answer cannot become a huge one.
type limitBody struct {
	io.ReadCloser
	left, limit int64       // bytes
	tooLarge    func(error) // is given the error of that Read
}

func (b *limitBody) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if int64(n) > b.left {
		err = &TooLargeError{"body", "body", b.limit}
		b.tooLarge(err)
		n = int(b.left)
	}
	b.left -= int64(n)
	return n, err
}

// joinedBody reads from one reader and closes another.
type joinedBody struct {
	io.Reader
	io.Closer
}

// eventFilter is an event stream as the library sees it: without the messages that
// are handled here.
type eventFilter struct {
	guard  *guard
	body   io.Closer
	events *eventstream.Reader
	x      *exchange

	scratch scratch
	// answered is set once the library was given an event that may be the answer.
	answered bool
	out      []byte        // the part of the stream that the library reads now
	rest     []byte        // the end of out, which it has not read yet
	id       string        // the last event id that the library was given
	retry    time.Duration // the last retry field that it was given; 0: none
	err      error         // returned once rest is read, by every later Read
}

func newEventFilter(g *guard, body io.ReadCloser, x *exchange) *eventFilter {
	return &eventFilter{guard: g, body: body, x: x, events: eventstream.NewReader(body, "", g.conn.cfg.MaxLine, x.alive)}
}

func (b *eventFilter) Close() error { return b.body.Close() }

func (b *eventFilter) Read(p []byte) (int, error) {
	for len(b.rest) == 0 && b.err == nil {
		b.out = b.out[:0]
		b.next()
		b.rest = b.out
	}
	if len(b.rest) == 0 {
		return 0, b.err
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// brokenOff is the error of a request whose event stream ended before the answer.
func brokenOff(redact func(string) string, err error) error {
	if err == io.EOF {
		return errors.New("the server closed the event stream before it sent the response")
	}
	return fmt.Errorf("the event stream was interrupted before the response: %w", cleanError(redact, err))
}

// next reads one event and handles the message in it. It appends to out what the library
// has to see: events that were not handled here, and ids and retry fields, with which the
// library resumes a stream.
func (b *eventFilter) next() {
	e, err := b.events.Read()
	if err != nil {
		if errors.Is(err, eventstream.ErrTooLarge) {
			err = &TooLargeError{"event", "line", int64(b.guard.conn.cfg.MaxLine)}
			b.x.fail(err)
		} else if !b.answered {
			b.x.fail(&InterruptedError{Sent: true, Err: brokenOff(b.guard.conn.cfg.Redact, err)})
		}
		b.err = err
	} else if b.guard.onEvent != nil {
		if b.err = b.guard.onEvent(e); b.err != nil {
			return
		}
	}
	if retry := b.events.Retry(); retry != b.retry {
		b.retry = retry
		b.out = eventstream.AppendRetry(b.out, retry)
	}
	id := b.events.LastID()
	switch {
	case err == nil && (e.Type == endpointEvent || !b.guard.conn.receive(&b.scratch, []byte(e.Data))):
		b.answered = true
		b.out = eventstream.Append(b.out, id, e.Type, []byte(e.Data))
	case id != b.id:
		b.out = eventstream.AppendID(b.out, id)
	}
	b.id = id
}
