package gateway

import (
	"context"
	"encoding/json"

	"github.com/mcptrack/mcptrack/core/internal/rawjson"
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
	params := r.Members()
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

// maxTaskPages is the maximum number of pages that one server is asked for.
const maxTaskPages = 100

// listTasks handles tasks/list requests and returns the tasks that the client started, of all servers on one page.
// A server that does not answer has none.
func (rt *route) listTasks(ctx context.Context) (json.RawMessage, error) {
	mine := []json.RawMessage{}
	for _, server := range rt.v.listsTasks {
		if rt.g.tracker.Dormant(server) { // it would be awake if it had tasks
			continue
		}
		params := map[string]json.RawMessage{}
		for range maxTaskPages {
			asked := &route{g: rt.g, v: rt.v, r: rt.r, server: server}
			raw, err := asked.send(ctx, params)
			page := fields(raw)
			for _, described := range rawjson.Elements(page["tasks"]) {
				if rt.g.tasks.began(target{server, taskID(described)}, rt.r, asked.used) {
					mine = append(mine, rt.g.taskIDs(rt.r.Principal, server).task(described))
				}
			}
			if params["cursor"] = page["nextCursor"]; err != nil || !isString(params["cursor"]) {
				break
			}
		}
	}
	return encode(map[string]any{"tasks": mine}), ctx.Err()
}
