package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// maxQueued bounds the bytes that wait for a server that does not read.
const maxQueued = 16 << 20

// inputPatience is how long a connection outlives a failed write, so that the end of the process,
// which says more, can be noticed first.
const inputPatience = 2 * time.Second

var errNotReading = errors.New("the server does not read its input")

// lineQueue is the server's stdin as the library sees it: writes return at once, so
// that no request can miss its deadline inside a write to a full pipe. One goroutine,
// run, owns the real writes.
type lineQueue struct {
	w io.WriteCloser
	// patience returns how long one write may take; after that, or inputPatience after a write
	// that failed, stalled is called.
	patience func() time.Duration
	stalled  func(error) // ends the connection

	// wake has room for one: Write and Close send, run receives; never closed.
	wake chan struct{}
	// written has room for one: run sends after a write, flush receives; never closed.
	written chan struct{}

	mu     sync.Mutex
	lines  [][]byte
	size   int   // bytes in lines and of the line that run writes
	err    error // why nothing is written any more; nil: writes succeed
	closed bool
}

func newLineQueue(w io.WriteCloser, patience func() time.Duration, stalled func(error)) *lineQueue {
	return &lineQueue{w: w, patience: patience, stalled: stalled,
		wake: make(chan struct{}, 1), written: make(chan struct{}, 1)}
}

// Write queues p, which is one whole message.
func (q *lineQueue) Write(p []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.err != nil:
		return 0, q.err
	case q.size > 0 && q.size+len(p) > maxQueued:
		return 0, errNotReading
	}
	q.lines = append(q.lines, bytes.Clone(p))
	q.size += len(p)
	q.ring()
	return len(p), nil
}

// Close closes the real stdin; what is still queued is not written.
func (q *lineQueue) Close() error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return nil
	}
	q.closed = true
	if q.err == nil {
		q.err = io.ErrClosedPipe
	}
	q.ring()
	q.mu.Unlock()
	return q.w.Close()
}

// flush waits until nothing is queued any more, but not longer than the time given.
func (q *lineQueue) flush(patience time.Duration) {
	over := time.NewTimer(patience)
	defer over.Stop()
	for {
		q.mu.Lock()
		done := q.size == 0 || q.err != nil
		q.mu.Unlock()
		if done {
			return
		}
		select {
		case <-q.written:
		case <-over.C:
			return
		}
	}
}

func (q *lineQueue) ring() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// broken waits a moment after a write has failed, and then ends the connection: the server never
// gets the messages that were queued, and is not going to answer them.
func (q *lineQueue) broken(err error) {
	t := time.NewTimer(inputPatience)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			q.stalled(fmt.Errorf("%w: %w", errNotReading, err))
			return
		case <-q.wake:
		}
		q.mu.Lock()
		closed := q.closed
		q.mu.Unlock()
		if closed {
			return
		}
	}
}

// run writes until Close, or until a write fails.
func (q *lineQueue) run() {
	for range q.wake {
		q.mu.Lock()
		lines, done := q.lines, q.err != nil
		q.lines = nil
		q.mu.Unlock()
		if done {
			return
		}
		for _, line := range lines {
			t := time.AfterFunc(q.patience(), func() { q.stalled(errNotReading) })
			_, err := q.w.Write(line)
			t.Stop()
			q.mu.Lock()
			q.size -= len(line)
			if err != nil && q.err == nil {
				q.err = err
			}
			failed := q.err
			q.mu.Unlock()
			select {
			case q.written <- struct{}{}:
			default:
			}
			if failed != nil {
				q.broken(failed)
				return
			}
		}
	}
}
