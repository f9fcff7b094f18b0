package gateway

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/serve"
)

// Clients see the id of a task in a form that names its server, as qualify gives it to
// URIs: so the ids of two servers are never equal, and an id stays valid, even when the
// client reconnects, for as long as the server knows it.
//
// https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks and
// https://modelcontextprotocol.github.io/ext-tasks/specification/2026-07-28/tasks.html

const (
	maxTasks    = 10_000         // that are remembered; the oldest are forgotten
	maxTaskLife = 24 * time.Hour // how long a task is remembered, and waited for, at most
	maxTaskID   = 1 << 10        // bytes; a task with a longer id is not remembered
)

// tasks remembers the tasks that clients of the gateway began.
type tasks struct {
	g *Gateway
	// notes are notifications of shared sessions on their way to clients: sent to by the
	// readers of the sessions without blocking, received by deliver, never closed.
	notes chan func()

	mu    sync.Mutex
	byID  map[target]*task      // by server and the id there
	order []target              // the keys of byID, the oldest task first
	watch map[target][]*watcher // who listens to a task
}

// task is a task that a client began.
type task struct {
	own       *own          // the session in which it runs; nil: the shared one
	client    *serve.Client // the legacy client that asked for it last; nil: a modern one began it
	principal string        // the credentials of the client that began it; "" without
	expires   time.Time     // when the server may have dropped it
}

// add records a task that a client began with the request r in the session o (nil: the
// shared one). described is the server's description of the task.
func (t *tasks) add(id target, r *serve.Request, o *own, described map[string]json.RawMessage) {
	life := maxTaskLife
	for _, name := range []string{"ttl", "ttlMs"} {
		var ms float64
		if json.Unmarshal(described[name], &ms) == nil && ms > 0 && ms < float64(life/time.Millisecond) {
			life = time.Duration(ms) * time.Millisecond
		}
	}
	if len(id.key) > maxTaskID {
		return // clients can still ask for it
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID == nil {
		t.byID = map[target]*task{}
	}
	for len(t.order) >= maxTasks {
		delete(t.byID, t.order[0])
		t.order = t.order[1:]
	}
	if t.byID[id] == nil {
		t.order = append(t.order, id)
	}
	t.byID[id] = &task{own: o, client: r.Client, principal: r.Principal, expires: time.Now().Add(life)}
}

// find returns the session in which a task runs, nil for the shared one. It reports false if
// a client with other credentials began the task. A task that is not known here may be
// older than this process: the server decides.
func (t *tasks) find(id target, r *serve.Request) (o *own, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.byID[id]
	if known == nil {
		return nil, true
	}
	if known.principal != r.Principal {
		return nil, false
	}
	if r.Client != nil {
		known.client = r.Client
	}
	return known.own, true
}

// began reports whether the client of a request may list a task, because it, or a client
// with the same credentials, began it.
func (t *tasks) began(id target, r *serve.Request) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.byID[id]
	return known != nil && known.principal == r.Principal && (r.Principal != "" || known.client == r.Client)
}

// goOn reports whether a session has tasks that a client may still want.
func (t *tasks) goOn(o *own) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, known := range t.byID {
		if known.own == o && time.Now().Before(known.expires) {
			return true
		}
	}
	return false
}

// forget drops the tasks of a session that ends.
func (t *tasks) forget(o *own) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, known := range t.byID {
		if known.own == o {
			delete(t.byID, id)
		}
	}
	t.order = slices.DeleteFunc(t.order, func(id target) bool { return t.byID[id] == nil })
}

// clientOf returns the legacy client to which notifications about a task are sent; nil: none.
func (t *tasks) clientOf(id target) *serve.Client {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.byID[id]; known != nil {
		return known.client
	}
	return nil
}

// locateTask returns the server of a task and its id there.
func (v *view) locateTask(exported string) (target, bool) {
	server, id, ok := unqualify(exported)
	if _, known := v.servers[server]; !ok || !known {
		return target{}, false
	}
	return target{server, id}, true
}

// exportTasks replaces the id of the task to which a server's message belongs, in _meta, by
// the one that clients see.
func exportTasks(server string, raw json.RawMessage) json.RawMessage {
	return mapTasks(raw, func(id string) (string, bool) { return qualify(server, id), true })
}

// importTasks is the inverse of exportTasks.
func importTasks(raw json.RawMessage) json.RawMessage {
	return mapTasks(raw, func(id string) (string, bool) {
		_, id, ok := unqualify(id)
		return id, ok
	})
}

// mapTasks replaces the id of the task to which a message belongs, in _meta.
func mapTasks(raw json.RawMessage, f func(string) (string, bool)) json.RawMessage {
	if !bytes.Contains(raw, []byte(mcp.MetaRelatedTask)) {
		return raw
	}
	raw, _ = within(raw, "_meta", func(meta json.RawMessage) (json.RawMessage, bool) {
		return within(meta, mcp.MetaRelatedTask, func(task json.RawMessage) (json.RawMessage, bool) { return mapTaskID(task, f) })
	})
	return raw
}

// mapTaskID replaces the taskId of an object.
func mapTaskID(raw json.RawMessage, f func(string) (string, bool)) (json.RawMessage, bool) {
	return within(raw, "taskId", func(id json.RawMessage) (json.RawMessage, bool) {
		var text string
		if json.Unmarshal(id, &text) != nil || text == "" {
			return id, false
		}
		text, ok := f(text)
		return quote(text), ok
	})
}

func exportTaskID(server string, raw json.RawMessage) json.RawMessage {
	raw, _ = mapTaskID(raw, func(id string) (string, bool) { return qualify(server, id), true })
	return raw
}

// created reports whether a call began a task instead of giving its result, and returns the
// server's description of the task.
func created(raw json.RawMessage) (described map[string]json.RawMessage, ok bool) {
	if !bytes.Contains(raw, []byte(`"taskId"`)) {
		return nil, false
	}
	result := fields(raw)
	if string(result["resultType"]) == `"task"` {
		described = result
	} else if result["content"] == nil {
		described = fields(result["task"])
	}
	return described, isString(described["taskId"])
}

// exportCreated is the result of a call that began a task, as clients see it.
func exportCreated(server string, raw json.RawMessage) json.RawMessage {
	raw = exportTaskID(server, raw)
	raw, _ = within(raw, "task", func(task json.RawMessage) (json.RawMessage, bool) { return exportTaskID(server, task), true })
	return raw
}

// rewriteTask rewrites the result of a tasks/… request: the ids of tasks, and the URIs of
// resources.
func (v *view) rewriteTask(server, method string, raw json.RawMessage) json.RawMessage {
	if method == mcp.MethodTaskResult {
		return v.rewriteContent(server, exportTasks(server, raw))
	}
	raw = exportTaskID(server, exportTasks(server, raw))
	raw, _ = within(raw, "result", func(result json.RawMessage) (json.RawMessage, bool) {
		return v.rewriteContent(server, result), true
	})
	return raw
}

func isTaskMethod(method string) bool { return strings.HasPrefix(method, "tasks/") }
