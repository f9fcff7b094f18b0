package feed

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"time"

	"github.com/mcptrack/mcptrack/core/eventstream"
)

// streamClient is one open stream. Its handler uses it alone; only cut may be called from other
// goroutines.
type streamClient struct {
	hub    *Hub
	w      http.ResponseWriter
	out    *eventstream.Writer
	ctx    context.Context // cancelled with the request or by cancel
	cancel context.CancelFunc
	feed   bool // the client requested Hub.Feed, not Hub.Events
	query  query
	ring   *ring
	beat   *time.Ticker // heartbeat timer
	next   uint64       // number of the first entry neither sent nor filtered out
	sent   uint64       // number in the last sent ID
	live   bool         // caught up with history; reads from the ring
}

// cut makes all further reads and writes of the client's handler fail, so that its stream ends. It
// is safe for concurrent use.
func (c *streamClient) cut() {
	c.cancel()
	c.out.Interrupt()
}

// batch is the maximum number of frames read from the ring in one step.
const batch = 64

// headers sets the response headers.
func (c *streamClient) headers() {
	h := c.w.Header()
	h.Set("X-Accel-Buffering", "no")
	if c.feed {
		h.Set("Content-Type", eventstream.ContentType)
		h.Set("Cache-Control", "no-cache, no-transform")
		h.Set("Connection", "keep-alive")
		h.Set("X-Reconnect-After", "5000")
		return
	}
	h.Set("Content-Type", eventstream.ContentType+"; charset=utf-8")
	h.Set("Cache-Control", "no-store, no-transform")
}

// run sends events until the stream ends, and returns the reason.
func (c *streamClient) run() reason {
	c.beat = time.NewTicker(c.hub.opts.Heartbeat)
	defer c.beat.Stop()
	// Start the response before querying the log, which may take time.
	if why := c.write(c.preamble()); why != "" {
		return why
	}
	next, gap, err := c.place(c.ctx)
	if err != nil {
		return c.readFailed()
	}
	c.next, c.sent = next, next-1
	var why reason
	if gap != nil {
		c.hub.counts.gaps.Add(1)
		why = c.write(c.bytes(gapFrame(*gap, next-1)))
	} else if !c.feed {
		why = c.write(appendCheckpoint(nil, c.ring.epoch, next-1, time.Now()))
	}
	if why != "" {
		return why
	}
	return c.send()
}

func (c *streamClient) preamble() []byte {
	if c.feed {
		return appendHandshake(eventstream.AppendRetry(nil, 5*time.Second), time.Now())
	}
	return eventstream.AppendRetry(nil, time.Second+rand.N(time.Second)) // random, so that clients do not all reconnect simultaneously
}

// send sends pages of history until the ring contains the next entry, and then frames from the
// ring. It returns why the stream ended.
func (c *streamClient) send() reason {
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
			if why := c.page(); why != "" {
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
		if why := c.idle(v.wake); why != "" {
			return why
		}
	}
}

// idle waits until there may be something to send, and sends heartbeats meanwhile. It returns why
// the stream must end, or "" if it continues.
func (c *streamClient) idle(wake <-chan struct{}) reason {
	select {
	case <-wake:
	case <-c.hub.last: // send first sends the last frames
	case <-c.ctx.Done():
		return gone
	case <-c.beat.C:
		return c.heartbeat()
	}
	return ""
}

// forward writes the frames that pass the client's filter, and flushes them once.
func (c *streamClient) forward(frames []*frame) error {
	var received time.Time
	n := 0
	for _, f := range frames {
		c.next = f.seq + 1
		if !c.query.filter.passes(f) {
			continue
		}
		b := c.bytes(f)
		if b == nil {
			continue
		}
		if n == 0 {
			c.out.Extend()
		}
		if received.IsZero() {
			received = f.received
		}
		n++
		c.sent = f.seq
		if _, err := c.w.Write(b); err != nil {
			return err
		}
	}
	if n == 0 {
		return nil
	}
	if err := c.out.Flush(); err != nil {
		return err
	}
	c.hub.counts.sent.Add(uint64(n))
	if c.hub.opts.Wrote != nil {
		c.hub.opts.Wrote(n, received)
	}
	return nil
}

// heartbeat keeps the stream alive. If filters have hidden events since the last ID, it also sends
// a checkpoint.
func (c *streamClient) heartbeat() reason {
	var b []byte
	if !c.feed && c.sent+1 < c.next {
		c.sent = c.next - 1
		b = appendCheckpoint(b, c.ring.epoch, c.sent, time.Now())
	}
	return c.write(eventstream.AppendComment(b, "heartbeat"))
}

// stopped sends the final frame of a stream when the hub shuts down.
func (c *streamClient) stopped() reason {
	var b []byte
	if !c.feed && c.sent+1 < c.next {
		b = appendCheckpoint(b, c.ring.epoch, c.next-1, time.Now())
	}
	if why := c.write(appendStopped(b, c.feed, time.Now())); why != "" {
		return why
	}
	return ended
}

// readFailed returns why the stream ends after a read of the log failed.
func (c *streamClient) readFailed() reason {
	if c.ctx.Err() != nil {
		return gone
	}
	return failed
}

// write writes b and flushes it. It returns why the stream must end, or "" if it continues.
func (c *streamClient) write(b []byte) reason {
	if _, err := c.out.Write(b); err != nil {
		return writeFailed(err)
	}
	if err := c.out.Flush(); err != nil {
		return writeFailed(err)
	}
	return ""
}

// bytes returns a frame as this client receives it, or nil if it does not.
func (c *streamClient) bytes(f *frame) []byte {
	switch {
	case c.feed:
		return f.feed
	case c.query.described:
		return f.described()
	}
	return f.event
}

// writeFailed distinguishes a slow client from one that has disconnected.
func writeFailed(err error) reason {
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, io.ErrShortWrite) {
		return slow
	}
	return gone
}

// Limits for pages of history. A page is read into memory before it is written, so that a slow
// client does not keep the log open.
const (
	pageBytes   = 128 << 10 // an event that exceeds it is the last one of its page
	pageEntries = 1 << 14   // maximum number of log entries read for one page
)

// page sends the next page of history, which ends no later than where the ring continues. It
// returns why the stream must end, or "" if it continues.
func (c *streamClient) page() reason {
	text, events, why := c.history()
	if why == "" {
		why = c.write(text)
	}
	if why != "" {
		return why
	}
	c.hub.counts.replayed.Add(uint64(events))
	if events == 0 {
		return c.heartbeat()
	}
	return ""
}

// history reads the next page from the log: the events in it, encoded for the client, and their number. It
// returns why the stream must end, or "" if it continues.
func (c *streamClient) history() (text []byte, events int, why reason) {
	for turn := false; !turn; {
		select {
		case <-c.hub.last:
			return nil, 0, c.stopped()
		default:
		}
		select {
		case c.hub.readers <- struct{}{}:
			defer func() { <-c.hub.readers }()
			turn = true
		case <-c.hub.last:
		case <-c.ctx.Done():
			return nil, 0, gone
		case <-c.beat.C: // many clients may be waiting
			if why := c.heartbeat(); why != "" {
				return nil, 0, why
			}
		}
	}
	bounds, err := c.hub.opts.Log.Bounds(c.ctx)
	if err != nil {
		return nil, 0, c.readFailed()
	}
	begin, read, end := c.next, 0, true
	for e, err := range c.hub.opts.Log.Read(c.ctx, c.next) {
		if err != nil {
			if read == 0 {
				return nil, 0, c.readFailed()
			}
			end = false
			break // send the events read so far; the next page reports the error
		}
		if !ofEpoch(e.ID, c.ring.epoch) {
			return nil, 0, replaced
		}
		f := newFrame(&e, c.ring.epoch)
		if b := c.bytes(f); b != nil && c.query.filter.passes(f) {
			text = append(text, b...)
			c.sent = f.seq
			events++
		}
		c.next = f.seq + 1
		read++
		if len(text) >= pageBytes || read >= pageEntries || c.ring.reach(c.next) {
			end = false
			break
		}
	}
	if end && bounds.Epoch == c.ring.epoch { // some logs do not show every number, not even the last
		c.next = max(c.next, bounds.Last+1)
	}
	if c.next == begin { // neither ring nor log contains the next entry: the log was truncated meanwhile
		return nil, 0, c.readFailed()
	}
	return text, events, ""
}
