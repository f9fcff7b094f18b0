package wire

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/eventstream"
	"github.com/mcptrack/mcptrack/core/mcp"
)

// source is one event stream in which notifications come: the answer to one request for the
// notification stream.
type source struct {
	cancel context.CancelFunc
	body   io.Closer
	events *eventstream.Reader
	lastID atomic.Pointer[string] // of the events, to continue after; never nil
	began  time.Time
	alone  bool         // the server refused a second stream beside it; set before follow returns
	alive  atomic.Int64 // when the last byte came, in nanoseconds since began
}

// silence returns how long no byte came.
func (src *source) silence() time.Duration {
	return time.Since(src.began) - time.Duration(src.alive.Load())
}

// open requests the stream, to be continued after lastID. patience limits the wait
// for the answer; 0: no limit. The source is nil unless the status is 200.
func (s *stream) open(ctx context.Context, lastID string, patience time.Duration) (*source, int, error) {
	c := s.conn
	ctx, cancel := context.WithCancel(ctx)
	if patience > 0 {
		defer time.AfterFunc(patience, cancel).Stop()
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, c.http.address(), nil)
	if err != nil {
		cancel()
		return nil, 0, err
	}
	q.Header.Set("Accept", eventstream.ContentType)
	c.http.identify(q.Header)
	if lastID != "" {
		q.Header.Set(mcp.HeaderLastEventID, lastID)
	}
	x := new(exchange)
	p, err := c.http.guard.send(q, x)
	if err != nil {
		cancel()
		return nil, 0, err
	}
	if p.StatusCode != http.StatusOK || !eventstream.IsStream(p.Header.Get("Content-Type")) {
		_ = p.Body.Close()
		cancel()
		if p.StatusCode == http.StatusOK {
			return nil, http.StatusNotAcceptable, errors.New("the response is not an event stream")
		}
		return nil, p.StatusCode, x.error()
	}
	src := &source{cancel: cancel, body: p.Body, began: time.Now()}
	src.events = eventstream.NewReader(p.Body, lastID, c.cfg.MaxLine, func() { src.alive.Store(int64(time.Since(src.began))) })
	src.lastID.Store(&lastID)
	return src, http.StatusOK, nil
}

func (src *source) close() {
	if src != nil {
		src.cancel()
		_ = src.body.Close()
	}
}

// read handles the messages of a source until it ends.
func (s *stream) read(src *source) {
	var last scratch
	for {
		e, err := src.events.Read()
		if err != nil {
			return
		}
		s.conn.receive(&last, []byte(e.Data)) // answers do not belong here and are dropped
		if e.ID != *src.lastID.Load() {
			src.lastID.Store(&e.ID)
		}
	}
}
