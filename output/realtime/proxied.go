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

// proxied is one session of a proxy.
type proxied struct {
	proxy *Proxy
	name  string
	conv  *conversation

	once sync.Once
	left chan struct{} // closed by leave, when the proxy shuts down
}

func (s *proxied) leave() { s.once.Do(func() { close(s.left) }) }

// pump forwards messages from one side to the other.
type pump struct {
	from, to *peer
	// inspect is called with each text message, or its beginning, and says whether to drop
	// it; nil: nothing is inspected.
	inspect func(b []byte, whole bool) (hide bool)
	buffers *sync.Pool // see Proxy.buffers
	// waiting is since when the pump has waited for a message of from, in Unix nanoseconds;
	// 0: it is forwarding one.
	waiting atomic.Int64
}

// caughtUp is how long a pump must have waited for a message before it is considered idle.
const caughtUp = 5 * time.Millisecond

// idle reports whether everything that p.from has sent was forwarded. While p.to does not
// read, messages of p.from, such as acknowledgements, are not read either.
func (p *pump) idle() bool {
	since := p.waiting.Load()
	return since != 0 && time.Now().UnixNano()-since >= int64(caughtUp)
}

// ending says how a pump ended: by reading from its source, or by writing to its target.
type ending struct {
	p    *pump
	read bool
	err  error
}

// run forwards messages in both directions, and delivers those of the conversation, until one
// side ends. It returns why that side did.
func (s *proxied) run(ctx context.Context, client, upstream *peer) error {
	s.conv.begin()
	life, cut := context.WithCancel(ctx)
	down := &pump{from: upstream, to: client, buffers: &s.proxy.buffers, inspect: s.inspect}
	up := &pump{from: client, to: upstream, buffers: &s.proxy.buffers}
	if s.proxy.opts.RefreshTools {
		up.inspect = s.inspectClient
	}
	ends := make(chan ending, 2) // one from each pump
	var wg sync.WaitGroup
	for _, p := range []*pump{down, up} {
		wg.Go(func() { ends <- p.run(life) })
	}
	talking, stop := context.WithCancel(life)
	wg.Go(func() {
		// The pumps report a failed connection, too.
		_ = s.conv.run(talking, connection{
			send: func(_ context.Context, frame []byte) error { return upstream.Write(life, websocket.MessageText, frame) },
			ready: func(context.Context) (bool, error) {
				if s.unconfirmed() {
					return true, upstream.Ping(life) // the answer may take any time
				}
				return down.idle(), nil
			},
		})
	})
	err := s.close(ctx, ends, client, upstream, stop, cut)
	cut()
	_ = client.CloseNow()
	_ = upstream.CloseNow()
	wg.Wait()
	return err
}

// unconfirmed reports whether the endpoint does not acknowledge items.
func (s *proxied) unconfirmed() bool {
	s.conv.mu.Lock()
	defer s.conv.mu.Unlock()
	return s.conv.dialect.api().unconfirmed
}

// close waits until one side ends, calls stop to end the delivery of messages, and closes the
// other side: with the same close code if there was one. After a lost connection the caller
// drops the other. When the proxy shuts down, close closes both sides.
func (s *proxied) close(ctx context.Context, ends <-chan ending, client, upstream *peer, stop, cut func()) error {
	defer stop()
	var first ending
	select {
	case first = <-ends:
	case <-s.left:
		s.closeAll(websocket.StatusGoingAway, errLeft.Error(), cut, client, upstream)
		return errLeft
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if !first.read {
		// The target is gone. The pump that reads from it has its close code, if any.
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
		s.closeAll(ce.Code, ce.Reason, cut, other)
	} else if errors.Is(first.err, websocket.ErrMessageTooBig) {
		s.closeAll(websocket.StatusMessageTooBig, "", cut, other)
	}
	return first.err
}

// lingering is how long closing a connection may take: to send the last messages and the
// close code, and to receive the answer to it.
const lingering = 10 * time.Second

// closeAll closes connections with a code, which follows everything that was forwarded. It
// takes at most lingering and then farewell, and calls cut if that was not enough; when the
// proxy shuts down, it does not wait for lingering.
func (s *proxied) closeAll(code websocket.StatusCode, reason string, cut func(), peers ...*peer) {
	over := make(chan struct{}) // closed when all peers are closed
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

// inspect processes a server event.
func (s *proxied) inspect(b []byte, whole bool) (hide bool) {
	e, ok := s.conv.decode(b, whole)
	return ok && s.conv.observe(e)
}

// inspectClient processes a client event.
func (s *proxied) inspectClient(b []byte, whole bool) (hide bool) {
	s.conv.mu.Lock()
	defer s.conv.mu.Unlock()
	s.conv.imports.sent(b, whole)
	return false
}

func (p *pump) run(ctx context.Context) ending {
	for {
		p.waiting.Store(time.Now().UnixNano())
		typ, r, err := p.from.Reader(ctx)
		if err != nil {
			return ending{p, true, err}
		}
		p.waiting.Store(0)
		if end := p.forward(ctx, typ, r); end.err != nil {
			return end
		}
	}
}

// forward forwards one message: in one frame if it fits the buffer, else piece by piece.
// The last piece is sent when the message is known to be complete.
func (p *pump) forward(ctx context.Context, typ websocket.MessageType, r io.Reader) ending {
	buffer := p.buffers.Get().(*[peekSize]byte)
	defer p.buffers.Put(buffer)
	buf := buffer[:]
	n, whole, err := p.fill(r, buf)
	if err != nil {
		return ending{p, true, err}
	}
	if typ == websocket.MessageText && p.inspect != nil && p.inspect(buf[:n], whole) {
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
		err = errTruncated
	}
	return n, whole, err
}
