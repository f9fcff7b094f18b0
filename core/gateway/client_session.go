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
	"github.com/mcptrack/mcptrack/core/session"
)

const (
	maxQueuedMessages = 256              // messages of a server that wait for a slow client,
	maxQueuedBytes    = 8 << 20          // and the bytes of their parameters; a single message may be larger
	redialDelay       = 30 * time.Second // before the next attempt after a session could not be opened
	dialTimeout       = 15 * time.Second // for opening a session; the server's ConnectTimeout if longer
)

// clientSession is a session with a server that belongs to one client at a time: the server's
// requests and notifications in it are meant for that client. In a shared session the gateway
// could not know which client they are for.
type clientSession struct {
	srv config.Server // as it was when the session was dialled
	// capabilities are the client capabilities that the gateway declares, a JSON object.
	capabilities json.RawMessage
	ids          taskIDs     // of the principal that the session belongs to
	era          session.Era // the only era that the session may use; "": any
	// poolKey is equal for the requests of modern clients that may use the session one after
	// another, see acquire; "" for the session of a legacy client.
	poolKey string

	ready    chan struct{}    // closed by dial, once conn and tried are set
	conn     *session.Session // nil if dialling failed
	tried    time.Time        // when dialling ended
	wrongEra bool             // the server does not speak the era
	using    atomic.Int32     // requests in progress
	// queue decouples the server's reader from the client: sent to by the reader and by
	// flush, received by run, never closed.
	queue chan func()
	bytes atomic.Int64   // of the parameters of the messages in queue, and of the message in progress
	done  chan struct{}  // closed by close
	once  sync.Once      // closes done
	wg    sync.WaitGroup // waits for run

	mu       sync.Mutex
	client   sessionClient // nil: no client at present
	detached bool          // the client has left its tasks; another client may take them over
	changed  chan struct{} // closed and replaced when client or detached changes
	since    time.Time     // when the client was last set or removed
}

// sessionClient is the client that a session belongs to.
type sessionClient interface {
	// request answers a request of the server.
	request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
	// message delivers a notification of the server; it may block.
	message(method string, params json.RawMessage)
	// begin and end are called before and after each request in the session.
	begin(r *mcpserver.Request)
	end(r *mcpserver.Request)
}

func newClientSession(srv config.Server, capabilities json.RawMessage, client sessionClient) *clientSession {
	return &clientSession{srv: srv, capabilities: capabilities, client: client, ready: make(chan struct{}), done: make(chan struct{}),
		queue: make(chan func(), maxQueuedMessages), changed: make(chan struct{})}
}

// usable reports whether the session, once dialled, can be used, and otherwise whether
// another attempt makes sense.
func (s *clientSession) usable() (ok, again bool) {
	if s.conn == nil {
		return false, time.Since(s.tried) > redialDelay
	}
	return s.conn.Err() == nil, true
}

// outdated reports whether a dialled session must be replaced: its server's entry has changed,
// it broke, or it is time for another attempt.
func (s *clientSession) outdated(srv config.Server) bool {
	if !isClosed(s.ready) {
		return false
	}
	ok, again := s.usable()
	return ok && !s.srv.Equal(srv) || !ok && again
}

// await waits until the session is dialled, and reports whether it can be used.
func (s *clientSession) await(ctx context.Context) bool {
	select {
	case <-s.ready:
	case <-ctx.Done():
		return false
	}
	ok, _ := s.usable()
	return ok
}

// close ends the session and returns once its goroutines and its process have ended.
func (s *clientSession) close() {
	<-s.ready
	s.once.Do(func() { close(s.done) })
	if s.conn != nil {
		_ = s.conn.Close()
	}
	s.wg.Wait()
}

func (s *clientSession) run() {
	for {
		select {
		case f := <-s.queue:
			f()
		case <-s.done:
			return
		}
	}
}

// setClient sets the client that the session belongs to; nil: none. Then detached says
// whether requests of the server wait for a client that takes the session over.
func (s *clientSession) setClient(client sessionClient, detached bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.client, s.detached, s.since = client, detached, time.Now()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *clientSession) currentClient() (client sessionClient, detached bool, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client, s.detached, s.changed
}

// unused returns the time since the client was last set or removed.
func (s *clientSession) unused() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.since)
}

// maxIdle is how long the session is pooled for the next request of a modern client.
func (s *clientSession) maxIdle() time.Duration {
	if s.srv.Unshared {
		return maxDetached // the server keeps state for these clients in it
	}
	return maxIdle
}

// do sends a request for the client's request r to the server.
func (s *clientSession) do(ctx context.Context, r *mcpserver.Request, q session.Request) (json.RawMessage, error) {
	s.using.Add(1)
	defer s.using.Add(-1)
	if client, _, _ := s.currentClient(); client != nil {
		client.begin(r)
		defer client.end(r)
	}
	raw, err := s.conn.Do(ctx, q)
	s.flush(ctx) // messages that preceded the answer reach the client first
	return raw, err
}

// flush waits until the messages that are in the queue now have been delivered to the client,
// or until ctx or the session ends.
func (s *clientSession) flush(ctx context.Context) {
	sent := make(chan struct{})
	select {
	case s.queue <- func() { close(sent) }:
	case <-ctx.Done():
		return
	case <-s.done:
		return
	}
	select {
	case <-sent:
	case <-ctx.Done():
	case <-s.done:
	}
}

// message queues a notification of the server for the client. If the queue is full, the
// notification is dropped.
func (s *clientSession) message(method string, params json.RawMessage) {
	size := int64(len(params))
	if all := s.bytes.Add(size); all > maxQueuedBytes && all > size {
		s.bytes.Add(-size)
		return
	}
	rewrite := s.ids.related
	if method == mcp.NotificationTaskStatus {
		rewrite = s.ids.status
	}
	select {
	case s.queue <- func() {
		defer s.bytes.Add(-size)
		if client, _, _ := s.currentClient(); client != nil {
			client.message(method, rewrite(params))
		}
	}:
	default:
		s.bytes.Add(-size)
	}
}

// request lets the client answer a request of the server. While the session is detached, the
// request waits for a client.
func (s *clientSession) request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	for {
		client, detached, changed := s.currentClient()
		if client != nil {
			raw, err := client.request(ctx, method, s.ids.related(params))
			return mapRelated(raw, s.ids.read), err
		}
		if !detached {
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
// client's behalf: the capabilities whose requests it forwards.
func declared(capabilities json.RawMessage) json.RawMessage {
	all, caps := fields(capabilities), map[string]json.RawMessage{}
	for _, capability := range answerable() {
		if raw := all[capability]; isObject(raw) {
			caps[capability] = raw
		}
	}
	return encode(caps)
}

// declaredLegacy is declared for legacy servers, which may also request tasks from the client.
func declaredLegacy(capabilities json.RawMessage) json.RawMessage {
	caps := fields(declared(capabilities))
	if tasks := fields(fields(capabilities)["tasks"]); len(caps) > 0 && isObject(tasks["requests"]) {
		// "list" is left out: the client would also list the tasks of other servers.
		allowed := map[string]json.RawMessage{"requests": tasks["requests"]}
		if isObject(tasks["cancel"]) {
			allowed["cancel"] = tasks["cancel"]
		}
		caps["tasks"] = encode(allowed)
	}
	return encode(caps)
}

// maxClientTasks is how many tasks of a client one server may know.
const maxClientTasks = 1_000

// legacyClient is a legacy client as one server sees it.
type legacyClient struct {
	client *mcpserver.Client

	mu       sync.Mutex
	requests []*mcpserver.Request // of the client, in progress in the session, in order of their beginning
	tasks    map[string]bool      // ids of the tasks that the client runs for this server
}

func (c *legacyClient) begin(r *mcpserver.Request) {
	if r.Client != c.client { // another client may ask for a task in the session
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, r)
}

func (c *legacyClient) end(r *mcpserver.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = slices.DeleteFunc(c.requests, func(c *mcpserver.Request) bool { return c == r })
}

// newest returns the request that began last, on whose stream the client can be reached; nil
// if there is none.
func (c *legacyClient) newest() *mcpserver.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.requests) == 0 {
		return nil
	}
	return c.requests[len(c.requests)-1]
}

func (c *legacyClient) message(method string, params json.RawMessage) {
	c.client.Notify(c.newest(), method, params)
}

func (c *legacyClient) request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	begins := isObject(fields(params)["task"])
	switch method {
	case mcp.MethodGetTask, mcp.MethodTaskResult, mcp.MethodCancelTask:
		if !c.knows(taskID(params)) {
			return nil, &session.RPCError{Code: mcp.CodeInvalidParams, Message: "unknown task"}
		}
	default:
		if !canAnswer(c.client.Capabilities, method) {
			return nil, notFound()
		}
	}
	raw, err := c.client.Ask(ctx, c.newest(), method, params)
	if e, ok := errors.AsType[*mcpserver.Error](err); ok {
		data, _ := e.Data.(json.RawMessage)
		return nil, &session.RPCError{Code: e.Code, Message: e.Message, Data: data}
	}
	if id := taskID(fields(raw)["task"]); begins && id != "" {
		c.learn(id)
	}
	return raw, err
}

// learn records that the client runs a task for this server.
func (c *legacyClient) learn(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tasks == nil {
		c.tasks = map[string]bool{}
	}
	if len(c.tasks) < maxClientTasks && len(id) <= maxTaskID {
		c.tasks[id] = true
	}
}

// knows reports whether the client runs the task for this server.
func (c *legacyClient) knows(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tasks[id]
}

// taskID is the taskId of params or of a task; "" if there is none.
func taskID(raw json.RawMessage) (id string) {
	_ = json.Unmarshal(fields(raw)["taskId"], &id) // "" if it is not a string
	return id
}
