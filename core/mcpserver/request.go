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
)

// Request is a request for a Func. It is valid until the Func returns.
type Request struct {
	// Method is tools/call, prompts/get, resources/read, completion/complete, or one of an
	// extension.
	Method string
	// Params are the parameters as the client sent them, without the members of _meta that concern
	// only the connection.
	Params json.RawMessage
	// Version is the protocol version of the client.
	Version string
	// Principal distinguishes clients with different credentials, see Options.Principal. It never
	// contains the credentials.
	Principal string
	// Identity is a permanent name of the client, from Events.Identify; "" if it has none.
	Identity string
	// Capabilities are the client's capabilities, a JSON object; nil if it declared none.
	Capabilities json.RawMessage
	// Client is the legacy client; nil in the modern era.
	Client *Client

	// EventNumbering is the numbering of the errors of MCP Events, set by their handler; "": the
	// client's capabilities decide.
	EventNumbering mcp.EventNumbering

	after  *afterwards
	modern bool
	fields map[string]json.RawMessage
	notes  *notifier
}

// After registers f, which is called once the response has been written, or writing it has failed.
// f must not block.
func (r *Request) After(f func()) {
	if r.after == nil {
		f()
		return
	}
	r.after.add(f)
}

// afterwards holds the functions to call after a response.
type afterwards struct {
	mu   sync.Mutex
	all  []func()
	over bool // the response was written
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

// URI is params.uri, or "".
func (r *Request) URI() string { return text(r.fields["uri"]) }

// Name is params.name, or "".
func (r *Request) Name() string { return text(r.fields["name"]) }

// Modern reports whether the client is a 2026-07-28 client.
func (r *Request) Modern() bool { return r.modern }

// ProgressToken is the token for progress notifications; nil if the client requested none.
func (r *Request) ProgressToken() json.RawMessage {
	meta, err := object(r.fields["_meta"])
	if err != nil {
		return nil
	}
	return meta["progressToken"]
}

// Notify sends a notification that belongs to this request, such as notifications/progress, before
// the response. It blocks while the client does not read. It has no effect after the client
// disconnected, the request was cancelled or the Func returned, for an HTTP client that does not
// accept text/event-stream, and for params that cannot be encoded.
func (r *Request) Notify(method string, params any) {
	if r.notes == nil {
		return
	}
	if message := notification(method, params); message != nil {
		r.notes.write(message)
	}
}

// caller describes the sender of a message, as far as the response depends on it. See [Request]
// for the fields of the same name.
type caller struct {
	version   string
	modern    bool
	principal string
	identity  string
	notes     *notifier                 // nil: the client does not accept notifications
	client    *Client                   // nil in the modern era
	sub       *subscriptions.Subscriber // nil in the modern era, where a subscription belongs to one request
	after     *afterwards               // nil: no Func handles the request
	// saw records the list that the client is sent, by method and digest; nil: not recorded.
	saw func(method, digest string)
}

// capabilities returns the sender's capabilities; nil if it declared none.
func (from caller) capabilities(m *message) json.RawMessage {
	if from.modern {
		return m.meta[mcp.MetaClientCapabilities]
	}
	if from.client != nil {
		return from.client.Capabilities
	}
	return nil
}

// mayWait reports whether a request may call AwaitVariant: it lists something for a client that
// may see a variant.
func (s *Server) mayWait(m *message, from caller) bool {
	if s.opts.AwaitVariant == nil || lists()[m.method].of == nil {
		return false
	}
	if from.sub != nil {
		return from.sub.Variant() != ""
	}
	return len(from.capabilities(m)) > len("{}")
}

// fromMemory reports whether a method is handled without a Func.
func fromMemory(method string) bool {
	switch method {
	case mcp.MethodPing, mcp.MethodInitialize, mcp.MethodDiscover, mcp.MethodListen, mcp.MethodSubscribe, mcp.MethodUnsubscribe,
		mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources, mcp.MethodListTemplates:
		return true
	}
	return false
}

// result handles a request that needs neither a session nor a stream. ctx is passed to the Func.
func (s *Server) result(ctx context.Context, m *message, from caller) (json.RawMessage, *Error) {
	if !s.offers(m.method, from.modern) {
		return nil, errorf(mcp.CodeMethodNotFound, "method not found: %s", bounded(m.method))
	}
	switch m.method {
	case mcp.MethodPing:
		return json.RawMessage("{}"), nil
	case mcp.MethodDiscover:
		return s.complete(s.discovered(), true, from)
	case mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources, mcp.MethodListTemplates:
		return s.list(ctx, m, from)
	case mcp.MethodCallTool:
		return s.call(ctx, s.opts.CallTool, m, from, "name")
	case mcp.MethodGetPrompt:
		return s.call(ctx, s.opts.GetPrompt, m, from, "name")
	case mcp.MethodReadResource:
		return s.call(ctx, s.opts.ReadResource, m, from, "uri")
	case mcp.MethodComplete:
		return s.call(ctx, s.opts.Complete, m, from, "")
	}
	if o := s.opts.Events; o.offered() && strings.HasPrefix(m.method, eventsPrefix) && m.method != mcp.MethodStreamEvents {
		return s.call(ctx, o.Handle, m, from, "")
	}
	if fromMemory(m.method) || m.method == mcp.MethodStreamEvents && s.opts.Events.offered() { // needs a session or a stream
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
	variant := ""
	if from.sub != nil {
		variant = from.sub.Variant()
	} else {
		variant = s.variant(from.capabilities(m))
	}
	if variant != "" && s.opts.AwaitVariant != nil {
		s.opts.AwaitVariant(ctx, variant, from.capabilities(m))
	}
	if from.sub != nil {
		from.sub.Listed(l.kind) // before the list is read, so that no change is missed
	}
	sees := from.saw != nil && cursor == ""
	digest := ""
	if sees {
		digest = s.lists.digest(m.method, variant)
	}
	items, next, err := s.lists.page(cursor, s.opts.PageSize, func(c *Catalog) []json.RawMessage { return l.of(c.variant(variant)) })
	if err != nil {
		return nil, err
	}
	if sees {
		if digest != s.lists.digest(m.method, variant) {
			digest = "" // the list changed meanwhile: match no digest
		}
		from.saw(m.method, digest)
	}
	var more []member
	if from.modern {
		more = s.eraMembers(true)
	}
	return listResult(l.field, items, next, more), nil
}

// call handles a request with a Func. required is the name of a parameter that must be a string,
// or "".
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
	return s.complete(result, m.method == mcp.MethodReadResource, from)
}

func newRequest(m *message, from caller) *Request {
	r := &Request{
		Method: m.method, Params: m.params, Version: from.version, Principal: from.principal, Identity: from.identity,
		modern: from.modern, fields: m.fields, notes: from.notes, Client: from.client, after: from.after, Capabilities: from.capabilities(m),
	}
	r.stripConnection(m.meta)
	return r
}

// complete prepares a result for the wire: an object in one line. A modern client gets the members
// that its era requires (ttlMs and cacheScope if the result is cacheable); a legacy client does
// not get the modern members. A Func may forward the result of another server, so serverInfo in
// _meta is replaced by our own.
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

// unfinished reports whether a result is not final: the client has to provide input or to ask
// again.
func unfinished(result json.RawMessage) bool {
	if !bytes.Contains(result, []byte(`"resultType"`)) {
		return false
	}
	fields, err := object(result)
	kind := text(fields["resultType"])
	return err == nil && kind != "" && kind != "complete"
}

// eraMembers returns the members that only modern results have. By default results may neither be
// cached (ttlMs 0) nor shared between users (private): clients learn of changes by subscribing.
func (s *Server) eraMembers(cacheable bool) []member {
	members := []member{{"resultType", json.RawMessage(`"complete"`)}}
	if cacheable {
		members = append(members, member{"ttlMs", json.RawMessage("0")}, member{"cacheScope", json.RawMessage(`"private"`)})
	}
	return append(members, member{"_meta", s.serverMeta})
}

// stripConnection removes the members of _meta that concern only the connection.
func (r *Request) stripConnection(meta map[string]json.RawMessage) {
	own := []string{mcp.MetaProtocolVersion, mcp.MetaClientInfo, mcp.MetaClientCapabilities}
	if !slices.ContainsFunc(own, func(name string) bool { return meta[name] != nil }) {
		return
	}
	rest, fields := maps.Clone(meta), maps.Clone(r.fields)
	for _, name := range own {
		delete(rest, name)
	}
	if delete(fields, "_meta"); len(rest) > 0 {
		fields["_meta"] = encode(rest)
	}
	r.fields, r.Params = fields, encode(fields)
}

// bounded makes text from a client safe to repeat in a message.
func bounded(text string) string { return printable.Line(text, 100) }

// Error is a JSON-RPC error.
type Error struct {
	Code    int
	Message string
	Data    any // encoded as JSON; omitted if nil
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// ErrNotFound is returned by a Func whose resource, tool or prompt does not exist. The code of a
// missing resource is -32002 in the legacy era and -32602 in the modern era; the code of a missing
// tool or prompt is always -32602.
var ErrNotFound = errors.New("not found")

func errorf(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// wireError converts the error of a Func for the client.
func wireError(err error, r *Request) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if !errors.Is(err, ErrNotFound) {
		return errorf(mcp.CodeInternal, "%s", err)
	}
	if r.Method != mcp.MethodReadResource {
		return errorf(mcp.CodeInvalidParams, "%s", err)
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

// notifier sends the notifications of one request to its client, none after close has returned.
type notifier struct {
	ctx    context.Context // of the request
	cancel context.CancelFunc
	// send blocks until the message is written or ctx is done. It reports false if the message
	// will not be written.
	send func(ctx context.Context, message []byte) bool

	mu   sync.Mutex
	over bool
	wg   sync.WaitGroup // calls of send
}

func newNotifier(ctx context.Context, send func(context.Context, []byte) bool) *notifier {
	n := &notifier{send: send}
	n.ctx, n.cancel = context.WithCancel(ctx)
	return n
}

// write reports false if the message will not be written because the request is over or ends
// first.
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

// close prevents new sends, aborts sends in progress and waits for them.
func (n *notifier) close() {
	n.mu.Lock()
	n.over = true
	n.mu.Unlock()
	n.cancel()
	n.wg.Wait()
}

// errCancelled is the cause of a request that its client cancelled. Such a request gets no
// response.
var errCancelled = errors.New("cancelled by the client")

// inFlight holds the cancellable requests of one client by id. The zero value is ready to use.
type inFlight struct {
	mu   sync.Mutex
	byID map[string]context.CancelCauseFunc
}

// begin registers a request and returns its context; ok is false if the id is in use. The caller
// must call end when the request is done and before it sends the response, after which the client
// may reuse the id. Further calls of end have no effect.
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

// cancel cancels the request with this id, if it is in flight.
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
