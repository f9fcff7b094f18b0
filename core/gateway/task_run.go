package gateway

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/session"
)

// Bounds of the intervals at which the gateway asks for the state of a task that it waits
// for in place of the client.
const (
	minTaskPoll     = 100 * time.Millisecond
	defaultTaskPoll = time.Second // if the server names none
	maxTaskPoll     = 10 * time.Second
	cancelPatience  = 5 * time.Second // for the request that cancels the task
)

// runTask calls a tool of the legacy era that has to be called as a task, for a client
// that did not: it waits for the task and returns its result.
func (w *way) runTask(ctx context.Context, q session.Request) (json.RawMessage, error) {
	q.Params["task"] = json.RawMessage(`{}`)
	raw, err := w.do(ctx, q)
	described, ok := created(raw)
	if err != nil || !ok {
		return raw, err
	}
	w.fixed = w.used
	id := map[string]json.RawMessage{"taskId": described["taskId"]}
	ask := func(ctx context.Context, method string, timeout time.Duration) (json.RawMessage, error) {
		return w.do(ctx, session.Request{Method: method, Params: id, Timeout: timeout})
	}
	defer cancelTask(ctx, ask)
	for {
		if err := pause(ctx, described); err != nil {
			return nil, err
		}
		raw, err := ask(ctx, mcp.MethodGetTask, 0)
		if err != nil {
			return nil, err
		}
		described = fields(raw)
		switch string(described["status"]) {
		case `"working"`, `"submitted"`:
		default:
			// If the task waits for input, the server asks while this request is open.
			return ask(ctx, mcp.MethodTaskResult, maxTaskLife)
		}
	}
}

// cancelTask cancels a task if ctx, that of the client's call, has ended.
func cancelTask(ctx context.Context, ask func(ctx context.Context, method string, timeout time.Duration) (json.RawMessage, error)) {
	if ctx.Err() == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelPatience)
	defer cancel()
	_, _ = ask(ctx, mcp.MethodCancelTask, cancelPatience) // an error: the task may have ended
}

// pause waits for the poll interval that a server named in its description of a task,
// within the bounds above.
func pause(ctx context.Context, described map[string]json.RawMessage) error {
	wait := defaultTaskPoll
	for _, name := range []string{"pollInterval", "pollIntervalMs"} {
		var ms float64
		if json.Unmarshal(described[name], &ms) == nil && ms > 0 {
			wait = time.Duration(min(max(ms, float64(minTaskPoll/time.Millisecond)), float64(maxTaskPoll/time.Millisecond))) * time.Millisecond
		}
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// needsTasks reports whether a server of the modern era refused a request because the
// client does not have the extension for tasks.
func needsTasks(err error) bool {
	e, ok := isRPC(err)
	if !ok || e.Code != mcp.CodeMissingCapability {
		return false
	}
	return fields(fields(fields(e.Data)["requiredCapabilities"])["extensions"])[mcp.ExtensionTasks] != nil
}

// withTasks adds the extension for tasks to the capabilities of a client.
func withTasks(capabilities json.RawMessage) json.RawMessage {
	caps := fields(capabilities)
	if caps == nil {
		caps = map[string]json.RawMessage{}
	}
	extensions := fields(caps["extensions"])
	if extensions == nil {
		extensions = map[string]json.RawMessage{}
	}
	extensions[mcp.ExtensionTasks] = json.RawMessage(`{}`)
	caps["extensions"] = encode(extensions)
	return encode(caps)
}

// runModernTask calls a tool of a modern server that runs as a task, for a client of the
// legacy era: it waits for the task and returns its result. Input that the task requires
// meanwhile is requested from the client.
func (w *way) runModernTask(ctx context.Context, q session.Request) (json.RawMessage, error) {
	q.Client = withTasks(q.Client)
	raw, err := w.do(ctx, q)
	described, ok := created(raw)
	if err != nil || !ok {
		return raw, err
	}
	w.g.tasks.add(target{w.server, taskID(raw)}, w.r, nil, described)
	id := taskID(raw)
	var given json.RawMessage // answers of the client that the server has not got yet; nil: none
	ask := func(ctx context.Context, method string, timeout time.Duration) (json.RawMessage, error) {
		params := map[string]json.RawMessage{"taskId": quote(id)}
		if method == mcp.MethodUpdateTask {
			params["inputResponses"] = given
		}
		return w.do(ctx, session.Request{Method: method, Params: params, Client: q.Client, Timeout: timeout})
	}
	defer cancelTask(ctx, ask)
	var answered []string
	for {
		if given != nil {
			for _, m := range readMembers(given) {
				answered = append(answered, m.name)
			}
			if _, err := ask(ctx, mcp.MethodUpdateTask, 0); err != nil {
				return nil, err
			}
			given = nil
		}
		if err := pause(ctx, described); err != nil {
			return nil, err
		}
		raw, err := ask(ctx, mcp.MethodGetTask, 0)
		if err != nil {
			return nil, err
		}
		described = fields(raw)
		switch string(described["status"]) {
		case `"completed"`:
			return described["result"], nil
		case `"working"`:
		case `"input_required"`:
			open := slices.DeleteFunc(readMembers(described["inputRequests"]), func(m jsonMember) bool { return slices.Contains(answered, m.name) })
			if len(open) == 0 {
				continue
			}
			if given, err = askAll(ctx, w.r, open); err != nil {
				return nil, err
			}
		default:
			return nil, taskFailed(described)
		}
	}
}

// taskFailed is the error of a task that ended without a result.
func taskFailed(described map[string]json.RawMessage) error {
	e := &mcpserver.Error{Code: mcp.CodeInternal, Message: "the task ended without a result"}
	failed := fields(described["error"])
	var code int
	var message string
	if json.Unmarshal(failed["code"], &code) == nil && json.Unmarshal(failed["message"], &message) == nil {
		e.Code, e.Message = code, message
		if failed["data"] != nil {
			e.Data = failed["data"]
		}
	}
	return e
}
