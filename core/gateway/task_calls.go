package gateway

import (
	"context"
	"encoding/base64"
	"encoding/json"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/printable"
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
	rt.session = s
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
