package process

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/bits"
	"os"
	"runtime"
	"sync/atomic"

	"github.com/mcptrack/mcptrack/core/nowait"
)

const (
	// smallBuf is the initial buffer size, used while the child is idle. busyBuf is the size of a
	// Linux pipe, and therefore the most that one read can return.
	smallBuf = 8 << 10
	busyBuf  = 64 << 10
	// maxSkipped is the multiple of MaxLine up to which a long message is skipped. A longer message
	// is a fault.
	maxSkipped = 16
	// longHead and longTail are how many bytes are kept from the start and the end of a skipped
	// message.
	longHead, longTail = 256, 256
)

// Lines reads a server's stdout, returns the lines that may be JSON-RPC messages, and skips all
// others. Its single buffer grows on demand up to MaxLine and shrinks once it is empty; nothing is
// allocated or copied per line. Only one goroutine may read from it.
type Lines struct {
	src     io.Reader
	maxLine int
	redact  func(string) string
	log     *slog.Logger
	// onFault is called once, when a limit is exceeded.
	onFault func()

	buf      []byte
	line     []byte         // the most recently accepted line; a slice of buf
	pos, end int            // buf[pos:end] has not been examined yet
	seen     int            // buf[pos:seen] contains no '\n'
	skipping bool           // inside a noise line whose start was discarded
	long     *LongLineError // the overlong message being skipped; nil if none
	longSize int            // how many bytes of that message were read so far
	ended    bool           // the source has reached its end
	err      error          // sticky: returned by every further call

	noiseLines, noiseBytes int                    // counted since the last message
	skipped                atomic.Int64           // total number of noise lines
	noise                  atomic.Pointer[string] // first noise line since the last message; nil if none
	first                  atomic.Pointer[string] // first noise line of all; nil if none
}

// FirstNoise returns the first noise line of all that is not blank, printable and truncated, or "" if
// there is none. It is safe for concurrent use.
func (r *Lines) FirstNoise() string {
	if line := r.first.Load(); line != nil {
		return *line
	}
	return ""
}

// Noise returns the first noise line since the last message, printable and truncated, or "" if
// there is none. It is safe for concurrent use.
func (r *Lines) Noise() string {
	if line := r.noise.Load(); line != nil {
		return *line
	}
	return ""
}

// NewLines returns a Lines that reads from r with the limits of the spec. It uses the spec's Redact
// and Logger for skipped lines. To read the output of a [Process], use [Process.Stdout] instead.
func NewLines(r io.Reader, spec Spec) *Lines {
	if spec.Logger == nil {
		spec.Logger = slog.New(slog.DiscardHandler)
	}
	return &Lines{src: nowait.NewReader(r), maxLine: cmp.Or(spec.MaxLine, maxLine), redact: spec.Redact, log: spec.Logger, onFault: func() {}}
}

// Next returns the next line that may be a message: its first non-blank character is '{' or '['.
// The result ends with one '\n'; a byte order mark, '\r' and surrounding blanks are removed. Other
// lines are noise: they are counted, logged and skipped. An unterminated last line is returned only
// if it is valid JSON. The returned slice is valid until the next call.
//
// The error is io.EOF when the source has ended or was closed, and a [*FaultError] when a limit was
// exceeded. After a [*LongLineError], Next can be called again.
func (r *Lines) Next() ([]byte, error) {
	for !r.next() {
		if long := r.long; long != nil && r.longSize == 0 {
			r.long = nil
			return nil, long
		}
		if r.err != nil {
			return nil, r.err
		}
		r.fill()
	}
	return r.line, nil
}

// next examines buffered lines until it accepts one. It returns false if more input is needed, or
// if r.err is set because the input has ended.
func (r *Lines) next() bool {
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
		if r.long != nil {
			return false
		}
	}
	return false
}

// accept reports whether a complete line, including its '\n', is a message. Otherwise it skips the
// line.
func (r *Lines) accept(line []byte) bool {
	if r.long != nil {
		r.skipLong(line)
		r.longSize = 0
		return false
	}
	if r.skipping {
		r.skipping = false
		r.noiseBytes += len(line)
		r.checkNoise()
		return false
	}
	msg := trimLeft(line)
	if len(msg) == 0 || msg[0] != '{' && msg[0] != '[' {
		r.skip(line)
		return false
	}
	// Remove trailing blanks and put '\n' directly after the message.
	last := len(bytes.TrimRight(msg, " \t\r\n"))
	if last > r.maxLine {
		r.skipLong(msg)
		r.longSize = 0
		return false
	}
	msg[last] = '\n'
	r.line = msg[:last+1]
	r.noiseLines, r.noiseBytes = 0, 0
	r.noise.Store(nil)
	return true
}

// checkPartial limits the buffer while a line is incomplete: noise is discarded as it arrives, and
// a message may grow up to the line limit.
func (r *Lines) checkPartial() {
	part := r.buf[r.pos:r.end]
	if len(part) == 0 {
		return
	}
	if r.long != nil {
		r.skipLong(part)
		r.pos, r.seen = r.end, r.end
		return
	}
	if r.skipping {
		r.noiseBytes += len(part)
		r.pos, r.seen = r.end, r.end
		r.checkNoise()
		return
	}
	msg := trimLeft(part)
	switch {
	case len(msg) > 0 && (msg[0] == '{' || msg[0] == '['):
		if len(msg) > r.maxLine+len("\r\n") {
			r.skipLong(msg)
			r.pos, r.seen = r.end, r.end
		}
	case len(part) > maxHead:
		// This is certainly noise, and there is enough of it for a log line.
		r.skip(part)
		r.pos, r.seen = r.end, r.end
		r.skipping = true
	}
}

// skipLong discards part of an overlong message, except for its first and last bytes.
func (r *Lines) skipLong(part []byte) {
	if r.long == nil {
		r.long = &LongLineError{Head: bytes.Clone(part[:min(len(part), longHead)]), Limit: r.maxLine}
		r.noiseLines, r.noiseBytes = 0, 0
	}
	if r.longSize += len(part); r.longSize > maxSkipped*r.maxLine {
		r.fail("a line is longer than %d bytes", maxSkipped*r.maxLine)
		return
	}
	tail := append(r.long.Tail, part[max(0, len(part)-longTail):]...)
	r.long.Tail = bytes.Clone(tail[max(0, len(tail)-longTail):])
}

// fill reads from the source once. Before that it makes space by moving unread bytes to the start
// of the buffer and by growing a full buffer.
func (r *Lines) fill() {
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
	runtime.Gosched() // what was read before may have woken goroutines: they run before this one waits
	n, err := r.src.Read(r.buf[r.end:])
	r.end += n
	if n > 0 && r.end == len(r.buf) && len(r.buf) < busyBuf {
		r.grow()
	}
	if err != nil {
		r.finish(err)
	}
}

func (r *Lines) grow() {
	bigger := make([]byte, 2*len(r.buf))
	copy(bigger, r.buf[:r.end])
	r.buf = bigger
}

// finish ends the stream. An unterminated last line is returned only if it is complete JSON,
// because a partial message would only confuse the decoder.
func (r *Lines) finish(err error) {
	r.ended = true
	if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
		r.err = err
		return
	}
	tail := r.buf[r.pos:r.end]
	switch msg := trimLeft(tail); {
	case len(tail) == 0 || r.skipping || r.long != nil:
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

// skip counts one noise line, or the start of a long one, and may log it.
func (r *Lines) skip(line []byte) {
	total := r.skipped.Add(1)
	r.noiseLines++
	r.noiseBytes += len(line)
	text := bytes.TrimSpace(line)
	if len(text) > 0 && r.noise.Load() == nil {
		first := visible(text, r.redact)
		r.noise.Store(&first)
		r.first.CompareAndSwap(nil, &first)
	}
	// Log the first five lines, which help to find the cause, and then only the 8th, 16th, 32nd …
	if len(text) > 0 && (total <= 5 || bits.OnesCount64(uint64(total)) == 1) {
		r.log.Warn("skipped a line of stdout that is not a JSON-RPC message", "line", visible(text, r.redact), "skipped", total)
	}
	r.checkNoise()
}

func (r *Lines) checkNoise() {
	switch {
	case r.noiseLines > maxNoiseLines:
		r.fail("more than %d consecutive lines are not JSON-RPC", maxNoiseLines)
	case r.noiseBytes > maxNoiseBytes:
		r.fail("more than %d consecutive bytes are not JSON-RPC", maxNoiseBytes)
	}
}

func (r *Lines) fail(problem string, limit int) {
	r.err, r.long = &FaultError{fmt.Sprintf("stdout: "+problem, limit)}, nil
	r.buf, r.line, r.pos, r.end, r.seen = nil, nil, 0, 0, 0
	r.onFault()
}

// trimLeft removes a byte order mark and blanks at the start of a line.
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

// FaultError reports that the child exceeded a limit on stdout and was terminated.
type FaultError struct{ Problem string }

func (e *FaultError) Error() string { return e.Problem }

// LongLineError reports that a message longer than MaxLine in [Spec] was skipped.
type LongLineError struct {
	// Head and Tail are the first and last bytes of the skipped message.
	Head, Tail []byte
	Limit      int
}

func (e *LongLineError) Error() string {
	return fmt.Sprintf("stdout: a line of more than %d bytes was skipped", e.Limit)
}
