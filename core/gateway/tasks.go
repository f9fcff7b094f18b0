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

// Clients see the ids of tasks in the form in which URIs name their server, see qualify:
// no two servers can have the same, and an id is valid for as long as the server knows
// it, whatever becomes of the connection of the client.
//
// https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks and
// https://modelcontextprotocol.github.io/ext-tasks/specification/2026-07-28/tasks.html

const (
	maxTasks    = 10_000
	maxTaskLife = 24 * time.Hour // of those whose servers do not say how long they keep them
	maxTaskID   = 1 << 10        // bytes
)

// tasks are those that clients of the gateway began, as far as it remembers them.
type tasks struct {
	g *Gateway
	// notes are notifications of shared sessions on their way to clients: sent to by the
	// readers of the sessions without blocking, received by deliver, never closed.
	notes chan func()

	mu    sync.Mutex
	byID  map[target]*task
	order []target // of their beginning
	watch map[target][]*watcher
}

type task struct {
	own       *own          // the session in which it goes on; nil: the shared one
	client    *serve.Client // of the legacy era, which asked for it last
	principal string
	expires   time.Time
}

// add records a task that a client began, as the server describes it.
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

// find returns the session of a task, nil for the shared one. It reports false if the
// task is that of a client with other credentials. A task that is not known may be one
// from before a restart: the server decides.
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

// began reports whether a client may list a task: it began it, or one with the same
// credentials did.
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

// clientOf returns the client of the legacy era that gets what the server says of a task.
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

// exportTasks replaces the ids of tasks of a server in a message by those that clients
// see: its own, that of the task it is about, and those of a list.
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

// created returns the description of the task that a call began instead of giving its
// result, and whether it did.
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

// rewriteTask rewrites a result of a method of tasks.
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
