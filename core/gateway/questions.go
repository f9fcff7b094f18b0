package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/internal/wake"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/session"
)

// What a server asks in a session is a question to the client whose requests are in progress there, if there
// is exactly one, else to the only client of the session. Otherwise the server receives an error that says
// why.

// inFlight is a client's request in a session with a server, on whose behalf the server may ask.
type inFlight struct {
	client *mcpserver.Client  // nil if the client is modern
	round  *inputRound        // in which a modern client can be asked; nil if it cannot be
	via    *mcpserver.Request // nil if it stands for a client without requests
	// ctx is the context of the request, or nil if all requests in the session are of the same client. Its end withdraws
	// questions, and the server may not have answered yet.
	ctx  context.Context
	late time.Time // when to forget the request, if it was cancelled
}

// owner identifies the client of a request. Each request of a modern client counts as a client.
func (f *inFlight) owner() any {
	if f.client == nil {
		return f
	}
	return f.client
}

// requests are those in progress in a session with a server, and those that were cancelled a short time ago. The
// zero value is ready to use.
type requests struct {
	mu   sync.Mutex
	all  []*inFlight // oldest first
	last time.Time   // when one ended last
}

// maxLate is how long a server may still ask because of a request that its client cancelled.
const maxLate = 20 * time.Second

// begin adds a request; end must be called when it has ended.
func (r *requests) begin(f *inFlight) (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, f)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.last = time.Now()
		if f.ctx == nil || f.ctx.Err() == nil {
			r.all = slices.DeleteFunc(r.all, func(o *inFlight) bool { return o == f })
		} else {
			f.late = r.last.Add(maxLate)
		}
	}
}

// unused returns since when there has been no request, and whether that is so.
func (r *requests) unused() (since time.Time, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last, !slices.ContainsFunc(r.all, func(f *inFlight) bool { return f.late.IsZero() })
}

// forgetLate forgets the requests that were cancelled, because another session has begun.
func (r *requests) forgetLate() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = slices.DeleteFunc(r.all, func(f *inFlight) bool { return !f.late.IsZero() })
}

// asked returns the request because of which the server asks or sends a message: the newest, if all are of one
// client. The error says why that is not clear: errNobody, errSeveral or another.
func (r *requests) asked() (*inFlight, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.all = slices.DeleteFunc(r.all, func(f *inFlight) bool { return !f.late.IsZero() && now.After(f.late) })
	var newest *inFlight
	for _, f := range r.all {
		if !f.late.IsZero() {
			continue
		}
		if newest != nil && f.owner() != newest.owner() {
			return nil, errSeveral
		}
		newest = f
	}
	switch {
	case len(r.all) == 0:
		return nil, errNobody
	case newest == nil:
		return nil, errCancelled
	case slices.ContainsFunc(r.all, func(f *inFlight) bool { return f.owner() != newest.owner() }):
		return nil, unclear("the server may still be working on another client's request, which was cancelled")
	}
	return newest, nil
}

var (
	errSeveral = unclear("requests of several clients are in progress in this session")
	errNobody  = unclear("no request of a client is in progress")
)

func unclear(why string) error {
	return &session.RPCError{Code: mcp.CodeInternal, Message: why + ", so it is not clear which client to ask"}
}

var errCancelled error = &session.RPCError{Code: mcp.CodeInternal, Message: "the client's request has ended"}

// ask asks the client of a request, and returns its answer for the server.
func (f *inFlight) ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	var capabilities json.RawMessage
	switch {
	case f.client != nil:
		capabilities = f.client.Capabilities
	case f.round != nil:
		capabilities = f.round.capabilities
	}
	if lacks := lacking(capabilities, method, params); lacks != "" {
		return nil, &session.RPCError{Code: mcp.CodeMethodNotFound, Message: "the client cannot be asked: it does not support " + lacks}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if f.ctx != nil {
		defer context.AfterFunc(f.ctx, func() { cancel(errCancelled) })()
	}
	if f.round != nil {
		return f.round.request(ctx, method, params)
	}
	return askLegacy(ctx, f.client, f.via, method, params)
}

// askLegacy asks a legacy client on behalf of a server.
func askLegacy(ctx context.Context, client *mcpserver.Client, via *mcpserver.Request, method string, params json.RawMessage) (json.RawMessage, error) {
	raw, err := client.Ask(ctx, via, method, params)
	if e, ok := errors.AsType[*mcpserver.Error](err); ok {
		data, _ := e.Data.(json.RawMessage)
		return nil, &session.RPCError{Code: e.Code, Message: e.Message, Data: data}
	}
	if errors.Is(err, mcpserver.ErrUnreachable) {
		err = &session.RPCError{Code: mcp.CodeInternal, Message: "the client has disconnected"}
	}
	return raw, err
}

// notify sends a notification of the server to the client of a request. It may block.
func (f *inFlight) notify(method string, params json.RawMessage) {
	switch {
	case f.client != nil && (method != mcp.NotificationMessage || hears(f.client, params)):
		f.client.Notify(f.via, method, params)
	case f.round != nil:
		f.round.message(method, params)
	}
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
// client: the ones whose requests it forwards to the client, except for a method.
func declared(capabilities json.RawMessage, except ...string) json.RawMessage {
	all, caps := fields(capabilities), map[string]json.RawMessage{}
	for method, capability := range answerable() {
		if raw := all[capability]; isObject(raw) && !slices.Contains(except, method) {
			caps[capability] = raw
		}
	}
	return encode(caps)
}

// lacking returns what a client with these capabilities lacks to answer a request from a server, or "".
func lacking(capabilities json.RawMessage, method string, params json.RawMessage) string {
	if !canAnswer(capabilities, method) {
		if capability := answerable()[method]; capability != "" {
			return capability
		}
		return "this method"
	}
	declared, asked := fields(capabilities), fields(params)
	switch modes := fields(declared["elicitation"]); {
	case method == "sampling/createMessage":
		if (asked["tools"] != nil || asked["toolChoice"] != nil) && !isObject(fields(declared["sampling"])["tools"]) {
			return "tools in sampling"
		}
	case method != "elicitation/create":
	case string(asked["mode"]) == `"url"`:
		if !isObject(modes["url"]) {
			return "elicitation with a URL"
		}
	case isObject(modes["url"]) && !isObject(modes["form"]):
		return "elicitation with a form"
	}
	return ""
}

const (
	// maxRootsWait limits how long a client takes to list its roots.
	maxRootsWait = 10 * time.Second
	// rootsPause is how long a server that has just asked for roots may take to apply the answer. Servers
	// ask when a session begins. A call that opens a session follows immediately, and some servers, such as
	// server-filesystem, refuse it while they do not know the roots.
	rootsPause = 200 * time.Millisecond
)

// rootsAnswers follows the first requests for roots in a session. The zero value is ready to use.
type rootsAnswers struct {
	mu      sync.Mutex
	asked   bool // the server has asked
	asking  int
	told    time.Time   // when the first answer was given, since again was called; zero if none was
	changed wake.Change // when an answer was given
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
	a.changed.Happened()
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
		changed := a.changed.Next()
		a.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
