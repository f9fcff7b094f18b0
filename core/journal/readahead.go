package journal

import (
	"net"
	"sync"
)

// readAhead is a connection to the server in this process with a buffer. Without
// one the two ends of the pipe take turns: the server waits while the client parses
// what it wrote, and the client while the server collects more. Measured: reading
// the log with it is 1.3 to 1.7 times as fast.
//
// A goroutine of its own reads from the pipe; it belongs to the connection, and
// Close waits for it. One goroutine at a time may read from the connection. A
// deadline for reading that passes ends the connection for good; the client sets one
// for the handshake only.
type readAhead struct {
	net.Conn
	done chan struct{} // closed when the goroutine has ended

	taken []byte // the part of filled that Read has taken and not returned yet; only Read uses it
	given int    // bytes of taken that were returned

	mu     sync.Mutex // guards what follows
	moved  sync.Cond  // filled, err or closed has changed
	filled []byte
	err    error // of the pipe, to be returned after the bytes in filled
	closed bool
}

// aheadBytes bounds what is read ahead; aheadPiece what one call reads.
const (
	aheadBytes = 256 << 10
	aheadPiece = 64 << 10
)

func newReadAhead(c net.Conn) *readAhead {
	r := &readAhead{Conn: c, done: make(chan struct{})}
	r.moved.L = &r.mu
	go r.fill()
	return r
}

// fill reads until the pipe ends or the connection is closed.
func (r *readAhead) fill() {
	defer close(r.done)
	piece := make([]byte, aheadPiece)
	for {
		n, err := r.Conn.Read(piece)
		r.mu.Lock()
		for len(r.filled) > 0 && len(r.filled)+n > aheadBytes && !r.closed {
			r.moved.Wait()
		}
		r.filled = append(r.filled, piece[:n]...)
		r.err = err
		r.moved.Broadcast()
		r.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Read returns the bytes read ahead, in order, and then the error that ended the pipe.
func (r *readAhead) Read(p []byte) (int, error) {
	if r.given == len(r.taken) {
		r.mu.Lock()
		for len(r.filled) == 0 && r.err == nil {
			r.moved.Wait()
		}
		if len(r.filled) == 0 {
			defer r.mu.Unlock()
			return 0, r.err
		}
		r.taken, r.filled, r.given = r.filled, r.taken[:0], 0
		r.moved.Broadcast()
		r.mu.Unlock()
	}
	n := copy(p, r.taken[r.given:])
	r.given += n
	return n, nil
}

// Close closes the pipe and waits for the goroutine. What was read ahead can still
// be read.
func (r *readAhead) Close() error {
	r.mu.Lock()
	r.closed = true
	r.moved.Broadcast()
	r.mu.Unlock()
	err := r.Conn.Close()
	<-r.done
	return err
}
