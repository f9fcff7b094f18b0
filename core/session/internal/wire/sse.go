package wire

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"

	"github.com/mcptrack/mcptrack/core/eventstream"
)

// endpointEvent is the event in which a server on the SSE transport says where
// messages are posted to.
const endpointEvent = "endpoint"

// SSE connects over the HTTP+SSE transport of 2024-11-05. ctx bounds the wait for the
// server's endpoint.
func (e *Endpoint) SSE(ctx context.Context) (*Conn, error) {
	c := e.conn()
	c.http.sse, c.http.url = true, nil
	c.http.guard.onEvent = c.http.checkEndpoint
	tr, err := transport.NewSSE(e.url.String(), transport.WithHTTPClient(c.http.client),
		transport.WithSSELogger(e.cfg.Logger),
		transport.WithEndpointTimeout(time.Hour), transport.WithResponseTimeout(time.Hour)) // the contexts end sooner
	if err != nil {
		return nil, errors.New("the URL of the server is invalid")
	}
	c.attach(tr)
	tr.SetConnectionLostHandler(func(err error) {
		if !c.http.guard.closing.Load() {
			c.fail(&EndError{Reason: "the event stream ended", ExitCode: -1, Err: cleanError(e.cfg.Redact, err)})
		}
	})
	if err := c.startSSE(ctx, tr); err != nil {
		c.Close(ErrClosed)
		return nil, err
	}
	return c, nil
}

// startSSE opens the event stream. The stream lives longer than ctx, which only bounds the
// wait for it.
func (c *Conn) startSSE(ctx context.Context, tr *transport.SSE) error {
	x := new(exchange)
	start, cancel := context.WithCancelCause(withExchange(c.ctx, x))
	context.AfterFunc(c.ctx, func() { cancel(nil) })
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	err := tr.Start(start)
	stop()
	switch {
	case err == nil:
		return nil
	case c.Err() != nil && x.error() == nil:
		return c.Err()
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return c.requestError(ctx, x, err)
}

// checkEndpoint refuses an endpoint of another origin.
func (h *httpConn) checkEndpoint(e eventstream.Event) error {
	if e.Type != endpointEvent {
		return nil
	}
	u, err := h.guard.origin.Parse(e.Data)
	if err != nil {
		return errors.New("the server sent an endpoint that is not a URL")
	}
	if u.Scheme != h.guard.origin.Scheme || u.Host != h.guard.origin.Host {
		return fmt.Errorf("the server sent an endpoint of another origin: %s",
			h.guard.conn.cfg.Redact((&url.URL{Scheme: u.Scheme, Host: u.Host}).String()))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.url = u
	return nil
}
