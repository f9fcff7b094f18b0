package realtime

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
)

// SessionOptions configures a session.
type SessionOptions struct {
	Endpoint Endpoint
	Delivery DeliveryOptions
	// Call means that another program owns the session, as is always the case if Endpoint.Session
	// is set. Run then returns when the session ends, instead of opening another one.
	Call bool
	// Resume is the progress of the previous run, or the zero value if there was none.
	Resume Progress
	// Logger receives connections at level info and outages at level warn; if nil, they are
	// discarded.
	Logger *slog.Logger
}

// Session is a connection from this program to a conversation, reopened after outages. All methods
// except Run are safe for concurrent use, before, during and after Run.
type Session struct {
	opts SessionOptions
	url  *url.URL
	log  *slog.Logger
	conv *conversation
	lost bool // an outage was logged, and is not over; only Run may use it
}

// Durations that control connections.
const (
	firstWait = 500 * time.Millisecond // delay before the first reconnect
	lastWait  = 30 * time.Second
	// healthyAfter is how long a connection must last to reset the reconnect delay to firstWait.
	healthyAfter = time.Minute
	// callGrace is how long after the start of Run status 404 is retried, because the endpoint may
	// not have registered a newly created call yet.
	callGrace    = 10 * time.Second
	pingEvery    = 20 * time.Second
	writeTimeout = 30 * time.Second
	pongTimeout  = 10 * time.Second
	closeTimeout = time.Second
)

// NewSession validates the options and returns a session. Its errors have type *[OptionError].
func NewSession(o SessionOptions) (*Session, error) {
	u, lang, err := o.Endpoint.resolve(o.Delivery.Message)
	if err != nil {
		return nil, err
	}
	if lang.opening != "" {
		return nil, &OptionError{"session-id", "required: in this dialect only an application can begin a session"}
	}
	o.Call = o.Call || o.Endpoint.Session != ""
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Session{opts: o, url: u, log: o.Logger, conv: newConversation("", lang, o.Delivery)}
	s.conv.resumable = true
	s.conv.queue.last = o.Resume.Cursor
	s.conv.progress = newHandledUpdates(o.Resume)
	return s, nil
}

// Offer accepts an event of any type, and returns immediately.
func (s *Session) Offer(e *event.Event) { s.conv.offer(e) }

// Pass records that events up to this ID need not be offered.
func (s *Session) Pass(id string) { s.conv.pass(id) }

// Finish declares that no more events will be offered. Run then returns when all pending messages
// are delivered.
func (s *Session) Finish() { s.conv.end() }

// Progress returns the position from which the next run should resume.
func (s *Session) Progress() Progress {
	s.conv.mu.Lock()
	defer s.conv.mu.Unlock()
	return s.conv.progress.upTo(s.conv.cursor())
}

// Stats returns the current counts.
func (s *Session) Stats() Stats { return s.conv.snapshot() }

// Run connects, delivers messages, and reconnects when the connection is lost. It returns nil when
// ctx ends, or once everything is delivered after Finish. After Finish it connects only if messages
// are pending. It returns [ErrEnded] when a call has ended, or a *[RefusedError]. It must be called
// exactly once.
func (s *Session) Run(ctx context.Context) error {
	began, retry := time.Now(), backoff.New(firstWait, lastWait)
	for !s.conv.done() {
		started := time.Now()
		reached, err := s.connect(ctx)
		if ctx.Err() != nil || errors.Is(err, errFinished) {
			return nil
		}
		if reached && time.Since(started) >= healthyAfter {
			retry.Reset()
		}
		next, end := s.afterError(err, time.Since(began))
		if end != nil {
			return end
		}
		pause := cmp.Or(next, retry.Next())
		level := slog.LevelInfo
		// An endpoint uses this close code when a session reaches its maximum duration, which is
		// not an outage.
		if atLimit := websocket.CloseStatus(err) == websocket.StatusGoingAway; !s.lost && !atLimit {
			s.lost, level = true, slog.LevelWarn
		}
		s.log.Log(ctx, level, "realtime session lost", "endpoint", s.opts.Endpoint.Address(), "err", oneLine(err), "next", pause.Round(time.Millisecond))
		s.rest(ctx, pause)
		if ctx.Err() != nil {
			return nil
		}
	}
	return nil
}

// rest waits before the next connection, unless nothing is left to deliver.
func (s *Session) rest(ctx context.Context, d time.Duration) {
	over := time.After(d)
	for !s.conv.done() {
		select {
		case <-ctx.Done():
			return
		case <-over:
			return
		case <-s.conv.wake:
		}
	}
}

func oneLine(err error) string { return printable.Reason(err, 300) }

// connect opens a connection and runs it until it ends. reached reports whether the connection was
// established.
func (s *Session) connect(ctx context.Context) (reached bool, err error) {
	conn, _, err := s.opts.Endpoint.dial(ctx, s.url, s.opts.Endpoint.Header.Clone(), nil)
	if err != nil {
		return false, err
	}
	level := slog.LevelInfo
	if s.lost {
		s.lost, level = false, slog.LevelWarn
	}
	s.log.Log(ctx, level, "realtime session connected", "endpoint", s.opts.Endpoint.Address())
	s.conv.begin()
	// The connection outlives ctx long enough to be closed properly; cut ends it immediately.
	life, cut := context.WithCancel(context.WithoutCancel(ctx))
	running, fail := context.WithCancelCause(ctx)
	ended := make(chan error, 1) // receives the error that ended reading, once
	var wg sync.WaitGroup
	wg.Go(func() {
		err := s.read(life, conn)
		ended <- err
		fail(err)
	})
	wg.Go(func() {
		if err := s.ping(running, conn); err != nil {
			fail(err)
		}
	})
	err = s.conv.run(running, connection{
		send:  conn.send,
		ready: func(ctx context.Context) (bool, error) { return true, conn.probe(ctx) },
	})
	over := ctx.Err() != nil || errors.Is(err, errFinished)
	if !over {
		err = cmp.Or(context.Cause(running), err) // the cause, not its consequence
	}
	fail(err)
	stop := time.AfterFunc(closeTimeout, cut)
	if over {
		_ = conn.Close(websocket.StatusNormalClosure, "")
	} else if last := <-ended; websocket.CloseStatus(last) != -1 {
		err = last // a close code is more informative than the failed write that it caused
	}
	stop.Stop()
	cut()
	_ = conn.CloseNow()
	wg.Wait()
	return true, err
}

// read reads all server events, which keeps the connection alive. It buffers at most peekSize bytes
// of each event.
func (s *Session) read(ctx context.Context, conn *peer) error {
	buf := make([]byte, peekSize)
	var logged time.Time // when an error of the endpoint was last logged; at most one a second is
	for {
		typ, r, err := conn.Reader(ctx)
		if err != nil {
			return err
		}
		n, whole, err := conn.fill(r, buf)
		if err == nil && !whole {
			if _, err = io.Copy(io.Discard, r); err == nil && conn.ended.Load() {
				err = errTruncated
			}
		}
		if err != nil {
			return err
		}
		if typ != websocket.MessageText {
			continue
		}
		e, ok := decode(buf[:n], whole)
		if !ok {
			continue
		}
		if ours := s.conv.observe(e); e.Type == "error" && !ours && time.Since(logged) >= time.Second {
			logged = time.Now()
			s.log.Warn("the realtime endpoint reports an error", "error", e.reason())
		}
		if e.Type == "session.closed" {
			return errClosed
		}
	}
}

// ping detects an endpoint that has disappeared without closing the connection.
func (s *Session) ping(ctx context.Context, conn *peer) error {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := conn.probe(ctx); err != nil {
			return err
		}
	}
}

// ErrEnded reports that the call or session to which a [Session] was attached has ended.
var ErrEnded = errors.New("the session has ended")

// errClosed reports that the endpoint has closed a GPT-Live session and all its events were read.
var errClosed = errors.New("the endpoint has closed the session")

// afterError determines how to continue after a connection error. If end is not nil, Run returns
// it; otherwise Run reconnects after next, where 0 means the usual delay. age is the time since Run
// started.
func (s *Session) afterError(err error, age time.Duration) (next time.Duration, end error) {
	if h, ok := errors.AsType[*handshakeError](err); ok {
		switch {
		case h.Status == http.StatusNotFound && s.opts.Call && s.conv.snapshot().Connections > 0:
			return 0, ErrEnded
		case h.Status == http.StatusNotFound && s.opts.Call && age < callGrace:
			return time.Second, nil
		case h.Status == http.StatusRequestTimeout, h.Status == http.StatusTooEarly, h.Status == http.StatusTooManyRequests:
		case h.Status < 500:
			return 0, &h.RefusedError
		}
		return min(h.retryAfter, lastWait), nil
	}
	if errors.Is(err, errClosed) {
		return 0, ErrEnded
	}
	ce, _ := errors.AsType[websocket.CloseError](err)
	s.conv.mu.Lock()
	why := cmp.Or(s.conv.fatal, printable.Line(ce.Reason, 200))
	s.conv.mu.Unlock()
	switch {
	case ce.Code == websocket.StatusNormalClosure, ce.Code == websocket.StatusGoingAway:
		if s.opts.Call {
			return 0, ErrEnded
		}
	case ce.Code == 3000, ce.Code == 3003: // unauthorized, forbidden: registered close codes of RFC 6455, §11.7
		return 0, &RefusedError{Status: int(ce.Code), Message: why}
	case ce.Code >= 4000 && ce.Code < 5000 && !temporary(strings.ToLower(why)), permanent(why), ce.Code != 0 && ce.Code == s.conv.dialect.refusal:
		return 0, &RefusedError{Status: max(int(ce.Code), 0), Message: why}
	}
	return 0, nil
}
