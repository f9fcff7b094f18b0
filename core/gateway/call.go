package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/gateway/upstream"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/tracker"
)

func (g *Gateway) callTool(ctx context.Context, r *mcpserver.Request) (json.RawMessage, error) {
	v, t, ok := g.find(ctx, r, catalog.Tools)
	if !ok {
		return nil, unknown("tool", r.Name())
	}
	if t.server == "" {
		return g.opts.Local.call(ctx, r, g.local.lists[catalog.Tools])
	}
	params := fields(r.Params)
	if a := g.api(t.server); a != nil {
		release, err := g.limits.acquire(ctx, t.server, r.Principal)
		if err != nil {
			return nil, err
		}
		defer release()
		raw, err := a.up.Call(ctx, t.key, params["arguments"])
		if errors.Is(err, upstream.ErrUnknownTool) {
			return nil, unknown("tool", r.Name())
		}
		return raw, err
	}
	params["name"] = quote(t.key)
	if r.Client == nil || (&way{g: g, v: v, r: r, server: t.server}).modern(ctx) {
		delete(params, "task") // the way to ask for a task in the legacy era
	}
	raw, err := g.forward(ctx, v, r, t, params)
	return v.rewriteContent(t.server, g.taskIDs(r.Principal, t.server).related(raw)), err
}

// viewOf returns the view for the client of a request: the common one, or that of the
// client's capabilities (see variants).
func (g *Gateway) viewOf(r *mcpserver.Request) *view {
	v := g.view.Load()
	if len(v.variants) > 0 {
		if other := v.variants[keyOf(r.Capabilities)]; other != nil {
			return other
		}
	}
	return v
}

// find returns the tool or prompt that a request names, and the view that has it. Some
// items are listed only for clients with certain capabilities (see variants); if such a
// client has listed nothing yet, find waits until these lists are known.
func (g *Gateway) find(ctx context.Context, r *mcpserver.Request, k catalog.Kind) (*view, target, bool) {
	v := g.viewOf(r)
	t, ok := v.byKey[k][r.Name()]
	if key := keyOf(r.Capabilities); !ok && key != "" {
		g.variants.await(ctx, key, r.Capabilities)
		v = g.viewOf(r)
		t, ok = v.byKey[k][r.Name()]
	}
	return v, t, ok
}

func (g *Gateway) getPrompt(ctx context.Context, r *mcpserver.Request) (json.RawMessage, error) {
	v, t, ok := g.find(ctx, r, catalog.Prompts)
	if !ok {
		return nil, unknown("prompt", r.Name())
	}
	params := fields(r.Params)
	params["name"] = quote(t.key)
	raw, err := g.forward(ctx, v, r, t, params)
	return v.rewriteMessages(t.server, raw), err
}

func (g *Gateway) readResource(ctx context.Context, r *mcpserver.Request) (json.RawMessage, error) {
	v := g.viewOf(r)
	t, ok := v.resource(r.URI())
	if !ok {
		return nil, mcpserver.ErrNotFound
	}
	if t.server == "" {
		return g.opts.Local.ReadResource(ctx, r)
	}
	if g.api(t.server) != nil {
		return nil, mcpserver.ErrNotFound // an HTTP catalog has only tools
	}
	params := fields(r.Params)
	params["uri"] = quote(t.key)
	raw, err := g.forward(ctx, v, r, t, params)
	if isMissing(err, t.key) {
		return nil, mcpserver.ErrNotFound // sent with the code of the client's era and the client's URI
	}
	return v.rewriteContents(t, r.URI(), v.withoutDenied(t, raw)), err
}

// isMissing reports whether err is a server's answer, of either era, that the resource
// does not exist.
func isMissing(err error, uri string) bool {
	e, ok := errors.AsType[*mcpserver.Error](err)
	if !ok || e.Code != mcp.CodeInvalidParams {
		return ok && e.Code == mcp.CodeResourceNotFound
	}
	data, _ := e.Data.(json.RawMessage)
	return string(fields(data)["uri"]) == string(quote(uri))
}

func (g *Gateway) complete(ctx context.Context, r *mcpserver.Request) (json.RawMessage, error) {
	v := g.viewOf(r)
	params := fields(r.Params)
	ref := fields(params["ref"])
	var kind, name, uri string
	for member, into := range map[string]*string{"type": &kind, "name": &name, "uri": &uri} {
		_ = json.Unmarshal(ref[member], into) // "" is not found below
	}
	var t target
	var ok bool
	of := catalog.Templates
	switch kind {
	case "ref/prompt":
		of = catalog.Prompts
		if t, ok = v.byKey[catalog.Prompts][name]; !ok {
			return nil, unknown("prompt", name)
		}
		ref["name"] = quote(t.key)
	case "ref/resource":
		if t, ok = v.byKey[catalog.Templates][uri]; !ok {
			t, ok = v.resource(uri)
		}
		if !ok || t.server == "" || g.api(t.server) != nil {
			return nil, unknown("resource template", uri)
		}
		ref["uri"] = quote(t.key)
	default:
		return nil, &mcpserver.Error{Code: mcp.CodeInvalidParams, Message: `"ref" must be a ref/prompt or a ref/resource`}
	}
	params["ref"] = encode(ref)
	raw, err := g.forward(ctx, v, r, t, params)
	return v.completed(of, t, params, raw), err
}

func unknown(what, name string) error {
	return &mcpserver.Error{Code: mcp.CodeInvalidParams, Message: fmt.Sprintf("unknown %s %q", what, printable.Line(name, 200))}
}

// forward sends a request to its server and progress back to the client. Of the
// client's request only the parameters are forwarded.
func (g *Gateway) forward(ctx context.Context, v *view, r *mcpserver.Request, t target, params map[string]json.RawMessage) (json.RawMessage, error) {
	return (&way{g: g, v: v, r: r, server: t.server}).send(ctx, params)
}

// clientFor returns the capabilities that a server of the modern era sees of a client.
func clientFor(r *mcpserver.Request) json.RawMessage {
	if r.Client != nil { // a legacy client: only what it can be asked during the request
		return declared(r.Capabilities)
	}
	return r.Capabilities
}

// retryDelay is the time between attempts while a server cannot be reached.
const retryDelay = 50 * time.Millisecond

// retry makes a request to a server by calling do. If the request failed before the server
// began to process it, or is safe to repeat, retry tries again for up to Options.Grace: a
// server that restarts quickly must not fail calls.
func (g *Gateway) retry(ctx context.Context, v *view, server, method string, do func() (json.RawMessage, error)) (json.RawMessage, error) {
	grace := time.NewTimer(g.opts.Grace)
	defer grace.Stop()
	for {
		g.mu.Lock()
		changed := g.stateChange
		g.mu.Unlock()
		raw, err := do()
		if _, down := v.down[server]; err == nil || down || !repeatable(method, err) {
			return raw, err
		}
		g.tracker.Hasten(server)
		retry := time.NewTimer(retryDelay)
		select {
		case <-changed:
		case <-retry.C: // a server of the modern era has no session whose state could change
		case <-grace.C:
			return nil, err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		retry.Stop()
	}
}

// repeatable reports whether a request that failed can be sent again.
func repeatable(method string, err error) bool {
	if errors.Is(err, tracker.ErrNotConnected) {
		return true
	}
	e, ok := errors.AsType[*session.InterruptedError](err)
	return ok && (!e.Sent || method != mcp.MethodCallTool) // other methods are taken to only read
}

func isRPC(err error) (*session.RPCError, bool) { return errors.AsType[*session.RPCError](err) }

// wireError converts the error of a request: the server's answer is forwarded as it is,
// other errors name the server and the reason.
func wireError(server string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*mcpserver.Error](err); ok {
		return err // an error of the gateway itself
	}
	if e, ok := isRPC(err); ok {
		out := &mcpserver.Error{Code: e.Code, Message: e.Message}
		if e.Data != nil {
			out.Data = e.Data
		}
		return out
	}
	text := printable.Reason(err, 1000)
	if e, ok := errors.AsType[*session.InterruptedError](err); ok && e.Sent {
		text = "the connection was lost before the response arrived; the request may have been processed: " + text
	}
	return &mcpserver.Error{Code: mcp.CodeInternal, Message: fmt.Sprintf("server %s: %s", printable.Line(server, 128), text)}
}
