package realtime

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/coder/websocket"

	"github.com/mcptrack/mcptrack/output/realtime/realtimetest"
)

// Close codes pass both ways, also none.
func TestProxyClose(t *testing.T) {
	for _, code := range []websocket.StatusCode{1000, 1001, 1011, 4000, websocket.StatusNoStatusRcvd} {
		reason := "because"
		if code == websocket.StatusNoStatusRcvd {
			reason = ""
		}
		want := websocket.CloseError{Code: code, Reason: reason}
		t.Run(fmt.Sprint("from the endpoint ", int(code)), func(t *testing.T) {
			x := startProxy(t, &realtimetest.Endpoint{Message: func(c *realtimetest.Conn, typ websocket.MessageType, b []byte) {
				echo(c, typ, b) // what was said before arrives
				_ = c.Close(code, reason)
			}}, nil)
			c := x.connect("/", nil)
			ctx, cancel := x.bound()
			defer cancel()
			_ = c.Write(ctx, websocket.MessageText, []byte("bye"))
			x.readUntil(c, "bye")
			if _, _, err := c.Read(ctx); !strings.Contains(err.Error(), want.Error()) {
				t.Errorf("%v, want %v", err, want)
			}
		})
		t.Run(fmt.Sprint("from the client ", int(code)), func(t *testing.T) {
			got := make(chan error, 1)
			x := startProxy(t, &realtimetest.Endpoint{Greet: func(c *realtimetest.Conn) {
				_, _, err := c.Read(c.Context())
				got <- err
			}}, nil)
			c := x.connect("/", nil)
			x.readUntil(c, "session.created")
			_ = c.Close(code, reason)
			if err := <-got; err == nil || !strings.Contains(err.Error(), want.Error()) {
				t.Errorf("%v, want %v", err, want)
			}
		})
	}
}

// The endpoint's close code arrives also while the client is talking.
func TestProxyCloseWhileTalking(t *testing.T) {
	x := startProxy(t, &realtimetest.Endpoint{Message: func(c *realtimetest.Conn, _ websocket.MessageType, _ []byte) {
		_ = c.Close(4000, "enough")
	}}, nil)
	for range 20 {
		c := x.connect("/", nil)
		x.readUntil(c, "session.created")
		ctx, cancel := x.bound()
		var talking sync.WaitGroup
		talking.Go(func() {
			for c.Write(ctx, websocket.MessageBinary, make([]byte, 100_000)) == nil {
			}
		})
		_, _, err := c.Read(ctx)
		if websocket.CloseStatus(err) != 4000 {
			t.Errorf("ended with %v", err)
		}
		_ = c.CloseNow()
		talking.Wait()
		cancel()
	}
}

// raw makes a WebSocket handshake by hand and returns the connection, to say what
// no library does.
func raw(t *testing.T, url string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v", res, err)
	}
	return conn, r
}

// beginnings are frames of which the end is missing.
func beginnings(masked bool) map[string][]byte {
	mask := byte(0)
	if masked {
		mask = 0x80
	}
	frame := func(first byte, size, sent int) []byte {
		b := []byte{first, mask | 126, byte(size >> 8), byte(size)}
		if masked {
			b = append(b, 0, 0, 0, 0)
		}
		return append(b, bytes.Repeat([]byte{'x'}, sent)...)
	}
	return map[string][]byte{
		"a header":             frame(0x81, 10_000, 0),
		"half a frame":         frame(0x81, 10_000, 5000),
		"all but a byte":       frame(0x82, 10_000, 9999),
		"the first fragment":   frame(0x01, 5000, 5000),
		"a fragment and a bit": append(frame(0x01, 5000, 5000), frame(0x80, 5000, 0)...),
		"a large one":          append(frame(0x02, 60_000, 60_000), frame(0x00, 60_000, 60_000)...),
	}
}

// A connection that breaks off breaks the other off, and what was only begun does
// not arrive as if it were whole, wherever it broke off.
func TestProxyBrokenOffByTheEndpoint(t *testing.T) {
	for name, begun := range beginnings(false) {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			defer wg.Wait()
			defer func() { _ = ln.Close() }()
			wg.Go(func() {
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				defer func() { _ = conn.Close() }()
				q, err := http.ReadRequest(bufio.NewReader(conn))
				if err != nil {
					t.Error(err)
					return
				}
				sum := sha1.Sum([]byte(q.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) // RFC 6455, §4.2.2
				_, _ = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n\r\n", base64.StdEncoding.EncodeToString(sum[:]))
				_, _ = conn.Write(begun)
			})
			x := startProxy(t, &realtimetest.Endpoint{}, func(o *ProxyOptions) { o.Upstream.URL = "ws://" + ln.Addr().String() })
			_, r := raw(t, x.url)
			if got := frames(t, r); got != 0 {
				t.Errorf("%d whole messages came", got)
			}
		})
	}
}

// frames counts the frames that end a message, up to the end of the stream.
func frames(t *testing.T, r *bufio.Reader) (last int) {
	t.Helper()
	for {
		var head [2]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return last
		}
		size := int64(head[1] & 0x7f)
		switch size {
		case 126:
			var n [2]byte
			_, _ = io.ReadFull(r, n[:])
			size = int64(binary.BigEndian.Uint16(n[:]))
		case 127:
			var n [8]byte
			_, _ = io.ReadFull(r, n[:])
			size = int64(binary.BigEndian.Uint64(n[:]))
		}
		if n, _ := io.CopyN(io.Discard, r, size); n < size {
			return last
		}
		if head[0]&0x80 != 0 {
			last++
		}
	}
}

func TestProxyBrokenOffByTheClient(t *testing.T) {
	for name, begun := range beginnings(true) {
		t.Run(name, func(t *testing.T) {
			over := make(chan []byte, 10)
			x := startProxy(t, &realtimetest.Endpoint{Message: func(_ *realtimetest.Conn, _ websocket.MessageType, b []byte) { over <- b }}, nil)
			conn, r := raw(t, x.url)
			_, _ = r.ReadByte() // session.created
			_, _ = conn.Write(begun)
			_ = conn.Close()
			ctx, cancel := x.bound()
			defer cancel()
			if err := x.Shutdown(ctx); err != nil { // waits for the session
				t.Fatal(err)
			}
			// The endpoint's library takes the end of the stream for that of a message; of
			// what fits the buffer nothing was passed on, though.
			if len(over) > 0 && name != "a large one" {
				t.Errorf("%d bytes arrived as a message", len(<-over))
			}
		})
	}
}

// Over TLS the end of the stream may come with the last bytes: they count, too.
func TestProxyTLS(t *testing.T) {
	far := &realtimetest.Endpoint{Message: func(c *realtimetest.Conn, typ websocket.MessageType, b []byte) {
		echo(c, typ, b)
		_ = c.Close(4000, "enough")
	}}
	end := httptest.NewTLSServer(far)
	defer end.Close()
	x := startProxy(t, far, func(o *ProxyOptions) {
		o.Upstream.URL = end.URL
		o.Upstream.Client = end.Client()
	})
	for _, size := range []int{10, 10_000, 300_000} {
		c := x.connect("/", nil)
		x.readUntil(c, "session.created")
		ctx, cancel := x.bound()
		if err := c.Write(ctx, websocket.MessageBinary, make([]byte, size)); err != nil {
			t.Error(err)
		}
		if _, b := x.read(c); len(b) != size {
			t.Errorf("%d of %d bytes", len(b), size)
		}
		if _, _, err := c.Read(ctx); websocket.CloseStatus(err) != 4000 {
			t.Errorf("ended with %v", err)
		}
		cancel()
	}
}

// A stream that ends with its last bytes has ended, but only after them.
func TestSpy(t *testing.T) {
	var ended atomic.Bool
	s := spy{r: iotest.DataErrReader(strings.NewReader("abcdef")), ended: &ended}
	b := make([]byte, 4)
	for _, want := range []string{"abcd", "ef"} {
		if n, err := s.Read(b); string(b[:n]) != want || err != nil || ended.Load() {
			t.Fatalf("%q, %v, ended %t", b[:n], err, ended.Load())
		}
	}
	if n, err := s.Read(b); n != 0 || err != io.EOF || !ended.Load() { //nolint:errorlint // exactly that
		t.Errorf("%d, %v, ended %t", n, err, ended.Load())
	}
}

// Shutdown ends every session with 1001, and none begins after it.
func TestProxyShutdown(t *testing.T) {
	ended := make(chan error, 1)
	x := startProxy(t, &realtimetest.Endpoint{Greet: func(c *realtimetest.Conn) {
		_, _, err := c.Read(c.Context())
		ended <- err
	}}, nil)
	c := x.connect("/", nil)
	x.readUntil(c, "session.created")
	seen := make(chan error, 1)
	go func() {
		_, _, err := c.Read(context.Background())
		seen <- err
	}()
	if err := x.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{<-ended, <-seen} {
		if websocket.CloseStatus(err) != websocket.StatusGoingAway {
			t.Errorf("ended with %v", err)
		}
	}
	if _, res, err := x.handshake("/", nil); err == nil || res == nil || res.StatusCode != 503 {
		t.Errorf("%v, %v", err, res)
	}
}
