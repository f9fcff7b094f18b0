package session

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
)

// limitBody fails a body that is longer than it may be. It sits above the
// decompression, so a bomb is stopped by what it would become.
type limitBody struct {
	io.ReadCloser
	left, limit int64
	tooLarge    func(error)
}

func (b *limitBody) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if int64(n) > b.left {
		err = &TooLargeError{"HTTP body", b.limit}
		b.tooLarge(err)
		n = int(b.left)
	}
	b.left -= int64(n)
	return n, err
}

// joinedBody reads from one place and closes another.
type joinedBody struct {
	io.Reader
	io.Closer
}

// endBody tells, once, how a stream ended.
type endBody struct {
	io.ReadCloser
	once sync.Once
	end  func(error)
}

func (b *endBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.once.Do(func() { b.end(err) })
	}
	return n, err
}

func (b *endBody) Close() error {
	err := b.ReadCloser.Close()
	b.once.Do(func() { b.end(errors.New("closed")) })
	return err
}

// eventBody watches an event stream go by: it bounds each event, honours the
// retry field and shows complete events to whoever wants to see them first.
type eventBody struct {
	io.ReadCloser
	limit    int
	tooLarge func(error)
	retry    func(time.Duration)
	event    func(name, data string) error // nil: only bound

	size       int    // bytes of the current event
	line       []byte // the current line, up to peek bytes
	name, data string
	failed     error
}

func (b *eventBody) Read(p []byte) (int, error) {
	if b.failed != nil {
		return 0, b.failed
	}
	n, err := b.ReadCloser.Read(p)
	if b.failed = b.watch(p[:n]); b.failed != nil {
		return 0, b.failed
	}
	return n, err
}

func (b *eventBody) watch(p []byte) error {
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		part, whole := p, false
		if i >= 0 {
			part, whole = p[:i], true
			p = p[i+1:]
		} else {
			p = nil
		}
		b.size += len(part)
		if b.size > b.limit {
			err := &TooLargeError{"SSE event", int64(b.limit)}
			b.tooLarge(err)
			return err
		}
		if room := peek - len(b.line); room > 0 {
			b.line = append(b.line, part[:min(len(part), room)]...)
		}
		if whole {
			if err := b.endLine(bytes.TrimRight(b.line, "\r")); err != nil {
				return err
			}
			b.line = b.line[:0]
		}
	}
	return nil
}

func (b *eventBody) endLine(line []byte) error {
	if len(line) == 0 {
		name, data := b.name, b.data
		b.size, b.name, b.data = 0, "", ""
		if b.event != nil && data != "" {
			return b.event(name, data)
		}
		return nil
	}
	if line[0] == ':' { // a comment, such as a heartbeat, is no part of an event
		b.size = max(0, b.size-len(line))
		return nil
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	switch string(field) {
	case "retry":
		if ms, err := strconv.ParseUint(strings.TrimSpace(string(value)), 10, 31); err == nil {
			b.retry(time.Duration(ms) * time.Millisecond)
		}
	case "event":
		b.name = strings.TrimSpace(string(value[:min(len(value), 64)]))
	case "data":
		if b.event != nil && len(b.data)+len(value) <= peek {
			b.data += strings.TrimPrefix(string(value), " ")
		}
	}
	return nil
}
