package gateway

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
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/calls"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/gateway/upstream"
	"github.com/mcptrack/mcptrack/core/internal/fair"
	"github.com/mcptrack/mcptrack/core/internal/rawjson"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/skill"
	"github.com/mcptrack/mcptrack/core/tracing"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// route forwards one request from a client to a server, and sends the additional requests that are
// needed to answer it.
type route struct {
	g           *Gateway
	v           *exports
	r           *mcpserver.Request
	server      string
	session     *ownSession // session to use; nil means the client's own or the shared session
	round       *inputRound // the round of a request that a legacy server may ask a modern client for
	apart       bool        // the client must not use the session that clients share
	unshareable error       // why not, if that is so even if it can have no other session
	used        *ownSession // session of the last request; nil means the shared session
	sent        bool        // the server may have received a request
	item        itemID      // what the request is about, for permitted; zero if that is not an item of a server
}

// route returns a route for a client request. The caller must set its server.
func (g *Gateway) route(r *mcpserver.Request) *route { return &route{g: g, v: g.exports.Load(), r: r} }

// find returns the tool or prompt that the request specifies, and sets the route's server. It waits
// for servers that have never been listed, see awaitUnlisted.
func (rt *route) find(ctx context.Context, k catalog.Kind) (target, bool) {
	t, ok := rt.v.byKey[k][rt.r.Name()]
	if !ok {
		rt.g.awaitUnlisted(ctx, func() bool {
			rt.v = rt.g.exports.Load()
			t, ok = rt.v.byKey[k][rt.r.Name()]
			return ok
		})
	}
	rt.server = t.server
	return t, ok
}

// state returns the state of the server in the route's exports.
func (rt *route) state() serverState { return rt.v.servers[rt.server].serverState }

// retryDelay is the delay between attempts while a server is unreachable.
const retryDelay = 50 * time.Millisecond

// do sends a request to the server in the appropriate session. If the request failed before the
// server started to process it, or is safe to repeat, do retries for up to Options.Grace, so that
// calls do not fail while a server restarts quickly.
func (rt *route) do(ctx context.Context, q session.Request) (json.RawMessage, error) {
	for began := time.Now(); ; {
		changed := rt.g.stateChange.Next()
		raw, err := rt.try(ctx, q)
		rt.sent = rt.sent || !errors.Is(err, tracker.ErrUnknownServer) && !errors.Is(err, tracker.ErrNotConnected)
		if err == nil || rt.state().down || !repeatable(q.Method, err) {
			return raw, err
		}
		rt.g.tracker.RetrySoon(rt.server)
		select {
		case <-changed:
		case <-time.After(retryDelay): // a modern server has no session whose state could change
		case <-time.After(rt.g.opts.Grace - time.Since(began)):
			return nil, err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// try sends a request to the server once, in the appropriate session.
func (rt *route) try(ctx context.Context, q session.Request) (raw json.RawMessage, err error) {
	if rt.used, err = rt.pick(ctx); err == nil && rt.used == nil {
		err = rt.unshareable
	}
	if err != nil {
		return nil, err
	}
	if rt.used != nil {
		return rt.used.do(ctx, rt.r, rt.round, q)
	}
	if !rt.state().modern {
		rt.g.opts.Callers.tellLevel(ctx, rt.server, rt.r.Client, rt.g.tracker)
	}
	defer rt.g.opts.Callers.begin(ctx, rt.server, rt.r, rt.round)()
	raw, err = rt.g.tracker.Do(ctx, rt.server, q)
	rt.g.queues.flush(ctx, rt.r.Client) // messages that preceded the response
	return raw, err
}

// pick returns the session to use, or nil if that is the tracker's.
func (rt *route) pick(ctx context.Context) (s *ownSession, err error) {
	if rt.session != nil {
		return rt.session, nil
	}
	if rt.r.Client == nil {
		return rt.g.sessions.together(ctx, rt.state(), rt.server, session.EraModern), nil
	}
	if s, err = rt.g.sessions.session(ctx, rt.state(), rt.r, rt.server, rt.apart); s != nil || err != nil || rt.unshareable != nil {
		return s, err
	}
	return rt.g.sessions.together(ctx, rt.state(), rt.server, session.EraLegacy), nil
}

// repeatable reports whether a failed request may be sent again.
func repeatable(method string, err error) bool {
	if errors.Is(err, tracker.ErrNotConnected) {
		return true
	}
	e, ok := errors.AsType[*session.InterruptedError](err)
	return ok && (!e.Sent || method != mcp.MethodCallTool) // all other methods are assumed to be read-only
}

// send forwards the client's request to the server with params in place of the client's own
// parameters, and forwards progress to the client. No other part of the request is forwarded. The
// returned error is meant for the client.
func (rt *route) send(ctx context.Context, params map[string]json.RawMessage) (json.RawMessage, error) {
	release, err := rt.g.limits.acquire(ctx, rt.server, rt.r.Principal)
	if err != nil {
		return nil, err
	}
	defer release()
	if rt.session == nil {
		sleeps, err := rt.wake(ctx)
		if err != nil {
			return nil, rt.g.wireError(rt.server, err)
		}
		defer sleeps()
		if err := rt.permitted(ctx); err != nil {
			return nil, rt.g.wireError(rt.server, err)
		}
		if !rt.g.sessions.has(rt.r.Client, rt.server) { // what the server keeps for the client is there
			rt.apart, rt.unshareable = rt.g.opts.Callers.apart(ctx, rt.server, rt.r)
		}
	} else if err := rt.permitted(ctx); err != nil {
		return nil, rt.g.wireError(rt.server, err)
	}
	if rt.r.Method == mcp.MethodCallTool && (rt.r.Client == nil || rt.modern(ctx)) {
		delete(params, "task") // only legacy servers accept this parameter
	}
	if meta, ok := params["_meta"]; ok {
		params["_meta"] = tracing.Clean(meta)
	}
	q := session.Request{Method: rt.r.Method, Params: params, Timeout: rt.g.opts.CallTimeout, Client: rt.r.Capabilities}
	if rt.r.Client != nil { // only declare what a legacy client can be asked during its request
		q.Client = declared(rt.r.Capabilities)
		if level := levelOf(rt.r.Client); level != nil && rt.g.opts.Callers != nil && rt.state().modern {
			meta := map[string]json.RawMessage{mcp.MetaLogLevel: level}
			maps.Copy(meta, fields(params["_meta"]))
			params["_meta"] = encode(meta)
		}
	}
	if q.Method == mcp.MethodTaskResult {
		q.Timeout = maxTaskLife // this request waits until the task ends
	}
	if rt.r.Client == nil && rt.session == nil {
		if state, ok := stateOf(params, roundStatePrefix); ok {
			raw, err := rt.resumeInputRound(ctx, q, state)
			return raw, rt.g.wireError(rt.server, err)
		}
		if s, _ := rt.pick(ctx); s != nil {
			return rt.forward(ctx, q)
		}
		round, err := rt.beginInputRound(ctx, q)
		if err != nil {
			return nil, rt.g.wireError(rt.server, err)
		}
		if round != nil {
			raw, err := rt.g.inputs.wait(ctx, round, rt.r)
			return raw, rt.g.wireError(rt.server, err)
		}
	}
	return rt.forward(ctx, q)
}

// forward performs a request, and forwards progress to the client.
func (rt *route) forward(ctx context.Context, q session.Request) (json.RawMessage, error) {
	if rt.r.ProgressToken() != nil {
		defer rt.g.queues.flush(ctx, rt.r) // all progress must be sent before the response
		q.Progress = func(p session.Progress) { rt.g.queues.progress(rt.r, p) }
	}
	raw, err := rt.perform(ctx, q)
	if errors.Is(err, tracker.ErrUnknownServer) && !rt.sent {
		return nil, errors.Join(rt.g.wireError(rt.server, err), errReplaced)
	}
	return raw, rt.g.wireError(rt.server, err)
}

// errReplaced reports that a request was not sent, because the tracker no longer has the server.
var errReplaced = errors.New("the server was replaced")

// duringEdit returns a Func that calls f again while the config is being edited: the tracker no longer
// has the server that the gateway lists, but perhaps another in its place, which the gateway lists next.
func (g *Gateway) duringEdit(f mcpserver.Func) mcpserver.Func {
	return func(ctx context.Context, r *mcpserver.Request) (json.RawMessage, error) {
		for began := time.Now(); ; {
			raw, err := f(ctx, r)
			if !errors.Is(err, errReplaced) || time.Since(began) > g.opts.Grace || !backoff.Sleep(ctx, retryDelay) {
				return raw, err
			}
			if flushed := g.flush(ctx); flushed != nil {
				return nil, flushed
			}
		}
	}
}

// perform sends a request. If a modern server requires input for it from a legacy client, perform asks the
// client, and repeats the request with the answers.
func (rt *route) perform(ctx context.Context, q session.Request) (json.RawMessage, error) {
	modern := rt.modern(ctx)
	raw, err := rt.do(ctx, q)
	for n := 0; err == nil && rt.r.Client != nil && modern && n < maxInputRounds; n++ {
		result := fields(raw)
		if string(result["resultType"]) != `"input_required"` {
			break
		}
		answers, failed := rt.askClient(ctx, rawjson.Members(result["inputRequests"]))
		if failed != nil {
			return nil, failed
		}
		q.Params = maps.Clone(q.Params)
		q.Params["inputResponses"] = answers
		delete(q.Params, "requestState")
		if state := result["requestState"]; state != nil {
			q.Params["requestState"] = state
		}
		raw, err = rt.do(ctx, q)
	}
	if described, ok := created(raw); ok && err == nil && q.Method == mcp.MethodCallTool {
		rt.g.tasks.add(target{rt.server, taskID(encode(described))}, rt.r, rt.used, described)
		raw = rt.g.taskIDs(rt.r.Principal, rt.server).created(raw)
	}
	return raw, err
}

// modern reports whether the session for the request is in the modern era.
func (rt *route) modern(ctx context.Context) bool {
	if s, _ := rt.pick(ctx); s != nil { // the request itself will report the error
		return s.conn.Info().Era == session.EraModern
	}
	return rt.state().modern
}

// maxInputRounds is the maximum number of times that a modern server may respond to one request by
// asking the client for input.
const maxInputRounds = 16

// askClient sends the input requests from a modern server to a legacy client, one after another,
// and returns the client's answers as inputResponses.
func (rt *route) askClient(ctx context.Context, requests []rawjson.Member) (answers json.RawMessage, err error) {
	given := map[string]json.RawMessage{}
	for _, m := range requests {
		q := fields(m.Value)
		var method string
		_ = json.Unmarshal(q["method"], &method) // an empty method cannot be answered
		if !canAnswer(rt.r.Capabilities, method) {
			return nil, &mcpserver.Error{Code: mcp.CodeInternal, Message: "the server requests input that the client does not support: " + printable.Line(method, 100)}
		}
		if given[m.Name], err = rt.r.Client.Ask(ctx, rt.r, method, q["params"]); err != nil {
			return nil, err
		}
	}
	return encode(given), nil
}

const (
	maxPerServer = 256            // maximum number of requests in flight to one server
	maxPending   = 1024           // maximum number of requests to one server, including requests that wait for a slot
	maxRequests  = 4 * maxPending // maximum total number of requests; a hung server occupies at most a quarter
)

// limiter limits the number of requests to each server, so that a slow server does not delay
// requests to other servers, and one client does not delay others (see package fair). The zero
// value is ready to use.
type limiter struct {
	alias    aliases
	mu       sync.Mutex
	byServer map[string]*serverLimit // servers with pending requests
}

type serverLimit struct {
	users fair.Limit // requests that hold or wait for a slot; guarded by limiter.mu
	slots *fair.Slots
}

// acquire waits until a request on behalf of a principal may be sent to a server. The caller must
// call release.
func (l *limiter) acquire(ctx context.Context, server, principal string) (release func(), err error) {
	l.mu.Lock()
	if l.byServer == nil {
		l.byServer = map[string]*serverLimit{}
	}
	n := l.byServer[server]
	if n == nil {
		n = &serverLimit{users: fair.Limit{Max: maxPending}, slots: fair.NewSlots(maxPerServer)}
		l.byServer[server] = n
	}
	pending := n.users.All()
	room := n.users.Take(principal)
	l.mu.Unlock()
	if !room {
		return nil, &mcpserver.Error{Code: mcp.CodeInternal,
			Message: fmt.Sprintf("server %s is busy: %d requests are pending", l.alias.line(server), pending)}
	}
	slot := n.slots.Take(principal)
	release = func() {
		slot.Give()
		l.mu.Lock()
		defer l.mu.Unlock()
		if n.users.Give(principal); n.users.All() == 0 {
			delete(l.byServer, server)
		}
	}
	select {
	case <-slot.Ready():
		return release, nil
	case <-ctx.Done():
		release()
		return nil, context.Cause(ctx)
	}
}

func (g *Gateway) callTool(ctx context.Context, r *mcpserver.Request) (json.RawMessage, error) {
	rt := g.route(r)
	t, ok := rt.find(ctx, catalog.Tools)
	if !ok {
		return nil, g.unlistedError("tool", r.Name())
	}
	if t.server == "" {
		return g.opts.Local.call(ctx, r, g.local.lists[catalog.Tools])
	}
	params := r.Members()
	rt.item = itemID{catalog.Tools, t}
	if a := g.httpCatalog(t.server); a != nil {
		if err := rt.permitted(ctx); err != nil {
			return nil, g.wireError(t.server, err)
		}
		release, err := g.limits.acquire(ctx, t.server, r.Principal)
		if err != nil {
			return nil, err
		}
		defer release()
		raw, err := a.up.Call(ctx, t.key, params["arguments"])
		if errors.Is(err, upstream.ErrUnknownTool) {
			return nil, unknown("tool", r.Name())
		}
		return rt.bounded(raw), err
	}
	params["name"] = quote(t.key)
	raw, err := rt.send(ctx, params)
	return forClient(r, rt.bounded(rt.v.rewriteContent(t.server, g.taskIDs(r.Principal, t.server).related(raw)))), err
}

// recorded returns a Func that calls f, which handles tools/call, and reports the call to Options.Called.
// A call whose result asks for input is reported when the client repeats it with the answers.
func (g *Gateway) recorded(f mcpserver.Func) mcpserver.Func {
	if g.opts.Called == nil {
		return f
	}
	return func(ctx context.Context, r *mcpserver.Request) (json.RawMessage, error) {
		began := time.Now()
		t, known := g.exports.Load().byKey[catalog.Tools][r.Name()]
		raw, err := f(ctx, r)
		if !known { // perhaps its server was listed meanwhile
			t, known = g.exports.Load().byKey[catalog.Tools][r.Name()]
		}
		c := calls.Call{Client: r.ClientName(), Session: r.Session(), Tool: r.Name(), Outcome: calls.OK, Duration: time.Since(began), Bytes: int64(len(raw))}
		if known {
			c.ServerID, c.Tool = g.alias().line(t.server), t.key
		}
		c.Tool = printable.Line(c.Tool, 128)
		switch e, answered := errors.AsType[*mcpserver.Error](err); {
		case err != nil:
			c.Outcome, c.Bytes = calls.Error, 0
			if answered && ctx.Err() == nil {
				c.Code = e.Code
			} else if ctx.Err() == nil {
				c.Code = mcp.CodeInternal
			}
		case has(raw, "resultType", `"input_required"`):
			return raw, err
		case has(raw, "isError", "true"):
			c.Outcome = calls.ToolError
		}
		g.opts.Called(c)
		return raw, err
	}
}

// has reports whether a result has a member with a value. It decodes only results in which they appear,
// which most do not.
func has(raw json.RawMessage, member, value string) bool {
	for rest, found := []byte(raw), true; found; {
		if _, rest, found = bytes.Cut(rest, []byte(`"`+member+`"`)); bytes.HasPrefix(bytes.TrimLeft(rest, ": \t\r\n"), []byte(value)) {
			return string(fields(raw)[member]) == value
		}
	}
	return false
}

func (g *Gateway) getPrompt(ctx context.Context, r *mcpserver.Request) (json.RawMessage, error) {
	rt := g.route(r)
	t, ok := rt.find(ctx, catalog.Prompts)
	if !ok {
		return nil, g.unlistedError("prompt", r.Name())
	}
	params := r.Members()
	rt.item = itemID{catalog.Prompts, t}
	params["name"] = quote(t.key)
	raw, err := rt.send(ctx, params)
	return forClient(r, rt.v.rewriteMessages(t.server, raw)), err
}

func (g *Gateway) readResource(ctx context.Context, r *mcpserver.Request) (json.RawMessage, error) {
	if result := g.large.read(r.URI(), r.Principal); result != nil {
		return result, nil
	}
	rt := g.route(r)
	t, ok := rt.v.resource(r.URI())
	if !ok {
		return nil, mcpserver.ErrNotFound
	}
	if t.server == "" {
		return g.opts.Local.ReadResource(ctx, r)
	}
	if g.httpCatalog(t.server) != nil {
		return nil, mcpserver.ErrNotFound // an HTTP catalog offers only tools
	}
	rt.server, rt.item = t.server, itemID{catalog.Resources, t}
	params := r.Members()
	params["uri"] = quote(t.key)
	raw, err := rt.send(ctx, params)
	if err == nil {
		if changed := rt.readable(ctx, raw); changed != nil {
			return nil, g.wireError(t.server, changed)
		}
	}
	if isMissing(err, t.key) {
		return nil, mcpserver.ErrNotFound // sent with the code for the client's era and the URI used by the client
	}
	return forClient(r, rt.v.rewriteContents(t, r.URI(), rt.v.filterContents(t, raw))), err
}

// isMissing reports whether err is an error response from a server, in either era, which means that
// the resource does not exist.
func isMissing(err error, uri string) bool {
	e, ok := errors.AsType[*mcpserver.Error](err)
	if !ok || e.Code != mcp.CodeInvalidParams {
		return ok && e.Code == mcp.CodeResourceNotFound
	}
	data, _ := e.Data.(json.RawMessage)
	return string(fields(data)["uri"]) == string(quote(uri))
}

func (g *Gateway) complete(ctx context.Context, r *mcpserver.Request) (json.RawMessage, error) {
	rt := g.route(r)
	params := r.Members()
	ref := fields(params["ref"])
	var kind, name, uri string
	for member, into := range map[string]*string{"type": &kind, "name": &name, "uri": &uri} {
		_ = json.Unmarshal(ref[member], into) // stays empty on an error, which is not found below
	}
	var t target
	var ok bool
	of := catalog.Templates
	switch kind {
	case "ref/prompt":
		of = catalog.Prompts
		if t, ok = rt.v.byKey[catalog.Prompts][name]; !ok {
			return nil, unknown("prompt", name)
		}
		ref["name"] = quote(t.key)
	case "ref/resource":
		if t, ok = rt.v.byKey[catalog.Templates][uri]; !ok {
			t, ok = rt.v.resource(uri)
		}
		if !ok || t.server == "" || g.httpCatalog(t.server) != nil {
			return nil, unknown("resource template", uri)
		}
		ref["uri"] = quote(t.key)
	default:
		return nil, &mcpserver.Error{Code: mcp.CodeInvalidParams, Message: `"ref" must be a ref/prompt or a ref/resource`}
	}
	params["ref"] = encode(ref)
	rt.server, rt.item = t.server, itemID{of, t}
	raw, err := rt.send(ctx, params)
	return rt.v.filterCompletion(of, t, params, raw), err
}

// extension handles the methods that mcpserver.Server leaves to the gateway: logging/setLevel, the
// task methods, the methods for skills except skills/list, and the methods of extensions. A request for an extension is forwarded to the
// server that declares the extension. If several servers declare it, the request is forwarded to
// the server that owns the resource specified in the request.
func (g *Gateway) extension(ctx context.Context, r *mcpserver.Request) (json.RawMessage, error) {
	if r.Method == mcp.MethodSetLevel {
		return setLevel(r)
	}
	switch r.Method {
	case mcp.MethodGetSkill:
		return g.getSkill(ctx, r)
	case mcp.MethodReadDirectory:
		return g.readDirectory(ctx, r)
	}
	rt := &route{g: g, v: g.exports.Load(), r: r}
	if isTaskMethod(r.Method) {
		if r.Method == mcp.MethodListTasks && r.Client != nil {
			return rt.listTasks(ctx)
		}
		return rt.task(ctx)
	}
	name, _, _ := strings.Cut(r.Method, "/")
	var declaring []string
	for id, servers := range rt.v.extensions {
		if id[strings.LastIndexByte(id, '/')+1:] == name {
			declaring = append(declaring, servers...)
		}
	}
	params := r.Members()
	if len(declaring) > 0 && allEqual(declaring) {
		rt.server = declaring[0]
	}
	if uri := r.URI(); uri != "" {
		at, ok := rt.v.resource(uri)
		if !ok || g.httpCatalog(at.server) != nil {
			return nil, mcpserver.ErrNotFound
		}
		if slices.Contains(declaring, at.server) {
			rt.server = at.server
		}
		if rt.server == at.server {
			params["uri"] = quote(at.key)
			rt.item = itemID{catalog.Resources, at}
		}
	}
	if rt.server == "" {
		return nil, &mcpserver.Error{Code: mcp.CodeMethodNotFound, Message: "several servers support " + r.Method + ", and the request does not identify one of them"}
	}
	return rt.send(ctx, params)
}

func allEqual(list []string) bool {
	return !slices.ContainsFunc(list, func(s string) bool { return s != list[0] })
}

func unknown(what, name string) *mcpserver.Error {
	return &mcpserver.Error{Code: mcp.CodeInvalidParams, Message: fmt.Sprintf("unknown %s %q", what, printable.Line(name, 200))}
}

func isRPC(err error) (*session.RPCError, bool) { return errors.AsType[*session.RPCError](err) }

// wireError converts the error from a request for the client: an error response from the server is
// forwarded unchanged; any other error contains the exported id of the server and the reason.
func (g *Gateway) wireError(server string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*mcpserver.Error](err); ok {
		return err // an error created by the gateway itself
	}
	if e, ok := isRPC(err); ok {
		out := &mcpserver.Error{Code: e.Code, Message: e.Message}
		if e.Data != nil {
			out.Data = e.Data
		}
		return out
	}
	if errors.Is(err, tracker.ErrNotConnected) {
		return g.down(server)
	}
	text := printable.Reason(err, 1000)
	if e, ok := errors.AsType[*session.InterruptedError](err); ok && e.Sent {
		text = "the connection was lost before the response arrived; the request may have been processed: " + text
	}
	if errors.Is(err, tracker.ErrUnknownServer) { // the rest of the text is the server's id in the tracker
		text = tracker.ErrUnknownServer.Error()
	}
	out := &mcpserver.Error{Code: mcp.CodeInternal, Message: fmt.Sprintf("server %s: %s", g.alias().line(server), text)}
	if bad, ok := errors.AsType[*skill.Mismatch](err); ok {
		out.Data = bad
	}
	return out
}
