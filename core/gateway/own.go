package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/serve"
	"github.com/mcptrack/mcptrack/core/session"
)

const (
	maxOwn     = 256 // sessions for single clients, in all
	ownQueue   = 256 // messages of a server that wait for a slow client
	ownRetry   = 30 * time.Second
	ownTimeout = 15 * time.Second
)

// own is the session with a server of the legacy era that speaks for one client: what the
// server asks or says there is meant for that client and no other. In a shared session
// that would be unknown.
type own struct {
	srv    config.Server
	client *serve.Client

	ready chan struct{}    // closed once s or failed is set
	s     *session.Session // nil if it failed
	tried time.Time
	// queue decouples the server's reader from the client: sent to by the reader and by
	// flush, received by run, never closed.
	queue chan func()
	done  chan struct{} // closed by close
	once  sync.Once
	wg    sync.WaitGroup // run

	mu    sync.Mutex
	calls []*serve.Request // in progress
}

// dial connects in the name of the client. level is its logging/setLevel, or nil.
func (o *own) dial(ctx context.Context, g *Gateway, level map[string]json.RawMessage) {
	defer close(o.ready)
	ctx, cancel := context.WithTimeout(ctx, max(ownTimeout, o.srv.ConnectTimeout))
	defer cancel()
	opts := g.opts.Session
	opts.Era, opts.Logger = session.EraLegacy, g.opts.Logger
	opts.Client = &session.ClientSide{Capabilities: declared(o.client.Capabilities), Request: o.request, Message: o.message}
	srv := o.srv
	srv.Protocol = config.ProtocolLegacy
	o.wg.Go(o.run)
	s, err := g.opts.Dial(ctx, srv, opts)
	o.tried = time.Now()
	if err != nil {
		g.opts.Logger.Warn("cannot open a session for a client of its own; it shares one", "server", o.srv.ID, "err", err)
		return
	}
	if level != nil {
		_, _ = s.Do(ctx, session.Request{Method: mcp.MethodSetLevel, Params: level}) // it may have no logging
	}
	o.s = s
}

// usable reports whether the session, once it was dialled, can be used, and otherwise
// whether another attempt makes sense.
func (o *own) usable() (ok, again bool) {
	if o.s == nil {
		return false, time.Since(o.tried) > ownRetry
	}
	return o.s.Err() == nil, true
}

// close ends the session and waits for it.
func (o *own) close() {
	<-o.ready
	o.once.Do(func() { close(o.done) })
	if o.s != nil {
		_ = o.s.Close()
	}
	o.wg.Wait()
}

func (o *own) run() {
	for {
		select {
		case f := <-o.queue:
			f()
		case <-o.done:
			return
		}
	}
}

// do makes a request of the client.
func (o *own) do(ctx context.Context, r *serve.Request, q session.Request) (json.RawMessage, error) {
	o.mu.Lock()
	o.calls = append(o.calls, r)
	o.mu.Unlock()
	raw, err := o.s.Do(ctx, q)
	o.flush(ctx) // messages come before the answer
	o.mu.Lock()
	o.calls = slices.DeleteFunc(o.calls, func(c *serve.Request) bool { return c == r })
	o.mu.Unlock()
	return raw, err
}

func (o *own) flush(ctx context.Context) {
	sent := make(chan struct{})
	select {
	case o.queue <- func() { close(sent) }:
	case <-ctx.Done():
		return
	case <-o.done:
		return
	}
	select {
	case <-sent:
	case <-ctx.Done():
	case <-o.done:
	}
}

// via returns the client's request that began last, on whose stream the client can be
// reached; nil if there is none.
func (o *own) via() *serve.Request {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.calls) == 0 {
		return nil
	}
	return o.calls[len(o.calls)-1]
}

// message queues a notification for the client; one too many is dropped.
func (o *own) message(method string, params json.RawMessage) {
	select {
	case o.queue <- func() { o.client.Notify(o.via(), method, params) }:
	default:
	}
}

// request lets the client answer a request of the server.
func (o *own) request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	if !canAnswer(o.client.Capabilities, method) {
		return nil, &session.RPCError{Code: mcp.CodeMethodNotFound, Message: "method not found"}
	}
	raw, err := o.client.Ask(ctx, o.via(), method, params)
	if e, ok := errors.AsType[*serve.Error](err); ok {
		data, _ := e.Data.(json.RawMessage)
		return nil, &session.RPCError{Code: e.Code, Message: e.Message, Data: data}
	}
	return raw, err
}

// answerable are the capabilities of clients that let servers ask, by method.
func answerable() map[string]string {
	return map[string]string{"sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots"}
}

// canAnswer reports whether a client with the capabilities answers a method.
func canAnswer(capabilities json.RawMessage, method string) bool {
	capability, ok := answerable()[method]
	return ok && isObject(fields(capabilities)[capability])
}

// declared returns the client capabilities that the gateway declares to servers on the
// client's behalf: only those whose requests it forwards.
func declared(capabilities json.RawMessage) json.RawMessage {
	caps := map[string]json.RawMessage{}
	for _, capability := range answerable() {
		if raw := fields(capabilities)[capability]; isObject(raw) {
			caps[capability] = raw
		}
	}
	return encode(caps)
}
