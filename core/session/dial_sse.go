package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"

	"github.com/mcptrack/mcptrack/core/config"
)

// dialSSE connects over the HTTP+SSE transport of 2024-11-05, which only knows
// the legacy era.
func dialSSE(ctx context.Context, srv config.Server, opts Options) (*Session, error) {
	if srv.Protocol == config.ProtocolModern {
		return nil, fmt.Errorf("connect: the sse transport has no modern protocol")
	}
	d, err := newHTTPDial(srv, opts)
	if err != nil {
		return nil, err
	}
	s := d.s
	info, err := d.startSSE(ctx)
	if err != nil {
		_ = s.Close()
		d.base.CloseIdleConnections()
		return nil, fmt.Errorf("connect: %w", err)
	}
	info.Transport, info.Push = config.TransportSSE, true
	s.setInfo(info)
	return s, nil
}

func (d *httpDial) startSSE(ctx context.Context) (Info, error) {
	s := d.s
	hc, g := d.client()
	sc := &sseControl{s: s, hc: hc, base: d.url}
	g.onEvent = sc.event
	tr, err := transport.NewSSE(d.url.String(), transport.WithHTTPClient(hc), transport.WithSSELogger(s.logger),
		transport.WithEndpointTimeout(time.Hour), transport.WithResponseTimeout(time.Hour)) // the contexts end sooner
	if err != nil {
		return Info{}, errors.New("the URL cannot be used")
	}
	s.attach(tr)
	s.hush = func(bool) { g.silent.Store(true) }
	s.stop = d.base.CloseIdleConnections
	tr.SetConnectionLostHandler(func(err error) {
		s.lose(&EndError{Reason: "the event stream ended", ExitCode: -1, Err: cleanURLError(s.redact, err)})
	})

	// Start's context is that of the stream, so it cannot carry the deadline.
	x := new(exchange)
	start, cancel := context.WithCancelCause(withExchange(s.ctx, x))
	s.wg.Go(func() { <-s.ctx.Done(); cancel(nil) })
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	err = tr.Start(start)
	stop()
	if err != nil {
		cancel(nil)
		if ended := s.Err(); ended != nil && x.error() == nil {
			return Info{}, ended
		}
		if ctx.Err() != nil {
			return Info{}, context.Cause(ctx)
		}
		return Info{}, s.requestError(ctx, x, err)
	}
	return s.initialize(ctx, tr, legacyVersion)
}

// sseControl looks at the events of an SSE session before the transport does.
type sseControl struct {
	s        *Session
	hc       *http.Client
	base     *url.URL
	endpoint string // set by the first endpoint event; used by the reader only
}

// event refuses an endpoint of another origin, looks for answers that the transport
// cannot decode, and answers what the server asks: the transport would take it for
// an answer to a request of ours.
func (c *sseControl) event(name, data string) error {
	if name == "endpoint" {
		u, err := c.base.Parse(data)
		if err != nil {
			return errors.New("the server names an endpoint that is no URL")
		}
		if u.Scheme != c.base.Scheme || u.Host != c.base.Host {
			return fmt.Errorf("the server names an endpoint of another origin: %s",
				c.s.redact.text((&url.URL{Scheme: u.Scheme, Host: u.Host}).String()))
		}
		c.endpoint = u.String()
		return nil
	}
	c.s.look([]byte(data))
	var q struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if json.Unmarshal([]byte(data), &q) != nil || q.Method == "" || len(q.ID) == 0 || string(q.ID) == "null" || c.endpoint == "" {
		return nil
	}
	answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"method not found"}}`, q.ID, codeMethodNotFound)
	if q.Method == "ping" {
		answer = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, q.ID)
	}
	c.post(c.endpoint, answer)
	return nil
}

// post sends an answer in the background: the reader must go on reading.
func (c *sseControl) post(endpoint, answer string) {
	if c.s.ended() {
		return
	}
	c.s.wg.Go(func() {
		ctx, cancel := context.WithTimeout(c.s.ctx, 5*time.Second)
		defer cancel()
		q, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, bytes.NewReader([]byte(answer)))
		if err != nil {
			return
		}
		q.Header.Set("Content-Type", "application/json")
		if p, err := c.hc.Do(q); err == nil {
			_ = p.Body.Close()
		}
	})
}
