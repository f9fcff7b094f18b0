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
func (w *way) task(ctx context.Context) (json.RawMessage, error) {
	g, v, r := w.g, w.v, w.r
	switch r.Method {
	case mcp.MethodGetTask, mcp.MethodCancelTask:
	case mcp.MethodTaskResult, mcp.MethodListTasks: // methods of the legacy era only; see also listTasks
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
	t, ok := g.locateTask(v, r.Principal, taskID(r.Params))
	if !ok || g.api(t.server) != nil {
		return nil, unknownTask()
	}
	o, ok := g.tasks.find(t, r)
	if !ok {
		return nil, unknownTask()
	}
	params["taskId"] = quote(t.key)
	w.server = t.server
	if o != nil {
		g.clients.takeOver(r, o)
		w.fixed = o
	}
	raw, err := w.send(ctx, params)
	if err == nil && r.Method == mcp.MethodGetTask {
		g.tasks.add(t, r, w.used, fields(raw)) // it may have begun before this process
	}
	return v.rewriteTask(g.taskIDs(r.Principal, t.server), r.Method, raw), err
}

func noMethod(method string) error {
	return &mcpserver.Error{Code: mcp.CodeMethodNotFound, Message: "method not found: " + printable.Line(method, 100)}
}

func unknownTask() error {
	return &mcpserver.Error{Code: mcp.CodeInvalidParams, Message: "Failed to retrieve task: Task not found"}
}

// listTasks answers tasks/list with the tasks that the client began. It asks one server
// after the other; a page that the client gets is made of one page of one server.
func (w *way) listTasks(ctx context.Context) (json.RawMessage, error) {
	v, r := w.v, w.r
	at, cursor, ok := readTaskCursor(r.Params)
	if !ok {
		return nil, &mcpserver.Error{Code: mcp.CodeInvalidParams, Message: "invalid cursor"}
	}
	for at < len(v.listsTasks) {
		server := v.listsTasks[at]
		params := map[string]json.RawMessage{}
		if cursor != "" {
			params["cursor"] = quote(cursor)
		}
		asked := &way{g: w.g, v: v, r: r, server: server}
		raw, err := asked.send(ctx, params)
		if err != nil && cursor != "" {
			return nil, err
		}
		page, next := fields(raw), "" // no tasks if the server could not be asked
		_ = json.Unmarshal(page["nextCursor"], &next)
		var of, mine []json.RawMessage
		_ = json.Unmarshal(page["tasks"], &of)
		for _, described := range of {
			if w.g.tasks.began(target{server, taskID(described)}, r, asked.used) {
				mine = append(mine, w.g.taskIDs(r.Principal, server).task(described))
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

// taskCursor is what a cursor of tasks/list encodes: the server to ask, as an index into
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
