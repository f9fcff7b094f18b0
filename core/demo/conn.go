package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// maxListens bounds the streams one client may hold open.
const maxListens = 64

var errInputEnded = errors.New("the client closed its end")

// conn is the one connection of a Serve. handle is called by one goroutine;
// listens and notifications run on others, all of them counted in wg.
type conn struct {
	srv    *server.MCPServer
	ctx    context.Context // done when Serve ends, for whatever reason
	cancel context.CancelCauseFunc

	// out takes encoded messages. Answers and session forwarders send, close
	// closes it after all of them; capacity 16 lets a burst pass without a switch.
	out     chan []byte
	written chan struct{} // closed by the writer when it has written its last

	client *session
	wg     sync.WaitGroup // listens and forwarders

	mu      sync.Mutex
	listens map[string]*session // by raw request id
	failed  error               // first error of the writer
}

func newConn(ctx context.Context, srv *server.MCPServer, out io.Writer) *conn {
	c := &conn{
		srv:     srv,
		out:     make(chan []byte, 16),
		written: make(chan struct{}),
		listens: make(map[string]*session),
	}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	c.client = newSession("client", nil)
	c.open(c.ctx, c.client)
	go c.write(out)
	return c
}

// write is the only one to touch out. After an error it goes on receiving, so
// that nobody blocks on it.
func (c *conn) write(out io.Writer) {
	defer close(c.written)
	for msg := range c.out {
		c.mu.Lock()
		failed := c.failed
		c.mu.Unlock()
		if failed != nil {
			continue
		}
		if _, err := out.Write(msg); err != nil {
			err = fmt.Errorf("write answer: %w", err)
			c.mu.Lock()
			c.failed = err
			c.mu.Unlock()
			c.cancel(err)
		}
	}
}

func (c *conn) send(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		// Our own values always encode; an echoed request id is valid JSON.
		return
	}
	c.out <- append(b, '\n')
}

// open registers a session, so that list changes reach it, and forwards its
// notifications until ctx is done.
func (c *conn) open(ctx context.Context, s *session) {
	// The ids are unique within this server: it cannot fail.
	_ = c.srv.RegisterSession(ctx, s)
	c.wg.Go(func() {
		defer c.srv.UnregisterSession(ctx, s.id)
		s.forward(ctx, c.send)
	})
}

// handle answers one message. Everything but a listen is answered before handle
// returns, so answers keep the order of requests.
func (c *conn) handle(text json.RawMessage) {
	var msg struct {
		Method mcp.MCPMethod   `json:"method"`
		ID     json.RawMessage `json:"id"`
		Params struct {
			RequestID json.RawMessage `json:"requestId"`
		} `json:"params"`
	}
	// What does not decode here is refused by HandleMessage.
	decoded := json.Unmarshal(text, &msg) == nil
	switch {
	case decoded && msg.Method == mcp.MethodInitialize:
		c.client.setLegacy()
	case decoded && msg.Method == mcp.MethodSubscriptionsListen && len(msg.ID) > 0:
		c.listen(msg.ID, text)
		return
	case decoded && string(msg.Method) == string(mcp.MethodNotificationCancelled):
		c.endListen(msg.Params.RequestID)
	}
	if answer := c.srv.HandleMessage(c.srv.WithContext(c.ctx, c.client), text); answer != nil {
		c.send(answer)
	}
}

// listen opens a stream of the modern era. Each one is a session of its own: it
// has its own filter, and its messages carry its id.
func (c *conn) listen(rawID, text json.RawMessage) {
	key := string(bytes.TrimSpace(rawID))
	var id any
	_ = json.Unmarshal(rawID, &id) // it is a part of valid JSON
	c.mu.Lock()
	_, taken := c.listens[key]
	full := len(c.listens) >= maxListens
	if !taken && !full {
		s := newSession("listen "+key, id)
		ctx, cancel := context.WithCancel(c.ctx)
		s.end = cancel
		c.listens[key] = s
		c.mu.Unlock()
		c.open(ctx, s)
		c.wg.Go(func() { c.stream(ctx, s, key, text) })
		return
	}
	c.mu.Unlock()
	reason := "too many open listen streams"
	if taken {
		reason = "this request id has an open listen stream"
	}
	c.send(mcp.NewJSONRPCError(mcp.NewRequestId(id), mcp.INVALID_REQUEST, reason, nil))
}

// stream holds a listen open. A stream that the client cancelled gets no answer;
// one that we end does.
func (c *conn) stream(ctx context.Context, s *session, key string, text json.RawMessage) {
	defer s.end()
	answer := c.srv.HandleMessage(c.srv.WithContext(ctx, s), text)
	c.mu.Lock()
	delete(c.listens, key)
	c.mu.Unlock()
	if answer != nil && !s.isCancelled() {
		c.send(answer)
	}
}

func (c *conn) endListen(rawID json.RawMessage) {
	c.mu.Lock()
	s := c.listens[string(bytes.TrimSpace(rawID))]
	c.mu.Unlock()
	if s != nil {
		s.cancelByClient()
	}
}

// updated tells everybody who subscribed to a resource that it changed.
func (c *conn) updated(uri string) {
	c.mu.Lock()
	sessions := []*session{c.client}
	for _, s := range c.listens {
		sessions = append(sessions, s)
	}
	c.mu.Unlock()
	for _, s := range sessions {
		if s.IsSubscribedToResource(uri) {
			s.push(mcp.JSONRPCNotification{
				JSONRPC: mcp.JSONRPC_VERSION,
				Notification: mcp.Notification{
					Method: mcp.MethodNotificationResourceUpdated,
					Params: mcp.NotificationParams{AdditionalFields: map[string]any{"uri": uri}},
				},
			})
		}
	}
}

// close ends the streams, writes what is left and returns why Serve ended.
func (c *conn) close(err error) error {
	c.cancel(errInputEnded)
	c.wg.Wait()
	close(c.out)
	<-c.written
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		err = c.failed
	}
	return err
}
