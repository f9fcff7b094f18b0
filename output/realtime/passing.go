package realtime

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// passing is one session that passes the proxy.
type passing struct {
	proxy *Proxy
	name  string
	talk  *conversation

	once sync.Once
	left chan struct{} // closed, once, when the session is to end
}

func (s *passing) leave() { s.once.Do(func() { close(s.left) }) }

// pump moves messages from one side to the other.
type pump struct {
	from, to *peer
	look     func(b []byte, whole bool) (hide bool) // at text; nil: at none
	buffers  *sync.Pool
	waits    atomic.Int64 // since when for from, in Unix nanoseconds; 0: it passes a message
}

// caughtUp is how long a pump that has passed all there was waits at least.
const caughtUp = 5 * time.Millisecond

// idle reports whether all that from has said was passed on: while to takes nothing,
// what from says is not heard.
func (p *pump) idle() bool {
	since := p.waits.Load()
	return since != 0 && time.Now().UnixNano()-since >= int64(caughtUp)
}

// ending is how a pump ended: by what its source said, or by what its target did.
type ending struct {
	p    *pump
	read bool
	err  error
}

// run passes messages until a side ends, and returns how it did.
func (s *passing) run(ctx context.Context, client, upstream *peer) error {
	s.talk.begin()
	life, cut := context.WithCancel(ctx)
	down := &pump{from: upstream, to: client, buffers: &s.proxy.buffers, look: s.look}
	up := &pump{from: client, to: upstream, buffers: &s.proxy.buffers}
	ends := make(chan ending, 2) // one from each pump
	var wg sync.WaitGroup
	for _, p := range []*pump{down, up} {
		wg.Go(func() { ends <- p.run(life) })
	}
	talking, stop := context.WithCancel(life)
	wg.Go(func() {
		// A failed write is told by the pumps, too.
		_ = s.talk.run(talking, line{
			send:  func(_ context.Context, frame []byte) error { return upstream.Write(life, websocket.MessageText, frame) },
			ready: func(context.Context) (bool, error) { return down.idle(), nil },
		})
	})
	err := s.close(ctx, ends, client, upstream, stop, cut)
	cut()
	_ = client.CloseNow()
	_ = upstream.CloseNow()
	wg.Wait()
	return err
}

// close waits for the end, stops the talking, and passes the end on: a close code
// as that code, a connection that broke off by breaking off.
func (s *passing) close(ctx context.Context, ends <-chan ending, client, upstream *peer, stop, cut func()) error {
	defer stop()
	var first ending
	select {
	case first = <-ends:
	case <-s.left:
		s.say(websocket.StatusGoingAway, errLeft.Error(), cut, client, upstream)
		return errLeft
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if !first.read {
		// The target is gone. What it said last is with the pump that reads from it.
		select {
		case second := <-ends:
			if second.read {
				first = second
			}
		case <-time.After(farewell):
		}
	}
	stop()
	other := first.p.to
	if !first.read {
		return first.err
	}
	if ce, ok := errors.AsType[websocket.CloseError](first.err); ok {
		s.say(ce.Code, ce.Reason, cut, other)
	} else if errors.Is(first.err, websocket.ErrMessageTooBig) {
		s.say(websocket.StatusMessageTooBig, "", cut, other)
	}
	return first.err
}

// lingering is how long the last messages and the answer to a close code may take.
const lingering = 10 * time.Second

// say closes connections with a code, which comes after all that was passed on. It
// has the time of lingering for that, or of a farewell once the proxy shuts down.
func (s *passing) say(code websocket.StatusCode, reason string, cut func(), peers ...*peer) {
	over := make(chan struct{}) // closed when all are
	go func() {
		defer close(over)
		var wg sync.WaitGroup
		for _, p := range peers {
			wg.Go(func() { _ = p.Close(code, reason) })
		}
		wg.Wait()
	}()
	select {
	case <-over:
		return
	case <-s.left:
	case <-time.After(lingering):
	}
	select {
	case <-over:
	case <-time.After(farewell):
		cut()
		<-over
	}
}

// look reads along what the endpoint says.
func (s *passing) look(b []byte, whole bool) (hide bool) {
	e, ok := decodeServer(b, whole)
	return ok && s.talk.observe(e)
}

func (p *pump) run(ctx context.Context) ending {
	for {
		p.waits.Store(time.Now().UnixNano())
		typ, r, err := p.from.Reader(ctx)
		if err != nil {
			return ending{p, true, err}
		}
		p.waits.Store(0)
		if end := p.pass(ctx, typ, r); end.err != nil {
			return end
		}
	}
}

// pass passes one message on: in one frame if it fits the buffer, else piece by
// piece. The last piece goes out when the message is known to be whole.
func (p *pump) pass(ctx context.Context, typ websocket.MessageType, r io.Reader) ending {
	buffer := p.buffers.Get().(*[peekSize]byte)
	defer p.buffers.Put(buffer)
	buf := buffer[:]
	n, whole, err := p.fill(r, buf)
	if err != nil {
		return ending{p, true, err}
	}
	if typ == websocket.MessageText && p.look != nil && p.look(buf[:n], whole) {
		return ending{}
	}
	if whole {
		if err := p.to.Write(ctx, typ, buf[:n]); err != nil {
			return ending{p, false, err}
		}
		return ending{}
	}
	w, err := p.to.Writer(ctx, typ)
	if err != nil {
		return ending{p, false, err}
	}
	for {
		if _, err := w.Write(buf[:n]); err != nil {
			return ending{p, false, err}
		}
		if whole {
			break
		}
		if n, whole, err = p.fill(r, buf); err != nil {
			return ending{p, true, err}
		}
	}
	if err := w.Close(); err != nil {
		return ending{p, false, err}
	}
	return ending{}
}

func (p *pump) fill(r io.Reader, buf []byte) (n int, whole bool, err error) {
	n, whole, err = fill(r, buf)
	if err == nil && whole && p.from.ended.Load() {
		err = errBrokenOff
	}
	return n, whole, err
}
