package eventstream

import (
	"bytes"
	"io"
	"strconv"
	"time"
)

// Event is one event of a stream.
type Event struct {
	ID   string // the stream's last id so far; "": none
	Type string // DefaultType if the event has no event field
	Data string // its lines are joined with LF
}

// A Parser parses an event stream that is passed to [Parser.Next] piece by piece. It is not safe
// for concurrent use.
type Parser struct {
	// MaxEvent bounds the bytes of one event; a larger event fails with ErrTooLarge.
	MaxEvent int
	// MaxData bounds how much of a line and of an event's data is kept; the rest is counted and
	// dropped. 0: MaxEvent.
	MaxData int

	lastID string
	retry  time.Duration

	begun   bool   // the first line, which may have a byte order mark, was parsed
	cr      bool   // the last line ended with CR: a following LF belongs to that line end
	line    []byte // the part of the current line in earlier pieces, at most maxLine bytes
	lineLen int    // bytes of the current line so far, including those not in line
	typ     string
	data    []byte
	hasData bool
	size    int // bytes of the event so far, without finished comments
}

// LastID is the stream's last id so far; "": none.
func (p *Parser) LastID() string { return p.lastID }

// Retry is the stream's last retry field; 0: none.
func (p *Parser) Retry() time.Duration { return p.retry }

// Next consumes b up to the end of the first event, or all of b. n is the number of bytes consumed;
// ok reports whether the event e has ended.
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
		p.lineLen += len(part)
		line := part
		if end < 0 || len(p.line) > 0 {
			p.line = append(p.line, part[:min(len(part), max(0, p.maxLine()-len(p.line)))]...)
			line = p.line
		}
		if end < 0 {
			return Event{}, len(b), false, nil
		}
		n += end + 1
		p.cr = rest[end] == '\r'
		e, ok = p.endLine(line)
		p.line, p.lineLen = shrink(p.line), 0
		if ok {
			return e, n, true, nil
		}
	}
	return Event{}, n, false, nil
}

// maxLine is how many bytes of a line are kept: maxData, and room for the name of the field.
func (p *Parser) maxLine() int { return p.maxData() + len("retry: ") }

func (p *Parser) maxData() int {
	if p.MaxData > 0 {
		return p.MaxData
	}
	return p.MaxEvent
}

// endLine handles a complete line. An empty line ends the event; endLine returns it and true if it
// has data.
func (p *Parser) endLine(line []byte) (Event, bool) {
	if !p.begun {
		p.begun = true
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	if len(line) == 0 {
		return p.endEvent()
	}
	if line[0] == ':' {
		p.size -= p.lineLen
		return Event{}, false
	}
	p.field(line)
	return Event{}, false
}

func (p *Parser) endEvent() (Event, bool) {
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
		if len(p.data)+len(value) <= p.maxData() {
			p.data = append(append(p.data, value...), '\n')
		}
	case "event":
		p.typ = string(value)
	case "id":
		if id := string(value); ValidID(id) {
			p.lastID = id
		}
	case "retry":
		if ms, err := strconv.ParseUint(string(value), 10, 32); err == nil {
			p.retry = time.Duration(ms) * time.Millisecond
		}
	}
}

// shrink empties a buffer for reuse; it drops one that a rare large event made large.
func shrink(b []byte) []byte {
	if cap(b) > 64<<10 {
		return nil
	}
	return b[:0]
}

// A Reader pulls events from a stream. It reads at most one buffer ahead.
type Reader struct {
	Parser
	r     io.Reader
	alive func()
	buf   []byte // bytes of space that were read but not parsed
	space []byte
	err   error // from the last read; returned once buf was parsed
}

// NewReader returns a reader of events of at most maxEvent bytes, for a stream that resumes after
// the event lastID ("" for a new stream). alive, unless nil, is called whenever bytes arrive:
// comments and unfinished events are also signs of life.
func NewReader(r io.Reader, lastID string, maxEvent int, alive func()) *Reader {
	if alive == nil {
		alive = func() {}
	}
	return &Reader{Parser: Parser{MaxEvent: maxEvent, lastID: lastID}, r: r, alive: alive, space: make([]byte, 16<<10)}
}

// Read returns the next event, or the error that ended the stream: io.EOF after a clean end.
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
