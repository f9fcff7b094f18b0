package sessiontest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Middlebox is an in-memory network between HTTP clients and one server. It simulates a NAT that
// silently drops open event streams: anything that the server writes to them is discarded, and
// neither side notices.
type Middlebox struct {
	accepted chan net.Conn // receives connections from DialContext; never closed
	closed   chan struct{} // closed by Close
	once     sync.Once

	mu    sync.Mutex // guards conns
	conns []*boxed
}

func NewMiddlebox() *Middlebox {
	return &Middlebox{accepted: make(chan net.Conn), closed: make(chan struct{})}
}

// DialContext connects to the server.
func (m *Middlebox) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case m.accepted <- server:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-m.closed:
		return nil, errors.New("connection refused")
	}
	c := &boxed{Conn: client}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.conns = append(m.conns, c)
	return c, nil
}

// Dialled returns how many connections DialContext has made.
func (m *Middlebox) Dialled() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.conns)
}

// Accept implements [net.Listener].
func (m *Middlebox) Accept() (net.Conn, error) {
	select {
	case c := <-m.accepted:
		return c, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (m *Middlebox) Close() error { m.once.Do(func() { close(m.closed) }); return nil }

// Addr implements [net.Listener].
func (m *Middlebox) Addr() net.Addr { return &net.TCPAddr{} }

// Forget silently drops all open event streams.
func (m *Middlebox) Forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.conns {
		c.dead.Store(c.stream.Load())
	}
}

// boxed is the client's end of a connection through the middlebox.
type boxed struct {
	net.Conn
	stream, dead, closed atomic.Bool
}

func (c *boxed) Write(b []byte) (int, error) {
	if bytes.HasPrefix(b, []byte("GET ")) || bytes.Contains(b, []byte("subscriptions/listen")) {
		c.stream.Store(true)
	}
	return c.Conn.Write(b)
}

// Close is invisible to the server if the connection is dead.
func (c *boxed) Close() error {
	if !c.dead.Load() {
		return c.Conn.Close()
	}
	c.closed.Store(true)
	return c.SetReadDeadline(time.Now())
}

func (c *boxed) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		switch {
		case err != nil && c.closed.Load():
			_ = c.SetReadDeadline(time.Time{})
			go func() { _, _ = io.Copy(io.Discard, c.Conn) }() // stops when the server closes the connection
			return 0, net.ErrClosed
		case err != nil || !c.dead.Load():
			return n, err
		}
	}
}

// Serve serves HTTP on the network until stop is called.
func (m *Middlebox) Serve(handler http.Handler) (stop func()) {
	server := &http.Server{Handler: handler}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(m) })
	return func() {
		_ = server.Close()
		serving.Wait()
	}
}
