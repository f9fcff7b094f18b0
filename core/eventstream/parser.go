package eventstream

import (
	"bytes"
	"io"
	"strconv"
	"time"
)

// Event is one server-sent event.
type Event struct {
	ID   string // last id that the stream has set; empty if none
	Type string // DefaultType if the event has no event field
	Data string // lines joined with LF
}

// A Parser parses an event stream that the caller passes to [Parser.Next] piece by piece. It is not
// safe for concurrent use.
type Parser struct {
	// MaxEvent is the maximum size of an event in bytes. A larger event fails with ErrTooLarge.
	MaxEvent int
	lastID   string
	id       string // the last id; lastID once its event is complete
	retry    time.Duration

	begun   bool   // the first line, which may start with a byte order mark, has been parsed
	cr      bool   // the last line ended with CR, so an LF that follows is part of the line ending
	line    []byte // start of the current line from earlier pieces
	typ     string
	data    []byte
	hasData bool
	size    int // bytes of the event so far, excluding complete comments
}

// LastID returns the last id that a complete event has set, or an empty string if there is none.
func (p *Parser) LastID() string { return p.lastID }

// Retry returns the reconnection delay from the stream's last retry field, or 0 if there is none.
func (p *Parser) Retry() time.Duration { return p.retry }

// Next consumes b up to the end of the first event, or all of b if no event ends in it. n is the
// number of bytes consumed. ok reports whether e is a complete event.
func (p *Parser) Next(b []byte) (e Event, n int, ok bool, err error) {
	for n < len(b) {
		if p.cr {
			p.cr = false
			if b[n] == '\n' {
				n++
				continue
			}
		}
		rest := b[n:]
		end := bytes.IndexAny(rest, "\r\n")
		part := rest
		if end >= 0 {
			part = rest[:end]
		}
		if p.size += len(part); p.size > p.MaxEvent {
			return Event{}, n, false, ErrTooLarge
		}
		line := part
		if end < 0 || len(p.line) > 0 {
			p.line = append(p.line, part...)
			line = p.line
		}
		if end < 0 {
			return Event{}, len(b), false, nil
		}
		n += end + 1
		p.cr = rest[end] == '\r'
		e, ok = p.endLine(line)
		p.line = shrink(p.line)
		if ok {
			return e, n, true, nil
		}
	}
	return Event{}, n, false, nil
}

// endLine handles a complete line. An empty line ends the event: endLine then returns the event,
// and true if the event has data.
func (p *Parser) endLine(line []byte) (Event, bool) {
	if !p.begun {
		p.begun = true
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	if len(line) == 0 {
		return p.endEvent()
	}
	if line[0] == ':' {
		p.size -= len(line)
		return Event{}, false
	}
	p.field(line)
	return Event{}, false
}

func (p *Parser) endEvent() (Event, bool) {
	p.lastID = p.id
	e := Event{ID: p.lastID, Type: p.typ, Data: string(bytes.TrimSuffix(p.data, []byte("\n")))}
	ok := p.hasData
	p.typ, p.data, p.hasData, p.size = "", shrink(p.data), false, 0
	if e.Type == "" {
		e.Type = DefaultType
	}
	return e, ok
}

// field handles a line that is neither empty nor a comment.
func (p *Parser) field(line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		p.hasData = true
		p.data = append(append(p.data, value...), '\n')
	case "event":
		p.typ = string(value)
	case "id":
		if id := string(value); ValidID(id) {
			p.id = id
		}
	case "retry":
		if ms, err := strconv.ParseUint(string(value), 10, 32); err == nil {
			p.retry = time.Duration(ms) * time.Millisecond
		}
	}
}

// shrink empties a buffer for reuse. It discards a buffer that an unusually large event has
// enlarged.
func shrink(b []byte) []byte {
	if cap(b) > 64<<10 {
		return nil
	}
	return b[:0]
}

// A Reader pulls events from an io.Reader. It reads at most one buffer ahead.
type Reader struct {
	Parser
	r     io.Reader
	alive func()
	buf   []byte // bytes of space that were read but not parsed yet
	space []byte
	err   error // error from the last read; returned once buf has been parsed
}

// NewReader returns a Reader for events of at most maxEvent bytes. lastID is the id of the event
// after which the stream resumes; it is empty for a new stream. alive, if not nil, is called
// whenever bytes arrive, because comments and incomplete events also show that the connection is
// alive.
func NewReader(r io.Reader, lastID string, maxEvent int, alive func()) *Reader {
	if alive == nil {
		alive = func() {}
	}
	return &Reader{Parser: Parser{MaxEvent: maxEvent, lastID: lastID, id: lastID}, r: r, alive: alive, space: make([]byte, 16<<10)}
}

// Read returns the next event, or the error that ended the stream. The error is io.EOF if the
// stream ended normally.
func (r *Reader) Read() (Event, error) {
	for {
		e, n, ok, err := r.Next(r.buf)
		r.buf = r.buf[n:]
		switch {
		case ok || err != nil:
			return e, err
		case r.err != nil:
			return Event{}, r.err
		}
		n, r.err = r.r.Read(r.space)
		if r.buf = r.space[:n]; n > 0 {
			r.alive()
		}
	}
}
