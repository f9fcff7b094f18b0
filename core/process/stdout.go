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
	"sync/atomic"
)

const (
	// smallBuf is the buffer size for an idle child. busyBuf is the size of a Linux pipe, the most
	// that one read returns.
	smallBuf = 8 << 10
	busyBuf  = 64 << 10
	// maxSkipped is the factor of MaxLine up to which a long message is skipped; beyond it is a
	// fault.
	maxSkipped = 16
	// longHead and longTail are how many bytes of a skipped message are kept.
	longHead, longTail = 256, 256
)

// Lines yields the lines of a server's stdout that can be JSON-RPC messages and skips the others.
// Its one buffer grows with need up to MaxLine and shrinks once it is empty: nothing is allocated
// or copied per line. It has one reader.
type Lines struct {
	src    io.Reader
	limits lineLimits
	redact func(string) string
	log    *slog.Logger
	// onFault is called once, when a limit is exceeded.
	onFault func()

	buf      []byte
	line     []byte         // the line that next accepted; part of buf
	pos, end int            // buf[pos:end] is not yet examined
	seen     int            // buf[pos:seen] contains no '\n'
	skipping bool           // in a noise line whose beginning was discarded
	long     *LongLineError // the overlong message whose beginning was discarded; nil: none
	longSize int            // its bytes so far
	ended    bool           // the source ended
	err      error          // sticky

	noiseLines, noiseBytes int                    // since the last message
	skipped                atomic.Int64           // noise lines in total
	noise                  atomic.Pointer[string] // the first noise line since the last message; nil: none
}

// Noise returns the first noise line since the last message, printable and truncated; "" if there
// is none. It is safe for concurrent use.
func (r *Lines) Noise() string {
	if line := r.noise.Load(); line != nil {
		return *line
	}
	return ""
}

// lineLimits are the limits of a [Spec] with defaults filled in.
type lineLimits struct{ line, noiseLines, noiseBytes int }

// NewLines returns the lines of r within the limits of the spec, whose Redact and Logger are used
// for skipped lines. For the output of a [Process], see [Process.Stdout].
func NewLines(r io.Reader, spec Spec) *Lines {
	if spec.Logger == nil {
		spec.Logger = slog.New(slog.DiscardHandler)
	}
	return &Lines{
		src: r,
		limits: lineLimits{
			line:       cmp.Or(spec.MaxLine, DefaultMaxLine),
			noiseLines: cmp.Or(spec.MaxNoiseLines, DefaultMaxNoiseLines),
			noiseBytes: cmp.Or(spec.MaxNoiseBytes, DefaultMaxNoiseBytes),
		},
		redact:  spec.Redact,
		log:     spec.Logger,
		onFault: func() {},
	}
}

// Next returns the next line that begins, after blanks, with '{' or '[', followed by one '\n'. It
// removes a byte order mark, '\r' and blanks around the line. Other lines are noise: counted,
// logged and skipped. An unterminated last line is returned only if it is valid JSON. The line is
// valid until the next call.
//
// The error is io.EOF when the source ended or was closed, and a [*FaultError] when a limit was
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
// if r.err says that there is none.
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

// accept reports whether a whole line, with its '\n', is a message; otherwise it skips the line.
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
	// Remove trailing blanks and put the '\n' right after the message.
	last := len(bytes.TrimRight(msg, " \t\r\n"))
	if last > r.limits.line {
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

// checkPartial keeps the buffer bounded while a line is incomplete: noise is discarded as it
// arrives; a message may grow to the line limit.
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
		if len(msg) > r.limits.line+len("\r\n") {
			r.skipLong(msg)
			r.pos, r.seen = r.end, r.end
		}
	case len(part) > maxHead:
		// This is certainly noise, and enough of it for a log line.
		r.skip(part)
		r.pos, r.seen = r.end, r.end
		r.skipping = true
	}
}

// skipLong discards a part of an overlong message, except its first and last bytes.
func (r *Lines) skipLong(part []byte) {
	if r.long == nil {
		r.long = &LongLineError{Head: bytes.Clone(part[:min(len(part), longHead)]), Limit: r.limits.line}
		r.noiseLines, r.noiseBytes = 0, 0
	}
	if r.longSize += len(part); r.longSize > maxSkipped*r.limits.line {
		r.fail(LongLine, maxSkipped*r.limits.line)
		return
	}
	tail := append(r.long.Tail, part[max(0, len(part)-longTail):]...)
	r.long.Tail = bytes.Clone(tail[max(0, len(tail)-longTail):])
}

// fill reads once. It first makes room by moving unread bytes to the front and growing a full
// buffer.
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

// finish ends the stream. An unterminated last line is a message only if it is complete: half of
// one would only confuse the peer's decoder.
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

// skip counts and logs one noise line, or the head of a long one.
func (r *Lines) skip(line []byte) {
	total := r.skipped.Add(1)
	r.noiseLines++
	r.noiseBytes += len(line)
	text := bytes.TrimSpace(line)
	if len(text) > 0 && r.noise.Load() == nil {
		first := visible(text, r.redact)
		r.noise.Store(&first)
	}
	// Log the first five lines, which help to find the culprit, then the 8th, 16th, 32nd …
	if len(text) > 0 && (total <= 5 || bits.OnesCount64(uint64(total)) == 1) {
		r.log.Warn("skipped a line of stdout that is not a JSON-RPC message", "line", visible(text, r.redact), "skipped", total)
	}
	r.checkNoise()
}

func (r *Lines) checkNoise() {
	switch {
	case r.noiseLines > r.limits.noiseLines:
		r.fail(NoiseLines, r.limits.noiseLines)
	case r.noiseBytes > r.limits.noiseBytes:
		r.fail(NoiseBytes, r.limits.noiseBytes)
	}
}

func (r *Lines) fail(kind FaultKind, limit int) {
	f := &FaultError{Kind: kind, Limit: limit}
	r.err, r.long = f, nil
	r.buf, r.line, r.pos, r.end, r.seen = nil, nil, 0, 0, 0
	r.onFault()
}

// trimLeft removes a byte order mark and blanks before a line.
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

// FaultError means that the child exceeded a limit of its [Spec] on stdout and was terminated.
type FaultError struct {
	Kind FaultKind
	// Limit is the exceeded limit, in the unit of Kind.
	Limit int
}

// FaultKind is one limit of a [Spec].
type FaultKind int

// The limits.
const (
	LongLine   FaultKind = iota // a message of more than maxSkipped times MaxLine bytes
	NoiseLines                  // more than MaxNoiseLines consecutive noise lines
	NoiseBytes                  // more than MaxNoiseBytes consecutive noise bytes
)

func (e *FaultError) Error() string {
	switch e.Kind {
	case LongLine:
		return fmt.Sprintf("stdout: a line is longer than %d bytes", e.Limit)
	case NoiseLines:
		return fmt.Sprintf("stdout: more than %d consecutive lines are not JSON-RPC", e.Limit)
	default:
		return fmt.Sprintf("stdout: more than %d consecutive bytes are not JSON-RPC", e.Limit)
	}
}

// LongLineError means that a message longer than MaxLine of the [Spec] was skipped.
type LongLineError struct {
	// Head and Tail are its first and last bytes.
	Head, Tail []byte
	Limit      int
}

func (e *LongLineError) Error() string {
	return fmt.Sprintf("stdout: a line of more than %d bytes was skipped", e.Limit)
}
