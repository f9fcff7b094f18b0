package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/session"
)

const (
	maxQueuedMessages = 256              // notifications from the server queued for a slow client
	maxQueuedBytes    = 8 << 20          // bytes of queued parameters; a single message may be larger
	redialDelay       = 30 * time.Second // delay before another attempt to open a session that failed
	dialTimeout       = 15 * time.Second // timeout for opening a session, unless the server's ConnectTimeout is longer
)

// clientSession is a session with a server that belongs to one client at a time, so requests and
// notifications from the server in this session are meant for that client. In a shared session, the
// gateway could not determine which client they are meant for.
type clientSession struct {
	srv config.Server // config entry when the session was dialled
	// capabilities are the client capabilities that the gateway declares to the server, as a JSON
	// object.
	capabilities json.RawMessage
	ids          taskIDs     // task ids of the principal that owns the session
	era          session.Era // the only protocol era that the session may use; empty means any
	// poolKey is the same for all requests of modern clients that may reuse the session one after
	// another, see acquire. It is empty for a session of a legacy client.
	poolKey string

	ready    chan struct{}    // closed by dial, once conn and tried are set
	conn     *session.Session // nil if dialling failed
	tried    time.Time        // when dialling completed
	wrongEra bool             // the server does not support the required era
	using    atomic.Int32     // number of requests in progress
	// queue decouples the goroutine that reads from the server from the client. The reader and
	// flush send to it; run receives from it. Never closed.
	queue chan func()
	roots rootsAnswers
	bytes atomic.Int64   // size of the parameters in queue and of the message in progress
	done  chan struct{}  // ensures that done is closed only once
	once  sync.Once      // closes done
	wg    sync.WaitGroup // waits for run

	mu       sync.Mutex
	client   sessionClient // nil if no client owns the session at present
	detached bool          // the client has left, but its tasks continue; another client may take them over
	changed  chan struct{} // closed and replaced whenever client or detached changes
	since    time.Time     // when the client was last set or removed
}

// sessionClient is the client that owns a session.
type sessionClient interface {
	// request answers a request from the server.
	request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
	// message delivers a notification from the server; it may block.
	message(method string, params json.RawMessage)
	// begin and end are called before and after each client request in the session.
	begin(r *mcpserver.Request)
	end(r *mcpserver.Request)
}

func newClientSession(srv config.Server, capabilities json.RawMessage, client sessionClient) *clientSession {
	return &clientSession{srv: srv, capabilities: capabilities, client: client, ready: make(chan struct{}), done: make(chan struct{}),
		queue: make(chan func(), maxQueuedMessages), changed: make(chan struct{})}
}

// usable reports whether the session can be used after dialling and, if not, whether another
// attempt could succeed.
func (s *clientSession) usable() (ok, again bool) {
	if s.conn == nil {
		return false, time.Since(s.tried) > redialDelay
	}
	return s.conn.Err() == nil, true
}

// outdated reports whether a dialled session must be replaced, because the config entry of its
// server has changed, its connection was lost, or it is time for another attempt.
func (s *clientSession) outdated(srv config.Server) bool {
	if !isClosed(s.ready) {
		return false
	}
	ok, again := s.usable()
	return ok && !s.srv.Equal(srv) || !ok && again
}

// await waits until the session has been dialled and reports whether it can be used.
func (s *clientSession) await(ctx context.Context) bool {
	select {
	case <-s.ready:
	case <-ctx.Done():
		return false
	}
	ok, _ := s.usable()
	return ok
}

// close closes the session and returns once its goroutines and its process have ended.
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

// setClient sets the client that owns the session; nil means none. If client is nil, detached
// determines whether requests from the server wait for a client that takes over the session.
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

// unused returns the time that has passed since the client was last set or removed.
func (s *clientSession) unused() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.since)
}

// maxIdle returns how long the session is pooled for the next request of a modern client.
func (s *clientSession) maxIdle() time.Duration {
	if s.srv.Unshared() {
		return maxDetached // the server keeps state for these clients in the session
	}
	return maxIdle
}

// do sends the request q to the server on behalf of the client request r.
func (s *clientSession) do(ctx context.Context, r *mcpserver.Request, q session.Request) (json.RawMessage, error) {
	s.using.Add(1)
	defer s.using.Add(-1)
	if client, _, _ := s.currentClient(); client != nil {
		client.begin(r)
		defer client.end(r)
	}
	raw, err := s.conn.Do(ctx, q)
	s.flush(ctx) // deliver messages that preceded the response first
	return raw, err
}

// flush waits until all messages that are currently queued have been delivered to the client, or
// until ctx or the session ends.
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

// message queues a notification from the server for the client. If the queue is full, the
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

// request forwards a request from the server to the client and returns the client's answer. While
// the session is detached, the request waits for a client.
func (s *clientSession) request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	defer s.roots.end(method)
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

// rootsPause is how long a server that has just asked for roots may take to apply the answer. Servers
// ask when a session begins. A call that opens a session follows immediately, and some servers, such as
// server-filesystem, refuse it while they do not know the roots.
const rootsPause = 200 * time.Millisecond

// rootsAnswers follows the first requests for roots in a session. The zero value is ready to use.
type rootsAnswers struct {
	mu      sync.Mutex
	asked   bool // the server has asked
	asking  int
	told    time.Time     // when the first answer was given, since again was called; zero if none was
	changed chan struct{} // closed and set to nil by end; nil if nobody waits
}

// begin is called when a request of the server has been read; see session.ClientSide.Asked.
func (a *rootsAnswers) begin(method string) {
	if method != mcp.MethodListRoots {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = true
	a.asking++
}

// any reports whether the server has asked.
func (a *rootsAnswers) any() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked
}

// again makes settle wait until the server knows the answer to its next request.
func (a *rootsAnswers) again() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.told = time.Time{}
}

// end is called when a request of the server has been answered.
func (a *rootsAnswers) end(method string) {
	if method != mcp.MethodListRoots {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asking--; a.told.IsZero() {
		a.told = time.Now()
	}
	if a.changed != nil {
		close(a.changed)
		a.changed = nil
	}
}

// settle waits until a server whose session has just begun knows the roots, if it asks for them. The
// server must have answered a request before, because it asks earlier than that.
func (a *rootsAnswers) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, maxRootsWait)
	defer cancel()
	for {
		a.mu.Lock()
		if !a.told.IsZero() || a.asking == 0 {
			pause := rootsPause - time.Since(a.told)
			a.mu.Unlock()
			backoff.Sleep(ctx, pause)
			return
		}
		if a.changed == nil {
			a.changed = make(chan struct{})
		}
		changed := a.changed
		a.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

func notFound() error {
	return &session.RPCError{Code: mcp.CodeMethodNotFound, Message: "method not found"}
}

// answerable maps each method that a server may call on a client to the client capability that is
// required for it.
func answerable() map[string]string {
	return map[string]string{"sampling/createMessage": "sampling", "elicitation/create": "elicitation", mcp.MethodListRoots: "roots"}
}

// canAnswer reports whether a client with these capabilities can answer a server's requests with a
// given method.
func canAnswer(capabilities json.RawMessage, method string) bool {
	capability, ok := answerable()[method]
	return ok && isObject(fields(capabilities)[capability])
}

// declared returns the client capabilities that the gateway declares to servers on behalf of a
// client: the ones whose requests it forwards to the client.
func declared(capabilities json.RawMessage) json.RawMessage {
	all, caps := fields(capabilities), map[string]json.RawMessage{}
	for _, capability := range answerable() {
		if raw := all[capability]; isObject(raw) {
			caps[capability] = raw
		}
	}
	return encode(caps)
}

// declaredLegacy is like declared, but for legacy servers, which may also ask the client to run
// tasks.
func declaredLegacy(capabilities json.RawMessage) json.RawMessage {
	caps := fields(declared(capabilities))
	if tasks := fields(fields(capabilities)["tasks"]); len(caps) > 0 && isObject(tasks["requests"]) {
		// "list" is omitted, because the client would also list the tasks that it runs for other
		// servers.
		allowed := map[string]json.RawMessage{"requests": tasks["requests"]}
		if isObject(tasks["cancel"]) {
			allowed["cancel"] = tasks["cancel"]
		}
		caps["tasks"] = encode(allowed)
	}
	return encode(caps)
}

// forwardRequest sends a client a request from a server.
func forwardRequest(ctx context.Context, client *mcpserver.Client, via *mcpserver.Request, method string, params json.RawMessage) (json.RawMessage, error) {
	raw, err := client.Ask(ctx, via, method, params)
	if e, ok := errors.AsType[*mcpserver.Error](err); ok {
		data, _ := e.Data.(json.RawMessage)
		return nil, &session.RPCError{Code: e.Code, Message: e.Message, Data: data}
	}
	return raw, err
}

// maxClientTasks is the maximum number of tasks that one client may run for one server.
const maxClientTasks = 1_000

// legacyClient represents a legacy client in its session with one server.
type legacyClient struct {
	client *mcpserver.Client

	mu       sync.Mutex
	requests []*mcpserver.Request // the client's requests in progress in this session, oldest first
	tasks    map[string]bool      // ids of the tasks that the client runs for this server
}

func (c *legacyClient) begin(r *mcpserver.Request) {
	if r.Client != c.client { // another client may request a task in this session
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

// newest returns the client's most recent request in progress, on whose stream the client can be
// reached, or nil if there is none.
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
	raw, err := forwardRequest(ctx, c.client, c.newest(), method, params)
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

// knows reports whether the client runs a task with this id for this server.
func (c *legacyClient) knows(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tasks[id]
}

// taskID returns the taskId in the params of a request or in a task, or "" if there is none.
func taskID(raw json.RawMessage) (id string) {
	_ = json.Unmarshal(fields(raw)["taskId"], &id) // stays empty if it is not a string
	return id
}
