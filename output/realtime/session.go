package realtime

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
)

// SessionOptions are how a session is held.
type SessionOptions struct {
	Endpoint Endpoint
	Delivery DeliveryOptions
	// Call says that the session is a running call that others hold: its end is the
	// end of ours, where another session would be opened anew.
	Call bool
	// Resume is where a former run was; zero: at the beginning of what is offered.
	Resume Progress
	// Ping is how often the connection is probed; 20 s.
	Ping time.Duration
	// Logger gets connections at info and outages at warn; nil discards.
	Logger *slog.Logger
}

// ErrEnded is the error of a call's session after the call.
var ErrEnded = errors.New("the session has ended")

// Session is a connection of our own to a conversation, kept up through outages.
// All its methods but Run may be called from anywhere at any time.
type Session struct {
	opts      SessionOptions
	url       *url.URL
	log       *slog.Logger
	talk      *conversation
	connected atomic.Bool
}

// Times of the reconnect loop.
const (
	firstWait = 500 * time.Millisecond
	lastWait  = 30 * time.Second
	// healthyAfter so long the next wait is short again.
	healthyAfter = time.Minute
	// callGrace is how long a call that was just created may not be known yet.
	callGrace = 10 * time.Second
	// pongTimeout is how long the answer to a ping may take.
	pongTimeout = 10 * time.Second
	// farewell is how long the end of a connection may take.
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
	s := &Session{opts: o, url: u, log: o.Logger, talk: newConversation("", o.Delivery)}
	s.talk.keeps = true
	s.talk.queue.last = o.Resume.Cursor
	for _, id := range o.Resume.Done {
		s.talk.progress.add(id)
	}
	return s, nil
}

// Offer takes an event, of any type, and returns at once.
func (s *Session) Offer(e *event.Event) { s.talk.offer(e) }

// Pass notes that there was nothing to offer up to an id.
func (s *Session) Pass(id string) { s.talk.pass(id) }

// Finish says that nothing more will be offered: Run returns when all that waits
// is delivered.
func (s *Session) Finish() { s.talk.end() }

// Progress is where the next run should begin.
func (s *Session) Progress() Progress {
	s.talk.mu.Lock()
	defer s.talk.mu.Unlock()
	return s.talk.progress.upTo(s.talk.cursor())
}

// Stats returns the counts.
func (s *Session) Stats() Stats {
	st := s.talk.snapshot()
	if s.connected.Load() {
		st.Open = 1
	}
	return st
}

// Run connects, delivers, and connects again when the connection is lost, until
// ctx ends or Finish has been obeyed: nil. After Finish it connects only if something
// waits. It fails with [ErrEnded] after a call,
// and with a *[RefusedError]. It is called once.
func (s *Session) Run(ctx context.Context) error {
	began, wait, lost := time.Now(), firstWait, false
	for !s.talk.done() {
		started := time.Now()
		reached, err := s.connect(ctx, &lost)
		if ctx.Err() != nil || errors.Is(err, errFinished) {
			return nil
		}
		if reached && time.Since(started) >= healthyAfter {
			wait = firstWait
		}
		next, final := s.judge(err, time.Since(began))
		if final != nil {
			return final
		}
		pause := jitter(wait)
		wait = min(2*wait, lastWait)
		if next > 0 {
			pause = next
		}
		level := slog.LevelInfo
		if !lost && !overAndNew(err) {
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

// rest waits before the next connection, unless there is nothing to connect for.
func (s *Session) rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for ended := s.talk.ended; ; ended = nil {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-ended:
			if s.talk.done() {
				return
			}
		}
	}
}

// judge decides what an error of a connection means: the end, or another attempt,
// after a time of its own unless next is 0. age is that of the whole run.
func (s *Session) judge(err error, age time.Duration) (next time.Duration, final error) {
	if h, ok := errors.AsType[*handshakeError](err); ok {
		switch {
		case h.status == http.StatusNotFound && s.opts.Call && s.talk.snapshot().Connections > 0:
			return 0, ErrEnded
		case h.status == http.StatusNotFound && s.opts.Call && age < callGrace:
			return time.Second, nil
		case h.status == http.StatusRequestTimeout, h.status == http.StatusTooEarly, h.status == http.StatusTooManyRequests:
		case h.status < 500:
			return 0, &RefusedError{Status: h.status, Message: h.message}
		}
		return min(h.retryAfter, lastWait), nil
	}
	ce, _ := errors.AsType[websocket.CloseError](err)
	switch ce.Code {
	case websocket.StatusNormalClosure, websocket.StatusGoingAway:
		if s.opts.Call {
			return 0, ErrEnded
		}
	case 3000, 3003: // unauthorized, forbidden: the registry of RFC 6455, §11.7
		return 0, &RefusedError{Status: int(ce.Code), Message: printable.Line(ce.Reason, 200)}
	}
	return 0, nil
}

// overAndNew reports whether a session came to its ordinary end, that of its
// longest time.
func overAndNew(err error) bool { return websocket.CloseStatus(err) == websocket.StatusGoingAway }

// jitter spreads a wait over the quarter before it.
func jitter(d time.Duration) time.Duration { return d - rand.N(d/4) }

func oneLine(err error) string { return printable.Line(err.Error(), 300) }

// connect holds one connection until it ends; reached tells whether there was one.
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
	s.talk.begin()
	// The connection outlives ctx by its farewell; cut ends it at once.
	life, cut := context.WithCancel(context.WithoutCancel(ctx))
	running, fail := context.WithCancelCause(ctx)
	heard := make(chan error, 1) // what ended the reading; sent to once
	var wg sync.WaitGroup
	wg.Go(func() {
		err := s.read(life, conn)
		heard <- err
		fail(err)
	})
	wg.Go(func() {
		if err := s.probe(running, conn); err != nil {
			fail(err)
		}
	})
	err = s.talk.run(running, line{
		send: func(ctx context.Context, frame []byte) error {
			ctx, cancel := context.WithTimeout(ctx, lastWait)
			defer cancel()
			return conn.Write(ctx, websocket.MessageText, frame)
		},
		ready: func(ctx context.Context) (bool, error) { return true, ping(ctx, conn) },
	})
	over := ctx.Err() != nil || errors.Is(err, errFinished)
	if !over {
		if cause := context.Cause(running); cause != nil {
			err = cause // rather than what it led to
		}
	}
	fail(err)
	stop := time.AfterFunc(farewell, cut)
	if over {
		_ = conn.Close(websocket.StatusNormalClosure, "")
	} else if last := <-heard; websocket.CloseStatus(last) != -1 {
		err = last // a close code says more than a write that failed on it
	}
	stop.Stop()
	cut()
	_ = conn.CloseNow()
	wg.Wait()
	return true, err
}

// read reads all that the endpoint says, which is what keeps the connection going,
// and keeps of it no more than peekSize bytes.
func (s *Session) read(ctx context.Context, conn *peer) error {
	buf := make([]byte, peekSize)
	var told time.Time // when an error was
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
			err = errBrokenOff
		}
		if err != nil {
			return err
		}
		if typ != websocket.MessageText {
			continue
		}
		if e, ok := decodeServer(buf[:n], whole); ok {
			s.heard(e, &told)
		}
	}
}

// heard takes note of what the endpoint says; of its errors one a second is told.
func (s *Session) heard(e serverEvent, told *time.Time) {
	if ours := s.talk.observe(e); e.Type == "error" && !ours && time.Since(*told) >= time.Second {
		*told = time.Now()
		s.log.Warn("the realtime endpoint tells of an error", "error", reason(e))
	}
}

// probe finds out that the other side is gone without a word.
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
	ctx, cancel := context.WithTimeoutCause(ctx, pongTimeout, errors.New("no answer to a ping"))
	defer cancel()
	if err := conn.Ping(ctx); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	return nil
}
