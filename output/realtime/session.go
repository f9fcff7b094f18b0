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
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
)

// SessionOptions configure a session.
type SessionOptions struct {
	Endpoint Endpoint
	Delivery DeliveryOptions
	// Call says that the session belongs to another program, as it does if Endpoint.Session
	// is set: Run returns when the session ends, rather than opening another one.
	Call bool
	// MCP returns the servers whose tools a session that Run opens imports, and imports again
	// after each tools.list_changed of one of them; nil: none. It is called by Run and Offer.
	MCP func() []MCPServer
	// Resume is the progress of the previous run; zero: there was none.
	Resume Progress
	// Ping is how often the connection is probed; 20 s.
	Ping time.Duration
	// Logger gets connections at info and outages at warn; nil discards.
	Logger *slog.Logger
}

// Session is a connection that this program makes to a conversation, and makes again after
// outages. All its methods but Run may be called from any goroutine at any time.
type Session struct {
	opts      SessionOptions
	url       *url.URL
	log       *slog.Logger
	conv      *conversation
	connected atomic.Bool
}

// Times of the reconnect loop.
const (
	firstWait = 500 * time.Millisecond
	lastWait  = 30 * time.Second
	// healthyAfter is how long a connection must last for the next wait to be firstWait again.
	healthyAfter = time.Minute
	// callGrace is for how long after the beginning of Run the status 404 is retried: the
	// endpoint may not know a call yet that was just created.
	callGrace = 10 * time.Second
	// pongTimeout is how long the answer to a ping may take.
	pongTimeout = 10 * time.Second
	// farewell is how long closing a connection may take.
	farewell = time.Second
)

// NewSession checks the options; its errors are of type *[OptionError].
func NewSession(o SessionOptions) (*Session, error) {
	if err := o.Endpoint.Check(); err != nil {
		return nil, err
	}
	if err := o.Delivery.Message.check(); err != nil {
		return nil, &OptionError{"role", err.Error()}
	}
	o.Call = o.Call || o.Endpoint.Session != ""
	if o.Ping <= 0 {
		o.Ping = 20 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	u, err := o.Endpoint.parse()
	if err != nil {
		return nil, err
	}
	lang, err := o.Endpoint.dialect()
	if err != nil {
		return nil, err
	}
	s := &Session{opts: o, url: u, log: o.Logger, conv: newConversation("", lang, o.Delivery)}
	s.conv.resumable = true
	s.conv.queue.last = o.Resume.Cursor
	s.conv.progress = progressOf(o.Resume)
	return s, nil
}

// Offer accepts an event, of any type, and returns immediately.
func (s *Session) Offer(e *event.Event) {
	if e.Type() == event.TypeToolsListChanged && s.opts.MCP != nil {
		s.useTools(false)
		s.conv.toolsChanged(e, "")
	}
	s.conv.offer(e)
}

// Pass records that events up to the one with this id need not be offered.
func (s *Session) Pass(id string) { s.conv.pass(id) }

// Finish says that nothing more will be offered: Run returns when everything that waits
// is delivered.
func (s *Session) Finish() { s.conv.end() }

// Progress returns where the next run should begin.
func (s *Session) Progress() Progress {
	s.conv.mu.Lock()
	defer s.conv.mu.Unlock()
	return s.conv.progress.upTo(s.conv.cursor())
}

// Stats returns the counts.
func (s *Session) Stats() Stats {
	st := s.conv.snapshot()
	if s.connected.Load() {
		st.Open = 1
	}
	return st
}

// Run connects, delivers, and reconnects when the connection is lost, until ctx ends or
// everything is delivered after Finish (nil). After Finish it connects only if something
// waits. It fails with [ErrEnded] after a call, and with a *[RefusedError]. It must be
// called once.
func (s *Session) Run(ctx context.Context) error {
	began, retry, lost := time.Now(), backoff.New(firstWait, lastWait), false
	for !s.conv.done() {
		started := time.Now()
		reached, err := s.connect(ctx, &lost)
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
		pause := retry.Next()
		if next > 0 {
			pause = next
		}
		level := slog.LevelInfo
		if !lost && !atItsLimit(err) {
			lost, level = true, slog.LevelWarn
		}
		s.log.Log(ctx, level, "realtime session lost", "endpoint", s.opts.Endpoint.Address(), "err", oneLine(err), "next", pause.Round(time.Millisecond))
		s.rest(ctx, pause)
		if ctx.Err() != nil {
			return nil
		}
	}
	return nil
}

// rest waits before the next connection, unless there is nothing left to deliver.
func (s *Session) rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for ended := s.conv.ended; ; ended = nil {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-ended:
			if s.conv.done() {
				return
			}
		}
	}
}

func oneLine(err error) string { return printable.Reason(err, 300) }

// connect makes a connection and runs it until it ends. reached says that the connection was
// established. *lost says that an outage was logged, and is reset when that is over.
func (s *Session) connect(ctx context.Context, lost *bool) (reached bool, err error) {
	header := s.opts.Endpoint.Header.Clone()
	if header == nil {
		header = http.Header{}
	}
	conn, _, err := s.opts.Endpoint.dial(ctx, s.url, header, nil)
	if err != nil {
		return false, err
	}
	level := slog.LevelInfo
	if *lost {
		*lost, level = false, slog.LevelWarn
	}
	s.log.Log(ctx, level, "realtime session connected", "endpoint", s.opts.Endpoint.Address())
	s.connected.Store(true)
	defer s.connected.Store(false)
	s.conv.begin()
	s.useTools(true)
	// The connection outlives ctx by the time to close it; cut ends it immediately.
	life, cut := context.WithCancel(context.WithoutCancel(ctx))
	running, fail := context.WithCancelCause(ctx)
	ended := make(chan error, 1) // the error that ended the reading; sent to once
	var wg sync.WaitGroup
	wg.Go(func() {
		err := s.read(life, conn)
		ended <- err
		fail(err)
	})
	wg.Go(func() {
		if err := s.probe(running, conn); err != nil {
			fail(err)
		}
	})
	if hello := s.conv.dialect.api().hello; hello != nil { // a Session's dialect stays
		if err := write(running, conn, hello); err != nil {
			fail(err)
		}
	}
	err = s.conv.run(running, connection{
		send:  func(ctx context.Context, frame []byte) error { return write(ctx, conn, frame) },
		ready: func(ctx context.Context) (bool, error) { return true, ping(ctx, conn) },
	})
	over := ctx.Err() != nil || errors.Is(err, errFinished)
	if !over {
		if cause := context.Cause(running); cause != nil {
			err = cause // rather than its consequence
		}
	}
	fail(err)
	stop := time.AfterFunc(farewell, cut)
	if over {
		_ = conn.Close(websocket.StatusNormalClosure, "")
	} else if last := <-ended; websocket.CloseStatus(last) != -1 {
		err = last // a close code says more than the write that failed because of it
	}
	stop.Stop()
	cut()
	_ = conn.CloseNow()
	wg.Wait()
	return true, err
}

// ErrEnded is the error of [Session.Run] when the call or session that it was attached to has
// ended.
var ErrEnded = errors.New("the session has ended")

// afterError decides what follows the error of a connection. If end is not nil, Run returns
// it; otherwise Run connects again, after next, or after the usual wait if next is 0. age is
// the time since Run began.
func (s *Session) afterError(err error, age time.Duration) (next time.Duration, end error) {
	if h, ok := errors.AsType[*handshakeError](err); ok {
		switch {
		case h.status == http.StatusNotFound && s.opts.Call && s.conv.snapshot().Connections > 0:
			return 0, ErrEnded
		case h.status == http.StatusNotFound && s.opts.Call && age < callGrace:
			return time.Second, nil
		case h.status == http.StatusRequestTimeout, h.status == http.StatusTooEarly, h.status == http.StatusTooManyRequests:
		case h.status < 500:
			return 0, &RefusedError{Status: h.status, Message: h.message}
		}
		return min(h.retryAfter, lastWait), nil
	}
	if errors.Is(err, errClosed) {
		return 0, ErrEnded
	}
	ce, _ := errors.AsType[websocket.CloseError](err)
	s.conv.mu.Lock()
	why, refusal := cmp.Or(s.conv.fatal, printable.Line(ce.Reason, 200)), s.conv.dialect.api().refusal
	s.conv.mu.Unlock()
	switch {
	case ce.Code == websocket.StatusNormalClosure, ce.Code == websocket.StatusGoingAway:
		if s.opts.Call {
			return 0, ErrEnded
		}
	case ce.Code == 3000, ce.Code == 3003: // unauthorized, forbidden: the registry of RFC 6455, §11.7
		return 0, &RefusedError{Status: int(ce.Code), Message: why}
	case ce.Code >= 4000 && ce.Code < 5000 && !mayPass(why), final(why), refusal != 0 && ce.Code == refusal:
		return 0, &RefusedError{Status: max(int(ce.Code), 0), Message: why}
	}
	return 0, nil
}

// mayPass reports whether the reason in a close frame names a condition that may pass.
func mayPass(why string) bool {
	var e serverEvent
	e.Error.Code = strings.ToLower(why)
	return transient(e)
}

// atItsLimit reports whether the endpoint ended a session with the code that it uses when the
// maximum duration of a session is reached.
func atItsLimit(err error) bool { return websocket.CloseStatus(err) == websocket.StatusGoingAway }

// read reads all server events, which keeps the connection alive, and holds at most
// peekSize bytes of each.
func (s *Session) read(ctx context.Context, conn *peer) error {
	buf := make([]byte, peekSize)
	var logged time.Time // when an error of the endpoint was last logged
	for {
		typ, r, err := conn.Reader(ctx)
		if err != nil {
			return err
		}
		n, whole, err := fill(r, buf)
		if err == nil && !whole {
			_, err = io.Copy(io.Discard, r)
		}
		if err == nil && conn.ended.Load() {
			err = errTruncated
		}
		if err != nil {
			return err
		}
		if typ != websocket.MessageText {
			continue
		}
		if e, ok := s.conv.decode(buf[:n], whole); ok {
			s.handle(e, &logged)
			if e.closed {
				return errClosed
			}
		}
	}
}

// errClosed says that the endpoint closed a GPT-Live session and that all its events were read.
var errClosed = errors.New("the endpoint has closed the session")

// handle processes a server event. At most one error a second is logged.
func (s *Session) handle(e serverEvent, logged *time.Time) {
	if e.answer != nil {
		s.conv.mu.Lock()
		s.conv.answer = e.answer // observe signals
		s.conv.mu.Unlock()
	}
	if ours := s.conv.observe(e); e.Type == "error" && !ours && time.Since(*logged) >= time.Second {
		*logged = time.Now()
		s.log.Warn("the realtime endpoint reports an error", "error", reason(e))
	}
}

// write sends a client event.
func write(ctx context.Context, conn *peer, frame []byte) error {
	ctx, cancel := context.WithTimeout(ctx, lastWait)
	defer cancel()
	return conn.Write(ctx, websocket.MessageText, frame)
}

// probe detects a peer that is gone without having closed the connection.
func (s *Session) probe(ctx context.Context, conn *peer) error {
	tick := time.NewTicker(s.opts.Ping)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := ping(ctx, conn); err != nil {
			return err
		}
	}
}

func ping(ctx context.Context, conn *peer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, pongTimeout, errors.New("the endpoint did not respond to a ping"))
	defer cancel()
	if err := conn.Ping(ctx); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	return nil
}
