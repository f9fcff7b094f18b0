package gateway

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// way carries one request of a client to a server, together with the further requests to
// the server that it takes to answer it.
type way struct {
	g      *Gateway
	v      *view
	r      *mcpserver.Request
	server string
	fixed  *own // the session to use; nil: the client's own, or the shared one
	other  bool // clients.inModern returns the session to use
	used   *own // the session of the last request; nil: the shared one
}

// do sends a request to the server, in the session that fits. While the server cannot be
// reached for a moment, do repeats the request, see retry.
func (w *way) do(ctx context.Context, q session.Request) (json.RawMessage, error) {
	return w.g.retry(ctx, w.v, w.server, q.Method, func() (json.RawMessage, error) {
		if w.fixed != nil {
			w.used = w.fixed
			return w.fixed.do(ctx, w.r, q)
		}
		if w.other {
			if w.used = w.g.clients.inModern(ctx, w.v, w.server); w.used == nil {
				return nil, tracker.ErrNotConnected
			}
			return w.used.do(ctx, w.r, q)
		}
		var err error
		if w.used, err = w.g.clients.session(ctx, w.v, w.r, w.server); err != nil {
			return nil, err
		}
		if w.used != nil {
			return w.used.do(ctx, w.r, q)
		}
		return w.g.tracker.Do(ctx, w.server, q)
	})
}

// send makes the request of the client with params in place of the client's own, and
// forwards progress. Its error is one for the client.
func (w *way) send(ctx context.Context, params map[string]json.RawMessage) (json.RawMessage, error) {
	release, err := w.g.limits.acquire(ctx, w.server, w.r.Principal)
	if err != nil {
		return nil, err
	}
	defer release()
	q := session.Request{Method: w.r.Method, Params: params, Timeout: w.g.opts.CallTimeout, Client: clientFor(w.r)}
	if q.Method == mcp.MethodTaskResult {
		q.Timeout = maxTaskLife // it waits for the end of the task
	}
	if w.r.Client == nil && w.fixed == nil {
		if state, ok := stateOf(params, roundState); ok {
			raw, err := w.continueRound(ctx, q, state)
			return raw, wireError(w.server, err)
		}
		w.other = w.g.clients.inModern(ctx, w.v, w.server) != nil
	}
	if w.r.Client == nil && w.fixed == nil && !w.other {
		d, err := w.beginRound(ctx, q)
		if err != nil {
			return nil, wireError(w.server, err)
		}
		if d != nil {
			raw, err := w.g.rounds.wait(ctx, d, w.r)
			return raw, wireError(w.server, err)
		}
	}
	if token := w.r.ProgressToken(); token != nil {
		p := newProgress(w.r, token)
		defer p.end() // progress is sent before the answer
		q.Progress = p.put
	}
	raw, err := w.perform(ctx, q)
	return raw, wireError(w.server, err)
}

// perform sends a request, and those that must follow it so that the result is one that
// the client understands: it waits for tasks and asks for input in place of the client.
func (w *way) perform(ctx context.Context, q session.Request) (json.RawMessage, error) {
	modern := w.modern(ctx)
	if q.Method == mcp.MethodCallTool && !modern {
		var tool string
		_ = json.Unmarshal(q.Params["name"], &tool) // it is a string
		if _, required := w.v.asTask[target{w.server, tool}]; required && q.Params["task"] == nil {
			return w.runTask(ctx, q)
		}
	}
	raw, err := w.do(ctx, q)
	if q.Method == mcp.MethodCallTool && w.r.Client != nil && needsTasks(err) {
		return w.runModernTask(ctx, q)
	}
	for n := 0; err == nil && w.r.Client != nil && modern && n < maxRounds; n++ {
		answers, state, asked, failed := askClient(ctx, w.r, raw)
		if failed != nil {
			return nil, failed
		}
		if !asked {
			break
		}
		q.Params = maps.Clone(q.Params)
		q.Params["inputResponses"] = answers
		delete(q.Params, "requestState")
		if state != nil {
			q.Params["requestState"] = state
		}
		raw, err = w.do(ctx, q)
	}
	if described, ok := created(raw); ok && err == nil && q.Method == mcp.MethodCallTool {
		w.g.tasks.add(target{w.server, taskID(encode(described))}, w.r, w.used, described)
		raw = w.g.taskIDs(w.r.Principal, w.server).created(raw)
	}
	return raw, err
}

// modern reports whether the session that fits is of the modern era.
func (w *way) modern(ctx context.Context) bool {
	o := w.fixed
	if o == nil && !w.other {
		o, _ = w.g.clients.session(ctx, w.v, w.r, w.server) // the request shows the error
	}
	if o != nil {
		return o.s.Info().Era == session.EraModern
	}
	return w.other || w.v.modern[w.server]
}

// maxRounds bounds how often a server of the modern era may answer one request by asking the
// client for input.
const maxRounds = 16

// askClient asks a client of the legacy era what a server of the modern one wants to know
// before it gives its result.
func askClient(ctx context.Context, r *mcpserver.Request, raw json.RawMessage) (answers, state json.RawMessage, asked bool, err error) {
	result := fields(raw)
	if string(result["resultType"]) != `"input_required"` {
		return nil, nil, false, nil
	}
	answers, err = askAll(ctx, r, readMembers(result["inputRequests"]))
	return answers, result["requestState"], err == nil, err
}

// askAll sends requests for input to a client of the legacy era, one after the other, and
// returns its answers as inputResponses.
func askAll(ctx context.Context, r *mcpserver.Request, requests []jsonMember) (answers json.RawMessage, err error) {
	given := map[string]json.RawMessage{}
	for _, m := range requests {
		q := fields(m.value)
		var method string
		_ = json.Unmarshal(q["method"], &method) // "" cannot be answered
		if !canAnswer(r.Capabilities, method) {
			return nil, &mcpserver.Error{Code: mcp.CodeInternal, Message: "the server requests input that the client does not support: " + printable.Line(method, 100)}
		}
		if given[m.name], err = r.Client.Ask(ctx, r, method, q["params"]); err != nil {
			return nil, err
		}
	}
	return encode(given), nil
}
