package gateway

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
)

// task forwards a request about a task to the session in which the task runs.
func (rt *route) task(ctx context.Context) (json.RawMessage, error) {
	g, v, r := rt.g, rt.v, rt.r
	switch r.Method {
	case mcp.MethodGetTask, mcp.MethodCancelTask:
	case mcp.MethodTaskResult, mcp.MethodListTasks: // these methods exist only in the legacy era; see also listTasks
		if r.Client == nil {
			return nil, noMethod(r.Method)
		}
	case mcp.MethodUpdateTask:
		if r.Client != nil {
			return nil, noMethod(r.Method)
		}
	default:
		return nil, noMethod(r.Method)
	}
	params := fields(r.Params)
	t, ok := g.verifiedTask(r.Principal, taskID(r.Params))
	if _, known := v.servers[t.server]; !ok || !known || g.httpCatalog(t.server) != nil {
		return nil, unknownTask()
	}
	s, ok := g.tasks.find(t, r)
	if !ok {
		return nil, unknownTask()
	}
	params["taskId"] = quote(t.key)
	rt.server = t.server
	if s != nil {
		g.sessions.takeOver(r, s)
		rt.session = s
	}
	raw, err := rt.send(ctx, params)
	switch {
	case err != nil:
	case r.Method == mcp.MethodGetTask:
		g.tasks.add(t, r, rt.used, fields(raw)) // the task may have been started before this process
	case r.Method == mcp.MethodTaskResult:
		g.tasks.settle(taskKey{r.Principal, t})
	}
	return taskForClient(r, v.rewriteTask(g.taskIDs(r.Principal, t.server), r.Method, raw), rt.bounded), err
}

func noMethod(method string) error {
	return &mcpserver.Error{Code: mcp.CodeMethodNotFound, Message: "method not found: " + printable.Line(method, 100)}
}

func unknownTask() error {
	return &mcpserver.Error{Code: mcp.CodeInvalidParams, Message: "Failed to retrieve task: Task not found"}
}

// listTasks handles tasks/list requests and returns the tasks that the client started. It asks one
// server after another; each page sent to the client comes from one page of one server.
func (rt *route) listTasks(ctx context.Context) (json.RawMessage, error) {
	v, r := rt.v, rt.r
	at, cursor, ok := readTaskCursor(r.Params)
	if !ok {
		return nil, &mcpserver.Error{Code: mcp.CodeInvalidParams, Message: "invalid cursor"}
	}
	for at < len(v.listsTasks) {
		server := v.listsTasks[at]
		if rt.g.tracker.Dormant(server) { // it would be awake if it had tasks
			at, cursor = at+1, ""
			continue
		}
		params := map[string]json.RawMessage{}
		if cursor != "" {
			params["cursor"] = quote(cursor)
		}
		asked := &route{g: rt.g, v: v, r: r, server: server}
		raw, err := asked.send(ctx, params)
		if err != nil && cursor != "" {
			return nil, err
		}
		page, next := fields(raw), "" // treat an error as an empty list
		_ = json.Unmarshal(page["nextCursor"], &next)
		var all, mine []json.RawMessage
		_ = json.Unmarshal(page["tasks"], &all)
		for _, described := range all {
			if rt.g.tasks.began(target{server, taskID(described)}, r, asked.used) {
				mine = append(mine, rt.g.taskIDs(r.Principal, server).task(described))
			}
		}
		if cursor = next; next == "" {
			at++
		}
		if len(mine) > 0 || next != "" {
			result := map[string]json.RawMessage{"tasks": encode(append([]json.RawMessage{}, mine...))}
			if at < len(v.listsTasks) {
				result["nextCursor"] = quote(writeTaskCursor(at, cursor))
			}
			return encode(result), nil
		}
	}
	return json.RawMessage(`{"tasks":[]}`), nil
}

// taskCursor is the decoded form of a cursor for tasks/list: the server to ask, as an index into
// view.listsTasks, and that server's own cursor.
type taskCursor struct {
	At     int    `json:"at"`
	Cursor string `json:"cursor"`
}

func writeTaskCursor(at int, cursor string) string {
	return base64.RawURLEncoding.EncodeToString(encode(taskCursor{at, cursor}))
}

func readTaskCursor(params json.RawMessage) (at int, cursor string, ok bool) {
	raw := fields(params)["cursor"]
	if raw == nil {
		return 0, "", true
	}
	var text string
	var c taskCursor
	if json.Unmarshal(raw, &text) != nil {
		return 0, "", false
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	return c.At, c.Cursor, err == nil && json.Unmarshal(b, &c) == nil && c.At >= 0
}

// Polling of a task that the gateway waits for on behalf of the client.
const (
	minTaskPoll     = 100 * time.Millisecond
	defaultTaskPoll = time.Second // used if the server does not specify an interval
	maxTaskPoll     = 10 * time.Second
	cancelTimeout   = 5 * time.Second // timeout for the request that cancels the task
)

// runTask calls a tool of a legacy server that must be called as a task, for a client that did not
// request a task. It waits for the task and returns its result.
func (rt *route) runTask(ctx context.Context, q session.Request) (json.RawMessage, error) {
	q.Params["task"] = json.RawMessage(`{}`)
	raw, err := rt.do(ctx, q)
	described, ok := created(raw)
	if err != nil || !ok {
		return raw, err
	}
	rt.session = rt.used
	id := map[string]json.RawMessage{"taskId": described["taskId"]}
	ask := func(ctx context.Context, method string, timeout time.Duration) (json.RawMessage, error) {
		return rt.do(ctx, session.Request{Method: method, Params: id, Timeout: timeout})
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
			// If the task needs input, the server asks for it while this request is pending.
			return ask(ctx, mcp.MethodTaskResult, maxTaskLife)
		}
	}
}

// cancelTask cancels a task if ctx, the context of the client's call, has ended.
func cancelTask(ctx context.Context, ask func(ctx context.Context, method string, timeout time.Duration) (json.RawMessage, error)) {
	if ctx.Err() == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer cancel()
	_, _ = ask(ctx, mcp.MethodCancelTask, cancelTimeout) // an error may mean that the task has already ended
}

// pause waits for the poll interval specified in a server's description of a task, within the
// limits above.
func pause(ctx context.Context, described map[string]json.RawMessage) error {
	wait := defaultTaskPoll
	for _, name := range []string{"pollInterval", "pollIntervalMs"} {
		var ms float64
		if json.Unmarshal(described[name], &ms) == nil && ms > 0 {
			wait = time.Duration(min(max(ms, float64(minTaskPoll/time.Millisecond)), float64(maxTaskPoll/time.Millisecond))) * time.Millisecond
		}
	}
	if !backoff.Sleep(ctx, wait) {
		return context.Cause(ctx)
	}
	return nil
}

// needsTasks reports whether a modern server rejected a request because the client does not support
// the extension for tasks.
func needsTasks(err error) bool {
	e, ok := isRPC(err)
	if !ok || e.Code != mcp.CodeMissingCapability {
		return false
	}
	return fields(fields(fields(e.Data)["requiredCapabilities"])["extensions"])[mcp.ExtensionTasks] != nil
}

// withTasks adds the extension for tasks to a client's capabilities.
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

// runModernTask calls a tool of a modern server that runs as a task, on behalf of a legacy client.
// It waits for the task and returns its result. If the task requires input, runModernTask asks the
// client for it.
func (rt *route) runModernTask(ctx context.Context, q session.Request) (json.RawMessage, error) {
	q.Client = withTasks(q.Client)
	raw, err := rt.do(ctx, q)
	described, ok := created(raw)
	if err != nil || !ok {
		return raw, err
	}
	rt.g.tasks.add(target{rt.server, taskID(raw)}, rt.r, nil, described)
	id := taskID(raw)
	var given json.RawMessage // answers from the client that are not sent yet; nil if none
	ask := func(ctx context.Context, method string, timeout time.Duration) (json.RawMessage, error) {
		params := map[string]json.RawMessage{"taskId": quote(id)}
		if method == mcp.MethodUpdateTask {
			params["inputResponses"] = given
		}
		return rt.do(ctx, session.Request{Method: method, Params: params, Client: q.Client, Timeout: timeout})
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
			if given, err = rt.askClient(ctx, open); err != nil {
				return nil, err
			}
		default:
			return nil, taskFailed(described)
		}
	}
}

// taskFailed returns the error for a task that ended without a result.
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
