package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
)

const (
	ownQueue   = 256              // messages of a server that wait for a slow client,
	ownBytes   = 8 << 20          // and the bytes of their parameters; a single one may have more
	ownRetry   = 30 * time.Second // until the next attempt after a session could not be opened
	ownTimeout = 15 * time.Second // for opening a session; the server's ConnectTimeout if longer
)

// own is a session with a server that speaks for one client at a time: the requests and
// notifications that the server sends in it are meant for that client. In a shared session
// the gateway could not know which client they are for.
type own struct {
	srv config.Server // as it was when the session was dialled
	// capabilities are the client capabilities that the server is told, a JSON object.
	capabilities json.RawMessage
	ids          taskIDs // of the principal whose session it is
	// era is the only one in which the session may be; "": the server's.
	era session.Era
	// group is equal for the requests of modern clients that may use the session one after
	// the other, see lend; "" for the session of a legacy client.
	group string

	ready chan struct{}    // closed by dial, once s and tried are set
	s     *session.Session // nil if dialling failed
	tried time.Time        // when dialling ended
	wrong bool             // the server does not speak the era
	using atomic.Int32     // requests in progress
	// queue decouples the server's reader from the client: sent to by the reader and by
	// flush, received by run, never closed.
	queue chan func()
	bytes atomic.Int64   // of the parameters of the messages in queue, and of the one in progress
	done  chan struct{}  // closed by close
	once  sync.Once      // closes done
	wg    sync.WaitGroup // waits for run

	mu      sync.Mutex
	peer    peer          // nil: no client at present
	parked  bool          // the client has left its tasks; a client may take them over
	changed chan struct{} // closed and replaced when peer or parked changed
	since   time.Time     // when it became idle or parked
}

// peer is the client that a session speaks for.
type peer interface {
	// request answers a request of the server.
	request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
	// message delivers a notification of the server; it may block.
	message(method string, params json.RawMessage)
	// begin and end are called before and after each request in the session.
	begin(r *mcpserver.Request)
	end(r *mcpserver.Request)
}

func newOwn(srv config.Server, capabilities json.RawMessage, p peer) *own {
	return &own{srv: srv, capabilities: capabilities, peer: p, ready: make(chan struct{}), done: make(chan struct{}),
		queue: make(chan func(), ownQueue), changed: make(chan struct{})}
}

// dial connects to the server with the client's capabilities. level holds the params of the
// client's last logging/setLevel; nil: none.
func (o *own) dial(ctx context.Context, g *Gateway, level map[string]json.RawMessage) {
	defer close(o.ready)
	ctx, cancel := context.WithTimeout(ctx, max(ownTimeout, o.srv.ConnectTimeout))
	defer cancel()
	opts := g.opts.Session
	opts.Logger = g.opts.Logger.With("server", printable.Line(o.srv.ID, 128))
	opts.Client = &session.ClientSide{Capabilities: o.capabilities, Request: o.request, Message: o.message}
	srv := o.srv
	if o.era != "" {
		srv.Protocol, opts.Era = config.Protocol(o.era), o.era
	}
	o.wg.Go(o.run)
	s, err := g.opts.Dial(ctx, srv, opts)
	if o.wrong = errors.Is(err, session.ErrEra); o.wrong && srv.Unshared {
		opts.Era = ""
		s, err = g.opts.Dial(ctx, o.srv, opts)
	}
	o.tried = time.Now()
	if err != nil && o.wrong {
		return
	}
	if err != nil {
		g.opts.Logger.Warn("cannot open a separate session for a client; the client uses the shared session", "server", o.srv.ID, "err", err)
		return
	}
	if level != nil {
		_, _ = s.Do(ctx, session.Request{Method: mcp.MethodSetLevel, Params: level}) // an error: the server has no logging
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

// close ends the session and returns once its goroutines and its process have ended.
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

// speakFor sets the client that the session speaks for; nil: none. Then parked says whether
// requests of the server wait for a client that takes the session over.
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

// do sends a request for the client's request r to the server.
func (o *own) do(ctx context.Context, r *mcpserver.Request, q session.Request) (json.RawMessage, error) {
	o.using.Add(1)
	defer o.using.Add(-1)
	if p, _, _ := o.speaksFor(); p != nil {
		p.begin(r)
		defer p.end(r)
	}
	raw, err := o.s.Do(ctx, q)
	o.flush(ctx) // messages that preceded the answer reach the client first
	return raw, err
}

// flush waits until the messages that are in the queue now have been delivered to the client,
// or until ctx or the session ends.
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

// message queues a notification of the server for the client. If the queue is full, the
// notification is dropped.
func (o *own) message(method string, params json.RawMessage) {
	size := int64(len(params))
	if all := o.bytes.Add(size); all > ownBytes && all > size {
		o.bytes.Add(-size)
		return
	}
	rewrite := o.ids.related
	if method == mcp.NotificationTaskStatus {
		rewrite = o.ids.status
	}
	select {
	case o.queue <- func() {
		defer o.bytes.Add(-size)
		if p, _, _ := o.speaksFor(); p != nil {
			p.message(method, rewrite(params))
		}
	}:
	default:
		o.bytes.Add(-size)
	}
}

// request lets the client answer a request of the server. While the session is parked, the
// request waits for a client.
func (o *own) request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	for {
		p, parked, changed := o.speaksFor()
		if p != nil {
			raw, err := p.request(ctx, method, o.ids.related(params))
			return mapRelated(raw, o.ids.read), err
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

// answerable maps each method that a server may call on a client to the client capability
// that permits it.
func answerable() map[string]string {
	return map[string]string{"sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots"}
}

// canAnswer reports whether a client with the capabilities answers a server's requests of
// a method.
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

// declaredLegacy is declared for servers of the legacy era, which may also ask the client
// for tasks.
func declaredLegacy(capabilities json.RawMessage) json.RawMessage {
	caps := fields(declared(capabilities))
	if tasks := fields(fields(capabilities)["tasks"]); len(caps) > 0 && isObject(tasks["requests"]) {
		// "list" is left out: the client would list the tasks of other servers, too.
		offered := map[string]json.RawMessage{"requests": tasks["requests"]}
		if isObject(tasks["cancel"]) {
			offered["cancel"] = tasks["cancel"]
		}
		caps["tasks"] = encode(offered)
	}
	return encode(caps)
}

// requests holds the requests of a client that are in progress in one session, in the
// order in which they began. The zero value is ready.
type requests struct {
	mu  sync.Mutex
	all []*mcpserver.Request
}

func (q *requests) begin(r *mcpserver.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.all = append(q.all, r)
}

func (q *requests) end(r *mcpserver.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.all = slices.DeleteFunc(q.all, func(c *mcpserver.Request) bool { return c == r })
}

// via returns the request that began last, on whose stream the client can be reached; nil
// if there is none.
func (q *requests) via() *mcpserver.Request {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.all) == 0 {
		return nil
	}
	return q.all[len(q.all)-1]
}
