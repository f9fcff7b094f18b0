package sse

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// client is one stream. It belongs to the goroutine of its handler, but for cut.
type client struct {
	hub    *Hub
	w      http.ResponseWriter
	rc     *http.ResponseController
	ctx    context.Context // ends with the request, or by cancel
	cancel context.CancelFunc
	feed   bool
	query  query
	ring   *ring
	beat   *time.Ticker
	next   uint64 // the number of the first entry that it was not offered yet
	told   uint64 // the number in the last id that it was sent
	live   bool   // it has reached the ring
	cut    atomic.Bool
}

// batch is how many frames are taken from the ring at a time.
const batch = 64

// headers begins the answer.
func (c *client) headers() {
	h := c.w.Header()
	h.Set("X-Accel-Buffering", "no")
	if c.feed {
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-cache, no-transform")
		h.Set("Connection", "keep-alive")
		h.Set("X-Reconnect-After", "5000")
		return
	}
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-store, no-transform")
}

// run sends until the stream ends, and says why it did.
func (c *client) run() reason {
	c.beat = time.NewTicker(c.hub.opts.Heartbeat)
	defer c.beat.Stop()
	// The answer begins before the store is asked anything.
	if err := c.write([]byte(c.preamble())); err != nil {
		return writeFailed(err)
	}
	next, gap, err := c.place(c.ctx)
	if err != nil {
		return c.sourceFailed()
	}
	c.next, c.told = next, next-1
	if gap != nil {
		c.hub.counts.gaps.Add(1)
		f := gapFrame(*gap, next-1)
		if err := c.write(f.bytes(c.feed)); err != nil {
			return writeFailed(err)
		}
	} else if !c.feed {
		if err := c.write([]byte(checkpoint(c.ring.epoch, next-1, time.Now()))); err != nil {
			return writeFailed(err)
		}
	}
	return c.send()
}

func (c *client) preamble() string {
	if c.feed {
		return retry(5*time.Second) + handshake(time.Now())
	}
	return retry(time.Second + rand.N(time.Second)) // spread over time
}

// send is the life of a stream: history while the ring has not what is next, then
// the ring.
func (c *client) send() reason {
	for {
		var frames [batch]*frame
		v := c.ring.take(c.next, frames[:])
		switch {
		case c.ctx.Err() != nil:
			return gone
		case v.over && (v.behind || v.n == 0):
			return replaced
		case v.behind && c.live:
			return overrun
		case v.behind:
			if why, more := c.page(); !more {
				return why
			}
			continue
		case v.n > 0:
			c.live = true
			if err := c.forward(frames[:v.n]); err != nil {
				return writeFailed(err)
			}
			continue
		}
		c.live = true
		c.next = max(c.next, v.shown)
		select {
		case <-c.hub.last:
			return c.stopped()
		default:
		}
		if why, more := c.idle(v.wake); !more {
			return why
		}
	}
}

// idle waits for a reason to go on.
func (c *client) idle(wake <-chan struct{}) (why reason, more bool) {
	select {
	case <-wake:
	case <-c.hub.last: // what was shown last is sent first
	case <-c.ctx.Done():
		return gone, false
	case <-c.beat.C:
		if err := c.heartbeat(); err != nil {
			return writeFailed(err), false
		}
	}
	return "", true
}

// forward writes frames from the ring as one.
func (c *client) forward(frames []*frame) error {
	var received time.Time
	n := 0
	for _, f := range frames {
		c.next = f.seq + 1
		b := f.bytes(c.feed)
		if b == nil || !c.query.filter.passes(f) {
			continue
		}
		if n == 0 {
			c.deadline()
		}
		if received.IsZero() {
			received = f.received
		}
		n++
		c.told = f.seq
		if _, err := c.w.Write(b); err != nil {
			return err
		}
	}
	if n == 0 {
		return nil
	}
	if err := c.rc.Flush(); err != nil {
		return err
	}
	c.hub.counts.sent.Add(uint64(n))
	if c.hub.opts.Wrote != nil {
		c.hub.opts.Wrote(n, received)
	}
	return nil
}

// heartbeat shows that the stream lives, and says how far it is if filters hid
// that.
func (c *client) heartbeat() error {
	text := heartbeat
	if !c.feed && c.told+1 < c.next {
		c.told = c.next - 1
		text = checkpoint(c.ring.epoch, c.told, time.Now()) + text
	}
	return c.write([]byte(text))
}

// stopped ends the stream when the tracker ends.
func (c *client) stopped() reason {
	text := stopped(c.feed, time.Now())
	if !c.feed && c.told+1 < c.next {
		text = checkpoint(c.ring.epoch, c.next-1, time.Now()) + text
	}
	if err := c.write([]byte(text)); err != nil {
		return writeFailed(err)
	}
	return ended
}

// sourceFailed closes a stream whose history cannot be read; the client tries
// again.
func (c *client) sourceFailed() reason {
	if c.ctx.Err() != nil {
		return gone
	}
	return failed
}

// write writes and flushes, piece by piece, each with its deadline.
func (c *client) write(b []byte) error {
	for len(b) > 0 {
		piece := b[:min(len(b), 64<<10)]
		b = b[len(piece):]
		c.deadline()
		if _, err := c.w.Write(piece); err != nil {
			return err
		}
		if err := c.rc.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// deadline gives the client its time for the next write.
func (c *client) deadline() {
	_ = c.rc.SetWriteDeadline(time.Now().Add(c.hub.opts.WriteTimeout))
	if c.cut.Load() {
		_ = c.rc.SetWriteDeadline(time.Unix(1, 0))
	}
}

func (f *frame) bytes(feed bool) []byte {
	if feed {
		return f.feed
	}
	return f.event
}

// writeFailed tells a client that is too slow from one that has left.
func writeFailed(err error) reason {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return slow
	}
	if errors.Is(err, io.ErrShortWrite) {
		return slow
	}
	return gone
}
