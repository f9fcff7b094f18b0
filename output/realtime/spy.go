package realtime

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/coder/websocket"
)

// peer is our end of a connection. coder/websocket 1.8.15 does not distinguish the end of
// the stream within a message from the end of the message; ended tells them apart.
type peer struct {
	*websocket.Conn
	ended *atomic.Bool // the stream below the WebSocket has ended: set when a read of it failed
}

// spyTransport makes the request of one WebSocket handshake, and sets ended when the stream
// that the handshake opens has ended.
type spyTransport struct {
	base  http.RoundTripper
	ended *atomic.Bool
}

// RoundTrip implements [http.RoundTripper].
func (t *spyTransport) RoundTrip(q *http.Request) (*http.Response, error) {
	base := t.base
	if base == nil {
		base = http.DefaultTransport
	}
	res, err := base.RoundTrip(q)
	if err != nil {
		return nil, err
	}
	t.ended = new(atomic.Bool)
	if stream, ok := res.Body.(io.ReadWriteCloser); ok {
		res.Body = &spyStream{ReadWriteCloser: stream, ended: t.ended, gather: gatherer{w: stream}}
	}
	return res, nil
}

type spyStream struct {
	io.ReadWriteCloser
	ended  *atomic.Bool
	late   error // an error that came with the last bytes, as it may with TLS; for the next Read
	gather gatherer
}

func (s *spyStream) Write(b []byte) (int, error) { return s.gather.Write(b) }

func (s *spyStream) Read(b []byte) (int, error) { return spy(s.ReadWriteCloser, b, &s.late, s.ended) }

// spy reads from r. It returns an error only when there are no more bytes: an error that comes
// with bytes is kept in late for the next call. It sets ended when it returns an error.
func spy(r io.Reader, b []byte, late *error, ended *atomic.Bool) (n int, err error) {
	if err = *late; err == nil {
		n, err = r.Read(b)
	}
	if n > 0 && err != nil {
		*late, err = err, nil
	}
	if err != nil {
		ended.Store(true)
	}
	return n, err
}

// spyWriter is the counterpart of spyTransport on the server's side: it sets ended when the
// stream of an upgraded request has ended.
type spyWriter struct {
	http.ResponseWriter
	ended *atomic.Bool
}

// Unwrap is for [http.ResponseController].
func (w *spyWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Hijack implements [http.Hijacker].
func (w *spyWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, brw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	spied := &spyConn{Conn: conn, ended: w.ended, gather: gatherer{w: conn}}
	// The writer is empty; from here on it writes to the gatherer.
	return spied, bufio.NewReadWriter(brw.Reader, bufio.NewWriterSize(spied, 4<<10)), nil
}

type spyConn struct {
	net.Conn
	ended  *atomic.Bool
	late   error
	gather gatherer
}

func (c *spyConn) Write(b []byte) (int, error) { return c.gather.Write(b) }

func (c *spyConn) Read(b []byte) (int, error) { return spy(c.Conn, b, &c.late, c.ended) }
