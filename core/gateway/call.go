package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/serve"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/tracker"
	"github.com/mcptrack/mcptrack/core/upstream"
)

func (g *Gateway) callTool(ctx context.Context, r *serve.Request) (json.RawMessage, error) {
	v := g.view.Load()
	t, ok := v.byKey[catalog.Tools][r.Name()]
	if !ok {
		return nil, unknown("tool", r.Name())
	}
	if t.server == "" {
		return g.opts.Local.CallTool(ctx, r)
	}
	params := fields(r.Params)
	if a := g.api(t.server); a != nil {
		leave, err := g.lanes.enter(ctx, t.server)
		if err != nil {
			return nil, err
		}
		defer leave()
		raw, err := a.up.Call(ctx, t.key, params["arguments"])
		if errors.Is(err, upstream.ErrUnknownTool) {
			return nil, unknown("tool", r.Name())
		}
		return raw, err
	}
	params["name"] = quote(t.key)
	raw, err := g.pass(ctx, v, r, t, params)
	return v.rewriteContent(t.server, raw), err
}

func (g *Gateway) getPrompt(ctx context.Context, r *serve.Request) (json.RawMessage, error) {
	v := g.view.Load()
	t, ok := v.byKey[catalog.Prompts][r.Name()]
	if !ok {
		return nil, unknown("prompt", r.Name())
	}
	params := fields(r.Params)
	params["name"] = quote(t.key)
	raw, err := g.pass(ctx, v, r, t, params)
	return v.rewriteMessages(t.server, raw), err
}

func (g *Gateway) readResource(ctx context.Context, r *serve.Request) (json.RawMessage, error) {
	v := g.view.Load()
	t, ok := v.resource(r.URI())
	if !ok {
		return nil, serve.ErrNotFound
	}
	if t.server == "" {
		return g.opts.Local.ReadResource(ctx, r)
	}
	if g.api(t.server) != nil {
		return nil, serve.ErrNotFound // it has tools only
	}
	params := fields(r.Params)
	params["uri"] = quote(t.key)
	raw, err := g.pass(ctx, v, r, t, params)
	if isMissing(err, t.key) {
		return nil, serve.ErrNotFound // in the words of the client's era, and with its URI
	}
	return v.rewriteContents(t, r.URI(), raw), err
}

// isMissing reports whether a server of either era says that it has no such resource.
func isMissing(err error, uri string) bool {
	e, ok := errors.AsType[*serve.Error](err)
	if !ok || e.Code != serve.CodeInvalidParams {
		return ok && e.Code == serve.CodeResourceNotFound
	}
	data, _ := e.Data.(json.RawMessage)
	return string(fields(data)["uri"]) == string(quote(uri))
}

func (g *Gateway) complete(ctx context.Context, r *serve.Request) (json.RawMessage, error) {
	v := g.view.Load()
	params := fields(r.Params)
	ref := fields(params["ref"])
	var kind, name, uri string
	for member, into := range map[string]*string{"type": &kind, "name": &name, "uri": &uri} {
		_ = json.Unmarshal(ref[member], into) // "" is not found below
	}
	var t target
	var ok bool
	switch kind {
	case "ref/prompt":
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
		return nil, &serve.Error{Code: serve.CodeInvalidParams, Message: `"ref" must be a ref/prompt or a ref/resource`}
	}
	params["ref"] = encode(ref)
	return g.pass(ctx, v, r, t, params)
}

func unknown(what, name string) error {
	return &serve.Error{Code: serve.CodeInvalidParams, Message: fmt.Sprintf("unknown %s %q", what, printable.Line(name, 200))}
}

// pass hands a request on to its server, and progress back to the client. Nothing
// that came with the request but its parameters goes on.
func (g *Gateway) pass(ctx context.Context, v *view, r *serve.Request, t target, params map[string]json.RawMessage) (json.RawMessage, error) {
	leave, err := g.lanes.enter(ctx, t.server)
	if err != nil {
		return nil, err
	}
	defer leave()
	q := session.Request{Method: r.Method, Params: params, Timeout: g.opts.CallTimeout}
	if token := r.ProgressToken(); token != nil {
		p := newProgress(r, token)
		defer p.end() // all of it before the answer
		q.Progress = p.put
	}
	raw, err := g.request(ctx, v, t.server, q)
	return raw, wireError(t.server, err)
}

// request makes the request in the server's session, for which it waits if the
// server is only just away.
func (g *Gateway) request(ctx context.Context, v *view, server string, q session.Request) (json.RawMessage, error) {
	patience := time.NewTimer(g.opts.Grace)
	defer patience.Stop()
	for {
		g.mu.Lock()
		moved := g.moved
		g.mu.Unlock()
		raw, err := g.tracker.Do(ctx, server, q)
		if _, down := v.down[server]; down || !errors.Is(err, tracker.ErrNotConnected) {
			return raw, err
		}
		select {
		case <-moved:
		case <-patience.C:
			return nil, err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// wireError is what a client is told of a failed request: what the server said, as
// it said it, or why it could not be asked.
func wireError(server string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*session.RPCError](err); ok {
		out := &serve.Error{Code: e.Code, Message: e.Message}
		if e.Data != nil {
			out.Data = e.Data
		}
		return out
	}
	return &serve.Error{Code: serve.CodeInternal,
		Message: fmt.Sprintf("server %s: %s", printable.Line(server, 128), printable.Line(err.Error(), 1000))}
}
