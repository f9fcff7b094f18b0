package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/gateway/upstream"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
)

func (g *Gateway) callTool(ctx context.Context, r *mcpserver.Request) (json.RawMessage, error) {
	w := g.route(r)
	t, ok := w.find(ctx, catalog.Tools)
	if !ok {
		return nil, unknown("tool", r.Name())
	}
	if t.server == "" {
		return g.opts.Local.call(ctx, r, g.local.lists[catalog.Tools])
	}
	params := fields(r.Params)
	if a := g.httpCatalog(t.server); a != nil {
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
	if r.Client == nil || w.modern(ctx) {
		delete(params, "task") // only legacy servers take it
	}
	raw, err := w.send(ctx, params)
	return w.v.rewriteContent(t.server, g.taskIDs(r.Principal, t.server).related(raw)), err
}

func (g *Gateway) getPrompt(ctx context.Context, r *mcpserver.Request) (json.RawMessage, error) {
	w := g.route(r)
	t, ok := w.find(ctx, catalog.Prompts)
	if !ok {
		return nil, unknown("prompt", r.Name())
	}
	params := fields(r.Params)
	params["name"] = quote(t.key)
	raw, err := w.send(ctx, params)
	return w.v.rewriteMessages(t.server, raw), err
}

func (g *Gateway) readResource(ctx context.Context, r *mcpserver.Request) (json.RawMessage, error) {
	w := g.route(r)
	t, ok := w.v.resource(r.URI())
	if !ok {
		return nil, mcpserver.ErrNotFound
	}
	if t.server == "" {
		return g.opts.Local.ReadResource(ctx, r)
	}
	if g.httpCatalog(t.server) != nil {
		return nil, mcpserver.ErrNotFound // an HTTP catalog has only tools
	}
	w.server = t.server
	params := fields(r.Params)
	params["uri"] = quote(t.key)
	raw, err := w.send(ctx, params)
	if isMissing(err, t.key) {
		return nil, mcpserver.ErrNotFound // sent with the code of the client's era and the client's URI
	}
	return w.v.rewriteContents(t, r.URI(), w.v.filterContents(t, raw)), err
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
	w := g.route(r)
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
		if t, ok = w.v.byKey[catalog.Prompts][name]; !ok {
			return nil, unknown("prompt", name)
		}
		ref["name"] = quote(t.key)
	case "ref/resource":
		if t, ok = w.v.byKey[catalog.Templates][uri]; !ok {
			t, ok = w.v.resource(uri)
		}
		if !ok || t.server == "" || g.httpCatalog(t.server) != nil {
			return nil, unknown("resource template", uri)
		}
		ref["uri"] = quote(t.key)
	default:
		return nil, &mcpserver.Error{Code: mcp.CodeInvalidParams, Message: `"ref" must be a ref/prompt or a ref/resource`}
	}
	params["ref"] = encode(ref)
	w.server = t.server
	raw, err := w.send(ctx, params)
	return w.v.filterCompletion(of, t, params, raw), err
}

// extension answers the methods that mcpserver.Server leaves to the gateway:
// logging/setLevel, the methods of tasks, and the methods of extensions. A request of an
// extension is forwarded to the server that declares the extension. If several servers do, it
// is forwarded to the one that has the resource named in the request.
func (g *Gateway) extension(ctx context.Context, r *mcpserver.Request) (json.RawMessage, error) {
	if r.Method == mcp.MethodSetLevel {
		return g.sessions.setLevel(r)
	}
	w := &route{g: g, v: g.view.Load(), r: r}
	if isTaskMethod(r.Method) {
		if r.Method == mcp.MethodListTasks && r.Client != nil {
			return w.listTasks(ctx)
		}
		return w.task(ctx)
	}
	name, _, _ := strings.Cut(r.Method, "/")
	var declaring []string
	for id, servers := range w.v.extensions {
		if id[strings.LastIndexByte(id, '/')+1:] == name {
			declaring = append(declaring, servers...)
		}
	}
	params := fields(r.Params)
	if len(declaring) > 0 && allEqual(declaring) {
		w.server = declaring[0]
	}
	if uri := r.URI(); uri != "" {
		at, ok := w.v.resource(uri)
		if !ok || g.httpCatalog(at.server) != nil {
			return nil, mcpserver.ErrNotFound
		}
		if slices.Contains(declaring, at.server) {
			w.server = at.server
		}
		if w.server == at.server {
			params["uri"] = quote(at.key)
		}
	}
	if w.server == "" {
		return nil, &mcpserver.Error{Code: mcp.CodeMethodNotFound, Message: "several servers support " + r.Method + ", and the request does not say which of them is meant"}
	}
	return w.send(ctx, params)
}

func allEqual(list []string) bool {
	return !slices.ContainsFunc(list, func(s string) bool { return s != list[0] })
}

func unknown(what, name string) error {
	return &mcpserver.Error{Code: mcp.CodeInvalidParams, Message: fmt.Sprintf("unknown %s %q", what, printable.Line(name, 200))}
}

func isRPC(err error) (*session.RPCError, bool) { return errors.AsType[*session.RPCError](err) }

// wireError converts the error of a request: the server's answer is forwarded unchanged,
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
