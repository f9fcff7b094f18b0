package realtime

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/coder/websocket"
)

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
