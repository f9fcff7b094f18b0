package realtime

import (
	"bufio"
	"context"
	"encoding/binary"
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
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	return nil
}

// spyTransport performs one WebSocket handshake, and sets ended when the resulting stream has
// ended.
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
		res.Body = &spyStream{spy: newSpy(stream, t.ended), Closer: stream}
	}
	return res, nil
}

// spyStream is the client side of an upgraded connection.
type spyStream struct {
	spy
	io.Closer
}

// spyWriter is the server-side counterpart of spyTransport: it sets ended when the stream of an
// upgraded request has ended.
type spyWriter struct {
	http.ResponseWriter
	ended *atomic.Bool
}

// Unwrap returns the underlying writer, for [http.ResponseController].
func (w *spyWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Hijack implements [http.Hijacker].
func (w *spyWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, brw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	spied := &spyConn{Conn: conn, spy: newSpy(conn, w.ended)}
	// The buffered writer is empty, so it can be replaced by one that writes to the gatherer.
	return spied, bufio.NewReadWriter(brw.Reader, bufio.NewWriterSize(spied, 4<<10)), nil
}

// spyConn is the server side of an upgraded connection.
type spyConn struct {
	net.Conn
	spy spy
}

func (c *spyConn) Read(b []byte) (int, error)  { return c.spy.Read(b) }
func (c *spyConn) Write(b []byte) (int, error) { return c.spy.Write(b) }

// spy combines the written pieces of frames, and sets ended when the stream has ended. A read and a
// write may be concurrent.
type spy struct {
	r     io.Reader
	late  error // an error that was returned together with the last bytes, as TLS may do; the next Read returns it
	ended *atomic.Bool
	gatherer
}

func newSpy(stream io.ReadWriter, ended *atomic.Bool) spy {
	return spy{r: stream, ended: ended, gatherer: gatherer{w: stream}}
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

// gatherer combines the pieces of a WebSocket frame, which the library writes in units of 4 KiB,
// into one write. Otherwise each piece would wake the receiver, and require a separate packet and
// TLS record. It is not safe for concurrent use.
type gatherer struct {
	w    io.Writer
	held []byte   // beginning of a frame that was not written yet
	head [14]byte // header of the next frame
	have int      // number of bytes in head
	left uint64   // number of payload bytes of the frame still to come
}

// maxHeld limits the bytes of a frame that are held back.
const maxHeld = 64 << 10

// Write implements [io.Writer]. An incomplete frame may be held back until more is written.
func (g *gatherer) Write(b []byte) (int, error) {
	if whole := g.follow(b); !whole && len(g.held)+len(b) <= maxHeld {
		g.held = append(g.held, b...)
		return len(b), nil
	}
	if len(g.held) == 0 {
		return g.w.Write(b)
	}
	g.held = append(g.held, b...)
	_, err := g.w.Write(g.held)
	if g.held = g.held[:0]; cap(g.held) > maxHeld {
		g.held = nil
	}
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

// follow parses frames (RFC 6455, §5.2), and reports whether the end of b is the end of a frame.
func (g *gatherer) follow(b []byte) (whole bool) {
	for len(b) > 0 {
		if g.left > 0 {
			n := min(g.left, uint64(len(b)))
			g.left -= n
			b = b[n:]
			continue
		}
		g.head[g.have] = b[0]
		g.have++
		b = b[1:]
		if g.have < 2 {
			continue
		}
		size := uint64(g.head[1] & 0x7f)
		length := 2
		switch size {
		case 126:
			length += 2
		case 127:
			length += 8
		}
		masked := g.head[1]&0x80 != 0
		if masked {
			length += 4
		}
		if g.have < length {
			continue
		}
		switch size {
		case 126:
			size = uint64(binary.BigEndian.Uint16(g.head[2:]))
		case 127:
			size = binary.BigEndian.Uint64(g.head[2:])
		}
		g.have, g.left = 0, size
	}
	return g.have == 0 && g.left == 0
}
