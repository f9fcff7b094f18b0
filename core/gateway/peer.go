package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/session"
)

// maxClientTasks is how many tasks of a client one server may know.
const maxClientTasks = 1_000

// legacyPeer is a client of the legacy era as one server sees it.
type legacyPeer struct {
	client *mcpserver.Client
	requests

	mu    sync.Mutex
	tasks map[string]bool // ids of the tasks that the client runs for this server
}

func (p *legacyPeer) begin(r *mcpserver.Request) {
	if r.Client == p.client { // another client may ask for a task in the session
		p.requests.begin(r)
	}
}

func (p *legacyPeer) message(method string, params json.RawMessage) {
	p.client.Notify(p.via(), method, params)
}

func (p *legacyPeer) request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	begins := isObject(fields(params)["task"])
	switch method {
	case mcp.MethodGetTask, mcp.MethodTaskResult, mcp.MethodCancelTask:
		if !p.knows(taskID(params)) {
			return nil, &session.RPCError{Code: mcp.CodeInvalidParams, Message: "unknown task"}
		}
	default:
		if !canAnswer(p.client.Capabilities, method) {
			return nil, notFound()
		}
	}
	raw, err := p.client.Ask(ctx, p.via(), method, params)
	if e, ok := errors.AsType[*mcpserver.Error](err); ok {
		data, _ := e.Data.(json.RawMessage)
		return nil, &session.RPCError{Code: e.Code, Message: e.Message, Data: data}
	}
	if id := taskID(fields(raw)["task"]); begins && id != "" {
		p.learn(id)
	}
	return raw, err
}

// learn records that the client runs a task for this server.
func (p *legacyPeer) learn(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tasks == nil {
		p.tasks = map[string]bool{}
	}
	if len(p.tasks) < maxClientTasks && len(id) <= maxTaskID {
		p.tasks[id] = true
	}
}

// knows reports whether the client runs the task for this server.
func (p *legacyPeer) knows(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tasks[id]
}

// taskID is the taskId of params or of a task; "" if there is none.
func taskID(raw json.RawMessage) (id string) {
	_ = json.Unmarshal(fields(raw)["taskId"], &id) // "" if it is not a string
	return id
}
