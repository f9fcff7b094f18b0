package nowait

import (
	"io"
	"net"
	"syscall"
)

// Reader reads from a stream.
type Reader struct {
	from io.Reader
	raw  syscall.RawConn // nil if there is none
}

// NewReader returns a reader of a stream.
func NewReader(from io.Reader) *Reader { return &Reader{from, rawOf(from)} }

// Read implements [io.Reader].
func (r *Reader) Read(p []byte) (int, error) {
	if n := awaitRead(r.raw, p); n > 0 {
		return n, nil
	}
	return r.from.Read(p) // which says what is wrong, or that the stream has ended
}

// Writer writes to a stream.
type Writer struct {
	to  io.Writer
	raw syscall.RawConn // nil if there is none
}

// NewWriter returns a writer to a stream.
func NewWriter(to io.Writer) *Writer { return &Writer{to, rawOf(to)} }

// Try writes as much of p as is possible without waiting, and returns how many bytes that is. It reports no
// errors: the next Write does.
func (w *Writer) Try(p []byte) int { return tryWrite(w.raw, p) }

// Write implements [io.Writer].
func (w *Writer) Write(p []byte) (int, error) {
	n := w.Try(p)
	if n == len(p) {
		return n, nil
	}
	rest, err := w.to.Write(p[n:])
	return n + rest, err
}

func rawOf(stream any) syscall.RawConn {
	if c, ok := stream.(syscall.Conn); ok {
		if raw, err := c.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}

// Conn returns a connection that reads from and writes to c.
func Conn(c net.Conn) net.Conn { return &conn{c, NewReader(c), NewWriter(c)} }

type conn struct {
	net.Conn
	r *Reader
	w *Writer
}

func (c *conn) Read(p []byte) (int, error)  { return c.r.Read(p) }
func (c *conn) Write(p []byte) (int, error) { return c.w.Write(p) }
