package eventstream

import (
	"net/http"
	"sync/atomic"
	"time"
)

// maxPart is how many bytes a client must take within one deadline.
const maxPart = 64 << 10

// A Writer writes to one HTTP client. Each part of at most 64 KiB has its own
// deadline: a large answer may take long, but a client that stops reading fails the
// write. It belongs to one goroutine, except for Interrupt.
type Writer struct {
	w           http.ResponseWriter
	rc          *http.ResponseController
	deadline    func() time.Time
	interrupted atomic.Bool
}

// NewWriter returns a writer whose deadlines come from deadline, which is called before
// each part.
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

// Flush sends the buffered bytes to the client, with a new deadline.
func (w *Writer) Flush() error {
	w.Extend()
	return w.rc.Flush()
}

// Extend sets the next deadline. Writers without deadlines are left alone.
func (w *Writer) Extend() {
	_ = w.rc.SetWriteDeadline(w.deadline())
	if w.interrupted.Load() { // possibly after deadline was called: it must not undo Interrupt
		w.expire()
	}
}

// Interrupt fails the write in progress and all later ones. It may be called from
// another goroutine.
func (w *Writer) Interrupt() {
	w.interrupted.Store(true)
	w.expire()
}

func (w *Writer) expire() { _ = w.rc.SetWriteDeadline(time.Unix(1, 0)) }
