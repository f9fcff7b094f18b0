package wire

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/eventstream"
)

// StreamIdle is how long a notification stream may be silent before it is replaced, because a proxy
// or firewall may have dropped the connection without either side noticing. Keep-alive comments
// also count as activity.
const StreamIdle = 45 * time.Second

const (
	// streamPatience limits how long AwaitStream waits for a legacy server to open its notification
	// stream. Some servers send the headers only with the first event.
	streamPatience = 2 * time.Second
	// reopenDelay is the minimum interval between two attempts to open the stream if the server
	// ends it immediately.
	reopenDelay = time.Second
	// maxStreamFailures is how many consecutive attempts to reopen a stream may receive no response
	// before the connection is considered lost.
	maxStreamFailures = 3
	// firstOpenWait is the maximum wait between two attempts if the stream has never been open.
	firstOpenWait = 30 * time.Second
	// replacePatience limits how long a server may take to open a stream that replaces a silent
	// one. If it takes longer, the silent stream is kept for another StreamIdle.
	replacePatience = 10 * time.Second
)

// notificationStream keeps the notification stream of a legacy Streamable HTTP session open.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#listening-for-messages-from-the-server
type notificationStream struct {
	conn *Conn
	stop context.CancelFunc
	// first receives from run the HTTP status of the first attempt to open the stream (0 if there
	// was no response). It has capacity 1 and is never closed.
	first chan int

	mu        sync.Mutex // guards the fields below
	tried     bool       // the first attempt has ended
	opened    bool       // the stream has been open at least once
	published bool       // Publish has been called
	failures  int        // consecutive attempts that did not open the stream
}

// Listen opens the notification stream of a legacy session and keeps it open until the connection
// ends. The handshake must be complete.
func (c *Conn) Listen() {
	ctx, stop := context.WithCancel(c.ctx)
	s := &notificationStream{conn: c, stop: stop, first: make(chan int, 1)}
	c.http.stream = s
	if !c.group.Go(func() { s.run(ctx) }) {
		stop()
	}
}

// AwaitStream waits up to streamPatience for the first attempt of Listen and reports whether the
// notification stream is open.
func (c *Conn) AwaitStream(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, streamPatience)
	defer cancel()
	select {
	case status := <-c.http.stream.first:
		return status == http.StatusOK
	case <-ctx.Done():
		return false
	}
}

// Publish marks the connection as in use: from now on [Handler.Opened] and [Handler.Gap] are
// called. It reports whether the notification stream is open. If the server refused the stream, it
// is not requested again. If it failed temporarily, it is retried, and [Handler.Opened] reports
// success.
func (c *Conn) Publish() (listening bool) {
	if c.http == nil || c.http.stream == nil {
		return false
	}
	s := c.http.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	s.published = true
	return s.opened
}

// run opens the stream and reopens it when it ends.
func (s *notificationStream) run(ctx context.Context) {
	defer s.stop()
	lastID := ""
	first := backoff.New(reopenDelay, firstOpenWait)
	for {
		resp, status, err := s.open(ctx, lastID, 0)
		if ctx.Err() != nil {
			resp.close()
			return
		}
		if !s.answered(status, err) {
			return
		}
		wait := reopenDelay
		if resp == nil && !s.everOpened() {
			wait = first.Next()
		}
		if resp != nil {
			resp = s.followAll(ctx, resp)
			if ctx.Err() != nil {
				return
			}
			s.gap("the notification stream ended")
			lastID = *resp.lastID.Load()
			if retry := resp.events.Retry(); retry > 0 {
				wait = max(reopenDelay, min(retry, maxWait))
			} else if time.Since(resp.began) > reopenDelay && !resp.alone { // otherwise wait, so that the server can notice the end of the stream
				wait = 0
			}
		}
		if !backoff.Sleep(ctx, wait) {
			return
		}
	}
}

// followAll handles a response and its replacements until the last one has ended, and returns that
// one.
func (s *notificationStream) followAll(ctx context.Context, resp *streamResponse) *streamResponse {
	for {
		next := s.follow(ctx, resp)
		if next == nil {
			return resp
		}
		s.conn.cfg.Handler.Silent("the notification stream was silent for " + StreamIdle.String() + " and has been replaced")
		resp = next
	}
}

// follow handles the messages of a response until it ends, and closes it. It returns the
// replacement if the response was silent and had to be replaced.
func (s *notificationStream) follow(ctx context.Context, resp *streamResponse) (next *streamResponse) {
	ended := make(chan struct{}) // closed by the goroutine below
	started := s.conn.group.Go(func() {
		defer close(ended)
		s.read(resp)
	})
	if !started {
		resp.close()
		return nil
	}
	defer func() {
		resp.close()
		<-ended
	}()
	silent := time.NewTimer(StreamIdle)
	defer silent.Stop()
	for {
		select {
		case <-ended:
			return nil
		case <-ctx.Done():
			return nil
		case <-silent.C:
		}
		if left := StreamIdle - resp.silence(); left > 0 {
			silent.Reset(left)
			continue
		}
		next, status, _ := s.open(ctx, *resp.lastID.Load(), replacePatience)
		if status != 0 {
			resp.alone = next == nil
			// The server either opened another stream or allows only one. In the latter case, run
			// opens another after this one is closed.
			return next
		}
		s.conn.cfg.Handler.Silent("the notification stream was silent for " + StreamIdle.String() + " and cannot be replaced")
		silent.Reset(StreamIdle)
	}
}

// answered handles the result of an attempt to open the stream. It returns false if another attempt
// would be pointless.
func (s *notificationStream) answered(status int, err error) bool {
	s.mu.Lock()
	again, published := s.opened, s.published
	if !s.tried {
		s.tried = true
		s.first <- status
	}
	s.failures++
	if status == http.StatusOK {
		s.opened, s.failures = true, 0
	}
	failures := s.failures
	s.mu.Unlock()

	h := s.conn.cfg.Handler
	switch {
	case status == http.StatusOK && again:
		s.gap("the notification stream was reopened")
	case status == http.StatusOK:
		if published {
			h.Opened()
			h.Gap("the notification stream was opened")
		}
	case status == 0:
		if again && failures >= maxStreamFailures {
			s.conn.fail(&EndError{Reason: "the server cannot be reached", Err: s.conn.cleanError(err)})
			return false
		}
	case again:
		// Whatever the status is, no more notifications could arrive.
		s.conn.fail(&EndError{Reason: fmt.Sprintf("the notification stream was refused (HTTP status %d)", status), Err: err})
		return false
	default:
		return transient(status)
	}
	return true
}

// transient reports whether a retry may succeed after this HTTP status.
func transient(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

func (s *notificationStream) everOpened() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened
}

// gap reports that notifications may have been lost, if the connection is in use.
func (s *notificationStream) gap(reason string) {
	s.mu.Lock()
	published := s.published
	s.mu.Unlock()
	if published {
		s.conn.cfg.Handler.Gap(reason)
	}
}

// streamResponse is the response to one request for the notification stream.
type streamResponse struct {
	cancel context.CancelFunc
	body   io.Closer
	events *eventstream.Reader
	lastID atomic.Pointer[string] // id of the last event, from which to resume; never nil
	began  time.Time
	alone  bool         // set before follow returns if the server refused a second stream
	alive  atomic.Int64 // when the last byte arrived, in nanoseconds after began
}

// silence returns the time since the last byte arrived.
func (resp *streamResponse) silence() time.Duration {
	return time.Since(resp.began) - time.Duration(resp.alive.Load())
}

// open requests the stream, to be resumed after the event lastID. patience limits the wait for the
// response; 0 means no limit. The streamResponse is nil unless the status is 200.
func (s *notificationStream) open(ctx context.Context, lastID string, patience time.Duration) (*streamResponse, int, error) {
	c := s.conn
	ctx, cancel := context.WithCancel(ctx)
	if patience > 0 {
		defer time.AfterFunc(patience, cancel).Stop()
	}
	x := new(exchange)
	p, err := c.http.open(ctx, lastID, x)
	if err != nil {
		cancel()
		return nil, x.status, err
	}
	resp := &streamResponse{cancel: cancel, body: p.Body, began: time.Now()}
	resp.events = eventstream.NewReader(p.Body, lastID, c.cfg.MaxLine, func() { resp.alive.Store(int64(time.Since(resp.began))) })
	resp.lastID.Store(&lastID)
	return resp, http.StatusOK, nil
}

func (resp *streamResponse) close() {
	if resp != nil {
		resp.cancel()
		_ = resp.body.Close()
	}
}

// read handles the messages of a response until it ends.
func (s *notificationStream) read(resp *streamResponse) {
	var last scratch
	for {
		e, err := resp.events.Read()
		if err != nil {
			return
		}
		s.conn.handle(&last, []byte(e.Data))
		if e.ID != *resp.lastID.Load() {
			resp.lastID.Store(&e.ID)
		}
	}
}
