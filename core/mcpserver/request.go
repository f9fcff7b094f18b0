package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/mcptrack/mcptrack/core/internal/subscriptions"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/tracing"
)

// Request is a client's request that a Func handles. It is valid until the Func returns.
type Request struct {
	// Method is tools/call, prompts/get, resources/read, completion/complete, or a method of an
	// extension.
	Method string
	// Params contains the parameters as sent by the client, without the members of _meta that
	// concern only the connection.
	Params json.RawMessage
	// Version is the MCP protocol version that the client uses.
	Version string
	// Principal identifies the clients that share the same credentials; see Options.Principal. It
	// never contains the credentials.
	Principal string
	// Identity is the client's permanent name, as returned by Events.Identify, or empty if it has
	// none.
	Identity string
	// Capabilities contains the client's capabilities as a JSON object, or nil if it declared none.
	Capabilities json.RawMessage
	// Client is the legacy client that sent the request, or nil in the modern era.
	Client *Client

	after   *afterwards
	modern  bool
	info    json.RawMessage // what a modern client says about itself; may be nil
	session string          // of a modern client
	fields  map[string]json.RawMessage
	meta    map[string]json.RawMessage // members of _meta in the request
	notes   *notifier
}

// ClientName returns the name that the client gives itself, made printable and truncated, or an empty
// string if it gives none.
func (r *Request) ClientName() string {
	if r.Client != nil {
		return r.Client.name
	}
	return clientName(r.info)
}

// clientName returns the name in a clientInfo.
func clientName(info json.RawMessage) string {
	var c struct{ Name string }
	_ = json.Unmarshal(info, &c) // a name that cannot be decoded is none
	return printable.Line(c.Name, 64)
}

// Session returns a short random id of the connection or session of the client, which is not secret. It is
// empty for a modern client over HTTP, which has none.
func (r *Request) Session() string {
	if r.Client != nil {
		return r.Client.session
	}
	return r.session
}

// After registers f to be called once the response has been written or could not be written. f must
// not block.
func (r *Request) After(f func()) {
	if r.after == nil {
		f()
		return
	}
	r.after.add(f)
}

// afterwards collects the functions to call after a response.
type afterwards struct {
	mu   sync.Mutex
	all  []func()
	over bool // the response has been written
}

func (a *afterwards) add(f func()) {
	a.mu.Lock()
	over := a.over
	if !over {
		a.all = append(a.all, f)
	}
	a.mu.Unlock()
	if over {
		f()
	}
}

func (a *afterwards) run() {
	a.mu.Lock()
	all := a.all
	a.all, a.over = nil, true
	a.mu.Unlock()
	for _, f := range all {
		f()
	}
}

// URI returns params.uri, or an empty string if it is missing.
func (r *Request) URI() string { return text(r.fields["uri"]) }

// Name returns params.name, or an empty string if it is missing.
func (r *Request) Name() string { return text(r.fields["name"]) }

// Modern reports whether the client uses protocol version 2026-07-28.
func (r *Request) Modern() bool { return r.modern }

// Members returns the members of Params in a new map. They share its memory.
func (r *Request) Members() map[string]json.RawMessage {
	members := make(map[string]json.RawMessage, len(r.fields)+1)
	maps.Copy(members, r.fields)
	return members
}

// Meta returns a member of the request's _meta, or nil if it is missing.
func (r *Request) Meta(name string) json.RawMessage { return r.meta[name] }

// ProgressToken returns the token for progress notifications, or nil if the client did not request
// any.
func (r *Request) ProgressToken() json.RawMessage { return r.meta["progressToken"] }

// Notify sends a notification that belongs to this request, such as notifications/progress, before
// the response. It blocks while the client does not read. Notify does nothing once the client has
// disconnected, the request has been cancelled or the Func has returned. It also does nothing if an
// HTTP client does not accept text/event-stream, or if the params cannot be encoded.
func (r *Request) Notify(method string, params any) {
	if r.notes == nil {
		return
	}
	if message := notification(method, params); message != nil {
		r.notes.write(message)
	}
}

// Progress tells a client that has asked for it how far the request is; total is 0 if it is unknown. It blocks as Notify
// does.
func (r *Request) Progress(progress, total float64, message string) {
	if token := r.ProgressToken(); token != nil {
		r.Notify(mcp.NotificationProgress, struct {
			Token    json.RawMessage `json:"progressToken"`
			Progress float64         `json:"progress"`
			Total    float64         `json:"total,omitempty"`
			Message  string          `json:"message,omitempty"`
		}{token, progress, total, message})
	}
}

// caller contains the properties of a message's sender that affect the response. Fields with the
// same name are documented at [Request].
type caller struct {
	version   string
	modern    bool
	stdio     bool
	principal string
	identity  string
	notes     *notifier                 // nil if the client does not accept notifications
	client    *Client                   // nil in the modern era
	session   string                    // see [Request.Session]; for modern clients
	sub       *subscriptions.Subscriber // nil in the modern era, where each listen has its own subscriber
	after     *afterwards               // nil unless a Func handles the request
	// saw records the digest of a list that is sent to the client. Nil if digests are not recorded.
	saw func(method, digest string)
}

// capabilities returns the sender's capabilities, or nil if it declared none.
func (from caller) capabilities(m *message) json.RawMessage {
	if from.modern {
		return m.meta[mcp.MetaClientCapabilities]
	}
	if from.client != nil {
		return from.client.Capabilities
	}
	return nil
}

// mayWait reports whether a request may call Ready.
func (s *Server) mayWait(method string) bool {
	return s.opts.Ready != nil && (method == mcp.MethodDiscover || lists()[method].of != nil)
}

// fromMemory reports whether a method is answered without calling a Func.
func (s *Server) fromMemory(method string) bool {
	switch method {
	case mcp.MethodListSkills:
		return s.opts.Skills
	case mcp.MethodPing, mcp.MethodInitialize, mcp.MethodDiscover, mcp.MethodListen, mcp.MethodSubscribe, mcp.MethodUnsubscribe,
		mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources, mcp.MethodListTemplates:
		return true
	}
	return false
}

// result handles a request that needs neither a session nor a stream. It passes ctx to the Func. With
// a tracer it records the request, except for pings.
func (s *Server) result(ctx context.Context, m *message, from caller) (json.RawMessage, *Error) {
	if s.opts.Tracer == nil || m.method == mcp.MethodPing {
		return s.handle(ctx, m, from)
	}
	ctx, span := s.opts.Tracer.Server(ctx, m.meta, tracing.Request{
		Method: m.method, Target: text(m.fields["name"]), URI: text(m.fields["uri"]),
		ID: idText(m.id), Version: from.version, Pipe: from.stdio,
	})
	defer span.End()
	result, failed := s.handle(ctx, m, from)
	switch {
	case ctx.Err() != nil:
		span.FailWith(ctx.Err())
	case failed != nil:
		span.FailRPC(failed.Code, failed.Message)
	default:
		span.Result(m.method, result)
	}
	return result, failed
}

func (s *Server) handle(ctx context.Context, m *message, from caller) (json.RawMessage, *Error) {
	if !s.offers(m.method, from.modern) {
		return nil, errorf(mcp.CodeMethodNotFound, "method not found: %s", bounded(m.method))
	}
	switch m.method {
	case mcp.MethodPing:
		return json.RawMessage("{}"), nil
	case mcp.MethodDiscover:
		if failed := s.ready(ctx); failed != nil {
			return nil, failed
		}
		return s.complete(s.discovered(), true, from)
	case mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources, mcp.MethodListTemplates:
		return s.list(ctx, m, from)
	case mcp.MethodListSkills:
		if s.opts.Skills {
			return s.list(ctx, m, from)
		}
	case mcp.MethodCallTool:
		return s.call(ctx, s.opts.CallTool, m, from, "name")
	case mcp.MethodGetPrompt:
		return s.call(ctx, s.opts.GetPrompt, m, from, "name")
	case mcp.MethodReadResource:
		return s.call(ctx, s.opts.ReadResource, m, from, "uri")
	case mcp.MethodGetSkill, mcp.MethodReadDirectory:
		return s.call(ctx, s.opts.Extension, m, from, "uri")
	case mcp.MethodComplete:
		return s.call(ctx, s.opts.Complete, m, from, "")
	}
	if o := s.opts.Events; o.offered() && strings.HasPrefix(m.method, eventsPrefix) && m.method != mcp.MethodStreamEvents {
		return s.call(ctx, o.Handle, m, from, "")
	}
	if s.fromMemory(m.method) || m.method == mcp.MethodStreamEvents && s.opts.Events.offered() { // these methods need a session or a stream
		return nil, errorf(mcp.CodeInvalidRequest, "%s requires a session or an event stream", m.method)
	}
	return s.call(ctx, s.opts.Extension, m, from, "")
}

func (s *Server) list(ctx context.Context, m *message, from caller) (json.RawMessage, *Error) {
	l := lists()[m.method]
	cursor := ""
	if raw := m.fields["cursor"]; raw != nil && string(raw) != "null" {
		if err := json.Unmarshal(raw, &cursor); err != nil {
			return nil, errorf(mcp.CodeInvalidParams, `"cursor" must be a string`)
		}
	}
	if failed := s.ready(ctx); failed != nil {
		return nil, failed
	}
	sees := from.saw != nil && cursor == ""
	digest := ""
	if sees {
		digest = s.lists.digest(m.method)
	}
	items, next, err := s.lists.page(cursor, s.opts.PageSize, l.of)
	if err != nil {
		return nil, err
	}
	if sees {
		if digest != s.lists.digest(m.method) {
			digest = "" // the list changed meanwhile: record a digest that never matches
		}
		from.saw(m.method, digest)
	}
	var more []member
	if from.modern {
		more = s.eraMembers(true)
	} else {
		items = inVersion(from.version, items)
	}
	return listResult(l.field, items, next, more), nil
}

// call handles a request by calling a Func. required is the name of a parameter that must be a
// string; it is empty if there is none.
func (s *Server) call(ctx context.Context, f Func, m *message, from caller, required string) (json.RawMessage, *Error) {
	switch m.method {
	case mcp.MethodGetTask, mcp.MethodUpdateTask, mcp.MethodCancelTask:
		if from.modern && !hasTasks(m.meta[mcp.MetaClientCapabilities]) {
			return nil, missingTasks()
		}
	}
	if required != "" && text(m.fields[required]) == "" {
		return nil, errorf(mcp.CodeInvalidParams, "%s: %q must be a string", m.method, required)
	}
	r := newRequest(m, from)
	result, err := s.run(ctx, f, r)
	if err != nil {
		return nil, wireError(err, r)
	}
	return s.complete(result, cacheable(m.method), from)
}

// cacheable reports whether the result of a Func for a method is a CacheableResult of the modern era.
func cacheable(method string) bool {
	return method == mcp.MethodReadResource || method == mcp.MethodListSkills || method == mcp.MethodGetSkill
}

func newRequest(m *message, from caller) *Request {
	r := &Request{
		Method: m.method, Params: m.params, Version: from.version, Principal: from.principal, Identity: from.identity,
		modern: from.modern, info: m.meta[mcp.MetaClientInfo], session: from.session, fields: m.fields, meta: m.meta, notes: from.notes, Client: from.client, after: from.after, Capabilities: from.capabilities(m),
	}
	r.stripConnection()
	return r
}

// complete converts a Func's result to the JSON object that is sent, on one line. For a modern
// client it adds the members that the modern era requires (ttlMs and cacheScope if the result is
// cacheable); for a legacy client it removes them. A Func may forward a result from another server,
// so serverInfo in _meta is replaced with this server's.
func (s *Server) complete(result json.RawMessage, cacheable bool, from caller) (json.RawMessage, *Error) {
	var err error
	if from.modern {
		result, err = with(result, s.eraMembers(cacheable && !unfinished(result)))
	} else {
		result, err = withoutEra(result)
	}
	if errors.Is(err, errUnfinished) {
		return nil, errorf(mcp.CodeInternal, "%s", err)
	}
	if err != nil {
		return nil, errorf(mcp.CodeInternal, "the result is not a JSON object")
	}
	return result, nil
}

// unfinished reports whether a result is not final, because the client must provide input or repeat
// the request.
func unfinished(result json.RawMessage) bool {
	if !bytes.Contains(result, []byte(`"resultType"`)) {
		return false
	}
	fields, err := object(result)
	kind := text(fields["resultType"])
	return err == nil && kind != "" && kind != "complete"
}

// eraMembers returns the members that exist only in modern results. By default, results must not be
// cached (ttlMs 0) or shared between users (private), because clients learn about changes by
// subscribing.
func (s *Server) eraMembers(cacheable bool) []member {
	members := []member{{"resultType", json.RawMessage(`"complete"`)}}
	if cacheable {
		members = append(members, member{"ttlMs", json.RawMessage("0")}, member{"cacheScope", json.RawMessage(`"private"`)})
	}
	return append(members, member{"_meta", s.about.Load().meta})
}

// stripConnection removes the members of _meta that concern only the connection, not the request.
func (r *Request) stripConnection() {
	own := []string{mcp.MetaProtocolVersion, mcp.MetaClientInfo, mcp.MetaClientCapabilities}
	if !slices.ContainsFunc(own, func(name string) bool { return r.meta[name] != nil }) {
		return
	}
	rest, fields := maps.Clone(r.meta), maps.Clone(r.fields)
	for _, name := range own {
		delete(rest, name)
	}
	if delete(fields, "_meta"); len(rest) > 0 {
		fields["_meta"] = encode(rest)
	}
	r.fields, r.Params = fields, encode(fields)
}

// bounded truncates text from a client and makes it printable, so that it can be quoted in a
// message.
func bounded(text string) string { return printable.Line(text, 100) }

// Error is a JSON-RPC error.
type Error struct {
	Code    int
	Message string
	Data    any // encoded as JSON; omitted if nil
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// ErrNotFound reports that a resource, tool or prompt does not exist; Funcs return it. The client
// receives code -32002 for a missing resource in the legacy era, and -32602 in all other cases.
var ErrNotFound = errors.New("not found")

func errorf(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// wireError converts a Func's error to the JSON-RPC error for the client.
const maxReason = 2000 // maximum length of an error text in bytes

func wireError(err error, r *Request) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if !errors.Is(err, ErrNotFound) {
		return errorf(mcp.CodeInternal, "%s", printable.Reason(err, maxReason))
	}
	if r.Method != mcp.MethodReadResource {
		return errorf(mcp.CodeInvalidParams, "%s", printable.Reason(err, maxReason))
	}
	e := &Error{Code: mcp.CodeResourceNotFound, Message: "Resource not found: " + r.URI(), Data: map[string]string{"uri": r.URI()}}
	if r.modern {
		e.Code = mcp.CodeInvalidParams
	}
	return e
}

func (e *Error) encode() json.RawMessage {
	wire := struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    any    `json:"data,omitempty"`
	}{e.Code, e.Message, e.Data}
	b, err := json.Marshal(wire)
	if err != nil { // only Data can fail to encode
		wire.Data = nil
		b, _ = json.Marshal(wire)
	}
	return b
}

// notifier sends the notifications of one request to its client, until close is called.
type notifier struct {
	ctx    context.Context // context of the request
	cancel context.CancelFunc
	// send blocks until the message has been written or ctx is done. It reports false if the
	// message will not be written.
	send func(ctx context.Context, message []byte) bool

	mu   sync.Mutex
	over bool
	wg   sync.WaitGroup // tracks calls to send
}

func newNotifier(ctx context.Context, send func(context.Context, []byte) bool) *notifier {
	n := &notifier{send: send}
	n.ctx, n.cancel = context.WithCancel(ctx)
	return n
}

// write sends a message. It reports false if the message will not be written, because the request
// has ended or ends meanwhile.
func (n *notifier) write(message []byte) bool {
	n.mu.Lock()
	if n.over {
		n.mu.Unlock()
		return false
	}
	n.wg.Add(1)
	n.mu.Unlock()
	defer n.wg.Done()
	return n.ctx.Err() == nil && n.send(n.ctx, message)
}

// close prevents new calls to send, aborts those in progress and waits for them.
func (n *notifier) close() {
	n.mu.Lock()
	n.over = true
	n.mu.Unlock()
	n.cancel()
	n.wg.Wait()
}

// errCancelled is the cancellation cause for a request that its client cancelled. Such a request
// receives no response.
var errCancelled = errors.New("cancelled by the client")

// inFlight tracks the cancellable requests of one client by request id. The zero value is ready to
// use.
type inFlight struct {
	mu   sync.Mutex
	byID map[string]context.CancelCauseFunc
}

// begin registers a request and returns its context. ok is false if the id is already in use. The
// caller must call end when the request is done, but before sending the response, because the
// client may reuse the id after that. Calling end again has no effect.
func (w *inFlight) begin(parent context.Context, id json.RawMessage) (ctx context.Context, end func(), ok bool) {
	key := idKey(id)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byID[key] != nil {
		return nil, nil, false
	}
	if w.byID == nil {
		w.byID = make(map[string]context.CancelCauseFunc)
	}
	ctx, cancel := context.WithCancelCause(parent)
	w.byID[key] = cancel
	return ctx, sync.OnceFunc(func() {
		w.mu.Lock()
		delete(w.byID, key)
		w.mu.Unlock()
		cancel(nil)
	}), true
}

// cancel cancels the request with this id if it is in flight.
func (w *inFlight) cancel(id json.RawMessage) {
	w.mu.Lock()
	cancel := w.byID[idKey(id)]
	w.mu.Unlock()
	if cancel != nil {
		cancel(errCancelled)
	}
}

func wasCancelled(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errCancelled) }

func errDuplicateID() *Error {
	return errorf(mcp.CodeInvalidRequest, "a request with this id is already in progress")
}
