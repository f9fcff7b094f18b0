package realtime

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/coder/websocket"
)

// peer is our end of a WebSocket connection. coder/websocket 1.8.15 cannot distinguish a stream
// that ends within a message from the end of the message; ended can.
type peer struct {
	*websocket.Conn
	ended *atomic.Bool // set when a read failed because the underlying stream has ended
}

// errTruncated reports that a stream ended within a message.
var errTruncated = errors.New("the connection was lost in the middle of a message")

// fill reads until buf is full or the message ends. whole reports whether the message has ended. If
// a message fills buf exactly, only the next call, which reads no bytes, returns whole.
func (p *peer) fill(r io.Reader, buf []byte) (n int, whole bool, err error) {
	for n < len(buf) {
		m, err := r.Read(buf[n:])
		n += m
		switch {
		case err == io.EOF && p.ended.Load(): //nolint:errorlint // a wrapped one is a broken stream
			return n, true, errTruncated
		case err == io.EOF: //nolint:errorlint // as above
			return n, true, nil
		case err != nil:
			return n, false, err
		}
	}
	return n, false, nil
}

// send sends a client event.
func (p *peer) send(ctx context.Context, frame []byte) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return p.Write(ctx, websocket.MessageText, frame)
}

// probe pings the peer and waits for the pong.
func (p *peer) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, pongTimeout, errors.New("the endpoint did not respond to a ping"))
	defer cancel()
	if err := p.Ping(ctx); err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	return nil
}

// spy reads a stream, and sets ended when the stream has ended.
type spy struct {
	r     io.Reader
	late  error // an error that was returned together with the last bytes, as TLS may do; the next Read returns it
	ended *atomic.Bool
}

// Read returns an error, and sets ended, only after all bytes have been returned.
func (s *spy) Read(b []byte) (n int, err error) {
	if err = s.late; err == nil {
		n, err = s.r.Read(b)
	}
	if n > 0 && err != nil {
		s.late, err = err, nil
	}
	if err != nil {
		s.ended.Store(true)
	}
	return n, err
}

// spyTransport performs one WebSocket handshake, and sets ended when the resulting stream has
// ended.
type spyTransport struct {
	base  http.RoundTripper
	ended atomic.Bool
}

// RoundTrip implements [http.RoundTripper].
func (t *spyTransport) RoundTrip(q *http.Request) (*http.Response, error) {
	res, err := cmp.Or(t.base, http.DefaultTransport).RoundTrip(q)
	if err != nil {
		return nil, err
	}
	if stream, ok := res.Body.(io.ReadWriteCloser); ok {
		res.Body = struct {
			io.WriteCloser
			*spy
		}{stream, &spy{r: stream, ended: &t.ended}}
	}
	return res, nil
}

// spyWriter is the server-side counterpart of spyTransport: it sets ended when the stream of an
// upgraded request has ended.
type spyWriter struct {
	http.ResponseWriter
	ended atomic.Bool
}

// Unwrap returns the underlying writer, for [http.ResponseController].
func (w *spyWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Hijack implements [http.Hijacker].
func (w *spyWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, brw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	return &spyConn{conn, &spy{r: conn, ended: &w.ended}}, brw, nil
}

// spyConn is the server side of an upgraded connection.
type spyConn struct {
	net.Conn
	spy *spy
}

func (c *spyConn) Read(b []byte) (int, error) { return c.spy.Read(b) }
