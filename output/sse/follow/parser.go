package follow

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// MaxEvent is the largest event that is taken, in bytes.
const MaxEvent = 8 << 20

// Event is one event of a feed.
type Event struct {
	ID   string // the last id up to and with this event
	Type string // "message" unless named
	Data string // lines joined by line feeds
}

// errTooLarge is the error for an event beyond MaxEvent.
var errTooLarge = fmt.Errorf("an event is larger than %d bytes", MaxEvent)

// parser takes a stream apart. Lines end with CR, LF or CRLF.
type parser struct {
	r     *bufio.Reader
	begun bool
	cr    bool // the last line ended with CR: a LF that follows belongs to it

	id    string // of the stream so far
	retry time.Duration
	typ   string
	data  []byte
	some  bool // a data field was there
	size  int  // of the event so far
}

func newParser(r io.Reader, lastID string) *parser {
	return &parser{r: bufio.NewReaderSize(r, 16<<10), id: lastID}
}

// next returns the next event. What is not finished at the end is discarded.
func (p *parser) next() (Event, error) {
	for {
		line, err := p.line()
		if err != nil {
			return Event{}, err
		}
		if len(line) > 0 {
			p.field(line)
			continue
		}
		e := Event{ID: p.id, Type: p.typ, Data: strings.TrimSuffix(string(p.data), "\n")}
		some := p.some
		p.typ, p.data, p.some, p.size = "", p.data[:0], false, 0
		if cap(p.data) > 64<<10 {
			p.data = nil
		}
		if !some {
			continue
		}
		if e.Type == "" {
			e.Type = "message"
		}
		return e, nil
	}
}

// field takes one line that is not empty.
func (p *parser) field(line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		p.data = append(append(p.data, value...), '\n')
		p.some = true
	case "event":
		p.typ = string(value)
	case "id":
		if sendable(string(value)) {
			p.id = string(value)
		}
	case "retry":
		if ms, err := strconv.ParseUint(string(value), 10, 32); err == nil {
			p.retry = time.Duration(ms) * time.Millisecond
		}
	}
}

// sendable reports whether a header can carry the id back. The specification says so
// of NUL alone; with any other control character no request would be made any more.
func sendable(id string) bool {
	return !strings.ContainsFunc(id, func(r rune) bool { return r < 0x20 || r == 0x7f })
}

// line reads a line without its end. It is valid until the next call.
func (p *parser) line() ([]byte, error) {
	if !p.begun {
		p.begun = true
		if mark, err := p.r.Peek(3); err == nil && string(mark) == "\xef\xbb\xbf" {
			_, _ = p.r.Discard(3)
		}
	}
	var line []byte
	for {
		if p.r.Buffered() == 0 {
			if _, err := p.r.Peek(1); err != nil {
				return nil, err
			}
		}
		b, _ := p.r.Peek(p.r.Buffered())
		if p.cr {
			p.cr = false
			if b[0] == '\n' {
				_, _ = p.r.Discard(1)
				continue
			}
		}
		at := bytes.IndexAny(b, "\r\n")
		n := at
		if at < 0 {
			n = len(b)
		}
		if p.size += n; p.size > MaxEvent {
			return nil, errTooLarge
		}
		if at >= 0 && line == nil {
			line = b[:at] // in the buffer, which stays until the next read
		} else {
			line = append(line, b[:n]...)
		}
		if at < 0 {
			_, _ = p.r.Discard(n)
			continue
		}
		p.cr = b[at] == '\r'
		_, _ = p.r.Discard(at + 1)
		return line, nil
	}
}

// ended reports whether a read error is the end of the stream.
func ended(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
