package wire

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/mcptrack/mcptrack/core/eventstream"
	"github.com/mcptrack/mcptrack/core/uri"
)

// endpointEvent is the type of the event in which an SSE server sends the URL for posting messages.
const endpointEvent = "endpoint"

// SSE connects over the HTTP+SSE transport of 2024-11-05. ctx limits the wait for the endpoint.
func (d *HTTPDialer) SSE(ctx context.Context) (*Conn, error) {
	c := d.Streamable()
	c.http.sse = true
	c.http.endpoint.Store(nil)
	if err := c.http.start(ctx); err != nil {
		c.Close(ErrClosed)
		return nil, err
	}
	return c, nil
}

// start opens the event stream and waits for the endpoint. Only a connection that starts ends with ctx.
func (h *httpConn) start(ctx context.Context) error {
	c, x := h.conn, new(exchange)
	defer context.AfterFunc(ctx, c.cancel)()
	p, err := h.open(c.ctx, "", x)
	if err != nil {
		return c.requestError(ctx, x, err)
	}
	endpoint := make(chan struct{}) // closed by readSSE once the endpoint is known
	c.group.Go(func() { h.readSSE(p, endpoint) })
	select {
	case <-endpoint:
		return nil
	case <-c.lost:
		return c.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// readSSE handles the messages of the event stream until it ends, and then the connection ends.
func (h *httpConn) readSSE(p *http.Response, endpoint chan<- struct{}) {
	defer p.Body.Close()
	var m scratch
	events := eventstream.NewReader(p.Body, "", h.conn.cfg.MaxLine, nil)
	var err error
	for err == nil {
		var e eventstream.Event
		switch e, err = h.next(events); {
		case err != nil:
		case e.Type != endpointEvent:
			h.conn.handle(&m, []byte(e.Data))
		default:
			if err = h.setEndpoint(e.Data); err == nil && endpoint != nil {
				close(endpoint)
				endpoint = nil
			}
		}
	}
	h.conn.fail(&EndError{Reason: "the event stream ended", Err: h.conn.cleanError(err)})
}

// setEndpoint stores where messages are posted. It rejects an endpoint on another origin.
func (h *httpConn) setEndpoint(data string) error {
	u, err := h.dialer.url.Parse(data)
	if err != nil {
		return errors.New("the server sent an endpoint that is not a URL")
	}
	if !sameOrigin(u, h.dialer.url) {
		return fmt.Errorf("the server sent an endpoint on another origin: %s",
			h.conn.cfg.Redact((&url.URL{Scheme: u.Scheme, Host: u.Host}).String()))
	}
	u.RawQuery = uri.Query(u.RawQuery)
	h.endpoint.Store(u)
	return nil
}
