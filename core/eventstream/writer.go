package eventstream

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Append appends one event to b. An id or type is omitted if it is empty or contains a line break.
// Data is split into lines and may be empty.
func Append(b []byte, id, typ string, data []byte) []byte {
	if id != "" && ValidID(id) {
		b = append(append(append(b, "id: "...), id...), '\n')
	}
	if typ != "" && !strings.ContainsAny(typ, "\r\n") {
		b = append(append(append(b, "event: "...), typ...), '\n')
	}
	for more := true; more; {
		var line []byte
		line, data, more = cutLine(data)
		b = append(append(append(b, "data: "...), line...), '\n')
	}
	return append(b, '\n')
}

// AppendRetry appends a retry field, which tells a client how long to wait before it reconnects.
func AppendRetry(b []byte, d time.Duration) []byte {
	return append(strconv.AppendInt(append(b, "retry: "...), d.Milliseconds(), 10), "\n\n"...)
}

// AppendComment appends a one-line comment. Clients ignore comments, but proxies treat them as
// traffic and keep an idle stream open.
func AppendComment(b []byte, text string) []byte {
	return append(append(append(b, ": "...), text...), "\n\n"...)
}

// cutLine splits b after its first line ending: LF, CR or CRLF.
func cutLine(b []byte) (line, rest []byte, more bool) {
	i := bytes.IndexAny(b, "\r\n")
	if i < 0 {
		return b, nil, false
	}
	rest = b[i+1:]
	if b[i] == '\r' {
		rest = bytes.TrimPrefix(rest, []byte("\n"))
	}
	return b[:i], rest, true
}

// maxPart is the most bytes written under one deadline. A client that does not accept them in time
// is disconnected.
const maxPart = 64 << 10

// A Writer writes a response to one HTTP client. Each part of at most 64 KiB has its own deadline,
// so a large response may take long, but writing fails if the client stops reading. Only Interrupt
// is safe for concurrent use.
type Writer struct {
	w           http.ResponseWriter
	rc          *http.ResponseController
	deadline    func() time.Time
	interrupted atomic.Bool
}

// NewWriter returns a Writer that calls deadline before each part.
func NewWriter(w http.ResponseWriter, deadline func() time.Time) *Writer {
	return &Writer{w: w, rc: http.NewResponseController(w), deadline: deadline}
}

// Write implements io.Writer. It does not flush.
func (w *Writer) Write(b []byte) (n int, err error) {
	for len(b) > 0 && err == nil {
		part := b[:min(len(b), maxPart)]
		b = b[len(part):]
		w.Extend()
		var m int
		m, err = w.w.Write(part)
		n += m
	}
	return n, err
}

// Flush sends the buffered bytes to the client with a new deadline.
func (w *Writer) Flush() error {
	w.Extend()
	return w.rc.Flush()
}

// Extend sets a new deadline. It has no effect on response writers that do not support deadlines.
func (w *Writer) Extend() {
	_ = w.rc.SetWriteDeadline(w.deadline())
	if w.interrupted.Load() { // Interrupt may have run since deadline was called; keep its effect
		w.expire()
	}
}

// Interrupt aborts the write in progress and makes all later writes fail. It may be called from
// another goroutine.
func (w *Writer) Interrupt() {
	w.interrupted.Store(true)
	w.expire()
}

func (w *Writer) expire() { _ = w.rc.SetWriteDeadline(time.Unix(1, 0)) }
