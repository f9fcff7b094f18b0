package gateway

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/serve"
	"github.com/mcptrack/mcptrack/core/session"
)

const (
	ownQueue   = 256 // messages of a server that wait for a slow client
	ownRetry   = 30 * time.Second
	ownTimeout = 15 * time.Second
)

// own is a session with a server that speaks for one client: what the server asks or says
// there is meant for that client and no other. In a shared session that would be unknown.
type own struct {
	srv config.Server
	// capabilities are those of the client that the server sees, a JSON object.
	capabilities json.RawMessage
	group        string // of clients of the modern era between which it may be passed on

	ready chan struct{}    // closed once s or failed is set
	s     *session.Session // nil if it failed
	tried time.Time
	// queue decouples the server's reader from the client: sent to by the reader and by
	// flush, received by run, never closed.
	queue chan func()
	done  chan struct{} // closed by close
	once  sync.Once
	wg    sync.WaitGroup // run

	mu      sync.Mutex
	peer    peer          // nil: nobody
	parked  bool          // tasks go on without their client, which may come back
	changed chan struct{} // closed and replaced when peer or parked changed
	since   time.Time     // when it became idle or parked
}

// peer is the client that a session speaks for.
type peer interface {
	// request answers a request of the server.
	request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
	// message delivers a notification of the server; it may block.
	message(method string, params json.RawMessage)
	// begin and end enclose a request of the client.
	begin(r *serve.Request)
	end(r *serve.Request)
}

func newOwn(srv config.Server, capabilities json.RawMessage, p peer) *own {
	return &own{srv: srv, capabilities: capabilities, peer: p, ready: make(chan struct{}), done: make(chan struct{}),
		queue: make(chan func(), ownQueue), changed: make(chan struct{})}
}

// dial connects in the name of the client. level is its logging/setLevel, or nil.
func (o *own) dial(ctx context.Context, g *Gateway, level map[string]json.RawMessage) {
	defer close(o.ready)
	ctx, cancel := context.WithTimeout(ctx, max(ownTimeout, o.srv.ConnectTimeout))
	defer cancel()
	opts := g.opts.Session
	opts.Logger = g.opts.Logger
	opts.Client = &session.ClientSide{Capabilities: o.capabilities, Request: o.request, Message: o.message}
	srv := o.srv
	if g.view.Load().asks[srv.ID] { // in the modern era servers cannot ask in a session
		srv.Protocol, opts.Era = config.ProtocolLegacy, session.EraLegacy
	}
	o.wg.Go(o.run)
	s, err := g.opts.Dial(ctx, srv, opts)
	o.tried = time.Now()
	if err != nil {
		g.opts.Logger.Warn("cannot open a separate session for a client; it uses the shared one", "server", o.srv.ID, "err", err)
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

// speakFor sets the client. Without one, parked says whether it may come back.
func (o *own) speakFor(p peer, parked bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.peer, o.parked, o.since = p, parked, time.Now()
	close(o.changed)
	o.changed = make(chan struct{})
}

func (o *own) speaksFor() (p peer, parked bool, changed <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.peer, o.parked, o.changed
}

// do makes a request of the client.
func (o *own) do(ctx context.Context, r *serve.Request, q session.Request) (json.RawMessage, error) {
	if p, _, _ := o.speaksFor(); p != nil {
		p.begin(r)
		defer p.end(r)
	}
	raw, err := o.s.Do(ctx, q)
	o.flush(ctx) // messages come before the answer
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

// message queues a notification for the client; one too many is dropped.
func (o *own) message(method string, params json.RawMessage) {
	select {
	case o.queue <- func() {
		if p, _, _ := o.speaksFor(); p != nil {
			p.message(method, exportTasks(o.srv.ID, params))
		}
	}:
	default:
	}
}

// request lets the client answer a request of the server.
func (o *own) request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	for {
		p, parked, changed := o.speaksFor()
		if p != nil {
			raw, err := p.request(ctx, method, exportTasks(o.srv.ID, params))
			return importTasks(raw), err
		}
		if !parked {
			return nil, notFound()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func notFound() error {
	return &session.RPCError{Code: mcp.CodeMethodNotFound, Message: "method not found"}
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
	all, caps := fields(capabilities), map[string]json.RawMessage{}
	for _, capability := range answerable() {
		if raw := all[capability]; isObject(raw) {
			caps[capability] = raw
		}
	}
	return encode(caps)
}

// declaredLegacy adds what only servers of the legacy era know.
func declaredLegacy(capabilities json.RawMessage) json.RawMessage {
	caps := fields(declared(capabilities))
	if tasks := fields(fields(capabilities)["tasks"]); len(caps) > 0 && isObject(tasks["requests"]) {
		// Without "list": the client would list the tasks of other servers, too.
		offered := map[string]json.RawMessage{"requests": tasks["requests"]}
		if isObject(tasks["cancel"]) {
			offered["cancel"] = tasks["cancel"]
		}
		caps["tasks"] = encode(offered)
	}
	return encode(caps)
}

// requests are those of a client that are in progress. The zero value is ready.
type requests struct {
	mu  sync.Mutex
	all []*serve.Request
}

func (q *requests) begin(r *serve.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.all = append(q.all, r)
}

func (q *requests) end(r *serve.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.all = slices.DeleteFunc(q.all, func(c *serve.Request) bool { return c == r })
}

// via returns the request that began last, on whose stream the client can be reached; nil
// if there is none.
func (q *requests) via() *serve.Request {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.all) == 0 {
		return nil
	}
	return q.all[len(q.all)-1]
}
