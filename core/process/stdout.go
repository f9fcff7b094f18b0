package process

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math/bits"
	"os"
	"sync/atomic"
)

const (
	// smallBuf is what an idle child costs; busyBuf is the size of a Linux pipe,
	// more cannot arrive in one read.
	smallBuf = 8 << 10
	busyBuf  = 64 << 10
)

// lineReader passes whole lines that can be JSON-RPC and skips the rest. It
// works in one buffer: nothing is allocated or copied per line but the copy into
// the caller's slice. The buffer grows with need up to maxLine and shrinks when
// it is empty again. One goroutine reads at a time.
type lineReader struct {
	src      *os.File
	maxLine  int
	maxLines int
	maxBytes int
	redact   func(string) string
	log      *slog.Logger
	onFault  func(*FaultError)

	buf      []byte
	out      []byte // accepted bytes not yet handed over; part of buf
	pos, end int    // buf[pos:end] is not yet judged
	seen     int    // buf[pos:seen] holds no '\n'
	skipping bool   // inside a noise line whose head was thrown away
	ended    bool   // the source has no more
	err      error  // sticky

	rowLines, rowBytes int          // noise since the last message
	noise              atomic.Int64 // noise lines in all
}

func newLineReader(src *os.File, spec Spec, onFault func(*FaultError)) *lineReader {
	return &lineReader{
		src:      src,
		maxLine:  cmp.Or(spec.MaxLine, DefaultMaxLine),
		maxLines: cmp.Or(spec.MaxNoiseLines, DefaultMaxNoiseLines),
		maxBytes: cmp.Or(spec.MaxNoiseBytes, DefaultMaxNoiseBytes),
		redact:   spec.Redact,
		log:      spec.Logger,
		onFault:  onFault,
	}
}

// Read hands over as many accepted lines as are at hand and fit; it blocks only
// if there is none.
func (r *lineReader) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(r.out) == 0 && !r.next() {
			if n > 0 {
				break
			}
			if r.err != nil {
				return 0, r.err
			}
			r.fill()
			continue
		}
		c := copy(p[n:], r.out)
		r.out = r.out[c:]
		n += c
	}
	return n, nil
}

// next judges buffered lines until one is accepted into out; false if more
// input is needed or r.err says that none will come.
func (r *lineReader) next() bool {
	for r.err == nil {
		i := bytes.IndexByte(r.buf[r.seen:r.end], '\n')
		if i < 0 {
			r.seen = r.end
			r.checkPartial()
			return false
		}
		line := r.buf[r.pos : r.seen+i+1]
		r.pos += len(line)
		r.seen = r.pos
		if r.accept(line) {
			return true
		}
	}
	return false
}

// accept takes one whole line, with its '\n'.
func (r *lineReader) accept(line []byte) bool {
	if r.skipping {
		r.skipping = false
		r.rowBytes += len(line)
		r.checkNoise()
		return false
	}
	msg := trimLeft(line)
	if len(msg) == 0 || msg[0] != '{' && msg[0] != '[' {
		r.skip(line)
		return false
	}
	// The blanks at the end go, the '\n' moves up to the message.
	last := len(bytes.TrimRight(msg, " \t\r\n"))
	if last > r.maxLine {
		r.fail(LongLine, r.maxLine)
		return false
	}
	msg[last] = '\n'
	r.out = msg[:last+1]
	r.rowLines, r.rowBytes = 0, 0
	return true
}

// checkPartial keeps the buffer bounded while a line has no end yet: noise is
// thrown away as it comes, a message may fill maxLine.
func (r *lineReader) checkPartial() {
	part := r.buf[r.pos:r.end]
	if len(part) == 0 {
		return
	}
	if r.skipping {
		r.rowBytes += len(part)
		r.pos, r.seen = r.end, r.end
		r.checkNoise()
		return
	}
	msg := trimLeft(part)
	switch {
	case len(msg) > 0 && (msg[0] == '{' || msg[0] == '['):
		if len(msg) > r.maxLine+len("\r\n") {
			r.fail(LongLine, r.maxLine)
		}
	case len(part) > maxHead:
		// Enough of it for a log line; what it is will not change.
		r.skip(part)
		r.pos, r.seen = r.end, r.end
		r.skipping = true
	}
}

// fill reads once. It makes room first: what is left moves to the front, a full
// buffer grows.
func (r *lineReader) fill() {
	if r.ended {
		r.err = io.EOF
		return
	}
	switch {
	case r.pos == r.end:
		r.pos, r.end, r.seen = 0, 0, 0
		if len(r.buf) == 0 || len(r.buf) > busyBuf {
			r.buf = make([]byte, smallBuf)
		}
	case r.pos > 0:
		copy(r.buf, r.buf[r.pos:r.end])
		r.end -= r.pos
		r.seen -= r.pos
		r.pos = 0
	}
	if r.end == len(r.buf) {
		r.grow()
	}
	n, err := r.src.Read(r.buf[r.end:])
	r.end += n
	if n > 0 && r.end == len(r.buf) && len(r.buf) < busyBuf {
		r.grow()
	}
	if err != nil {
		r.finish(err)
	}
}

func (r *lineReader) grow() {
	bigger := make([]byte, 2*len(r.buf))
	copy(bigger, r.buf[:r.end])
	r.buf = bigger
}

// finish ends the stream. A last line without its end is a message only if it is
// whole: half of one would only confuse the peer's decoder.
func (r *lineReader) finish(err error) {
	r.ended = true
	if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
		r.err = err
		return
	}
	tail := r.buf[r.pos:r.end]
	switch msg := trimLeft(tail); {
	case len(tail) == 0 || r.skipping:
		r.pos, r.seen = r.end, r.end
	case len(msg) > 0 && (msg[0] == '{' || msg[0] == '[') && json.Valid(msg):
		if r.end == len(r.buf) {
			r.grow()
		}
		r.buf[r.end] = '\n'
		r.end++
	default:
		r.skip(tail)
		r.pos, r.seen = r.end, r.end
	}
}

// skip counts and logs one noise line, or the head of a long one.
func (r *lineReader) skip(line []byte) {
	total := r.noise.Add(1)
	r.rowLines++
	r.rowBytes += len(line)
	// The first lines are what a person needs to find the culprit; then 8, 16, 32 …
	if text := bytes.TrimSpace(line); len(text) > 0 && (total <= 5 || bits.OnesCount64(uint64(total)) == 1) {
		r.log.Warn("skipped a stdout line that is no JSON-RPC message", "line", visible(text, r.redact), "skipped", total)
	}
	r.checkNoise()
}

func (r *lineReader) checkNoise() {
	switch {
	case r.rowLines > r.maxLines:
		r.fail(NoiseLines, r.maxLines)
	case r.rowBytes > r.maxBytes:
		r.fail(NoiseBytes, r.maxBytes)
	}
}

func (r *lineReader) fail(kind FaultKind, limit int) {
	f := &FaultError{Kind: kind, Limit: limit}
	r.err = f
	r.buf, r.out, r.pos, r.end, r.seen = nil, nil, 0, 0, 0
	r.onFault(f)
}

// trimLeft removes a byte order mark and the blanks in front of a line.
func trimLeft(line []byte) []byte {
	for len(line) > 0 {
		switch line[0] {
		case ' ', '\t', '\r', '\n':
			line = line[1:]
		case 0xEF:
			rest, ok := bytes.CutPrefix(line, []byte("\xEF\xBB\xBF"))
			if !ok {
				return line
			}
			line = rest
		default:
			return line
		}
	}
	return line
}
