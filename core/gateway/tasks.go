package gateway

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/internal/fair"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// Clients see a task under an id that only the gateway can make: it holds the server and the
// server's id of the task, and a MAC over both and the principal whose task it is. So an id is
// the same wherever it appears, stays valid over restarts of the gateway for as long as the
// server knows the task, and is worth nothing to another principal. What does not verify is
// answered without a word to the server.
//
// https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks and
// https://modelcontextprotocol.github.io/ext-tasks/specification/2026-07-28/tasks.html

const (
	maxTasks    = 10_000         // that are remembered (see fair); a principal beyond its share forgets its own oldest
	maxTaskLife = 24 * time.Hour // how long a task is remembered, and waited for, at most
	maxTaskID   = 1 << 10        // bytes; a task with a longer id cannot be asked for

	taskPrefix = "mcptrack-task-" // of the ids that clients see
	taskMAC    = 16               // bytes
)

// tasks remembers the tasks that clients of the gateway began.
type tasks struct {
	g *Gateway

	mu     sync.Mutex
	notes  map[*mcpserver.Client]*notes // of shared sessions, by the clients to which deliver sends them now
	room   fair.Limit                   // the keys of byID, by principal
	byID   map[ownTask]*task            // by principal
	order  []ownTask                    // the keys of byID, the oldest first
	shared map[target]*task             // the tasks of byID that run in shared sessions
	watch  map[target][]*watcher        // who listens to a task
}

// ownTask is a task of a principal: by server and the id there.
type ownTask struct {
	principal string
	target
}

// task is a task that a client began.
type task struct {
	ownTask
	own     *own              // the session in which it runs; nil: the shared one
	client  *mcpserver.Client // the legacy client that asked for it last; nil: a modern one began it
	expires time.Time         // when the server may have dropped it
}

// add records a task of the client that made the request r, in the session o (nil: the shared
// one). described is the server's description of the task.
func (t *tasks) add(id target, r *mcpserver.Request, o *own, described map[string]json.RawMessage) {
	life := maxTaskLife
	for _, name := range []string{"ttl", "ttlMs"} {
		var ms float64
		if json.Unmarshal(described[name], &ms) == nil && ms > 0 && ms < float64(life/time.Millisecond) {
			life = time.Duration(ms) * time.Millisecond
		}
	}
	if len(id.key) > maxTaskID {
		return
	}
	added := &task{ownTask{r.Principal, id}, o, r.Client, time.Now().Add(life)}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID == nil {
		t.byID, t.shared, t.room.Max = map[ownTask]*task{}, map[target]*task{}, maxTasks
	}
	t.drop(t.byID[added.ownTask])
	if o == nil { // a server that gives an id again has dropped the task of before, whoever's it was
		t.drop(t.shared[id])
		t.shared[id] = added
	}
	for !t.room.Take(r.Principal) {
		oldest := slices.IndexFunc(t.order, func(k ownTask) bool { return k.principal == r.Principal })
		if oldest < 0 {
			delete(t.shared, id)
			return
		}
		t.drop(t.byID[t.order[oldest]])
	}
	t.byID[added.ownTask] = added
	t.order = append(t.order, added.ownTask)
}

// drop forgets a task; nil is allowed. t.mu must be held.
func (t *tasks) drop(known *task) {
	if known == nil {
		return
	}
	delete(t.byID, known.ownTask)
	if t.shared[known.target] == known {
		delete(t.shared, known.target)
	}
	i := slices.Index(t.order, known.ownTask)
	t.order = slices.Delete(t.order, i, i+1)
	t.room.Give(known.principal)
}

// find returns the session in which a task of the client's principal runs, nil for the shared
// one. Its id was verified (see taskIDs): a task that is not known here may be older than this
// process, so the server decides, unless it has given the id to another principal since.
func (t *tasks) find(id target, r *mcpserver.Request) (o *own, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.byID[ownTask{r.Principal, id}]
	if known == nil {
		return nil, t.shared[id] == nil
	}
	if r.Client != nil {
		known.client = r.Client
	}
	return known.own, true
}

// began reports whether the client of a request may list a task of the session o (nil: the
// shared one), because it, or a client with the same credentials, began it.
func (t *tasks) began(id target, r *mcpserver.Request, o *own) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.byID[ownTask{r.Principal, id}]
	if known == nil || o == nil && t.shared[id] != nil && t.shared[id] != known {
		return false
	}
	return r.Principal != "" || known.client == r.Client
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
	t.order = slices.DeleteFunc(t.order, func(id ownTask) bool {
		if t.byID[id].own != o {
			return false
		}
		delete(t.byID, id)
		t.room.Give(id.principal)
		return true
	})
}

// inShared returns the task with this id in the session that clients share; nil: none is known.
func (t *tasks) inShared(id target) *task {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.shared[id]; known != nil {
		return new(*known) // its client may change
	}
	return nil
}

// taskIDs translates between the ids that a server gives to tasks and those under which one
// principal knows them.
type taskIDs struct {
	key               []byte
	principal, server string
}

func (g *Gateway) taskIDs(principal, server string) taskIDs {
	return taskIDs{g.opts.Key, principal, server}
}

// export returns the id that clients see. One that is too long gets an id under which nothing
// is found.
func (n taskIDs) export(id string) string {
	named := encode([2]string{n.server, id})
	h := hmac.New(sha256.New, n.key)
	_, _ = h.Write(encode([]string{"task", n.principal, string(named)})) // it never fails
	sum := h.Sum(nil)[:taskMAC]
	if len(id) > maxTaskID {
		named = nil
	}
	return taskPrefix + base64.RawURLEncoding.EncodeToString(append(sum, named...))
}

// read is the inverse of export; false if the id is none of those.
func (n taskIDs) read(exported string) (id string, ok bool) {
	t, ok := claimedTask(exported)
	return t.key, ok && t.server == n.server && subtle.ConstantTimeCompare([]byte(n.export(t.key)), []byte(exported)) == 1
}

// claimedTask returns the task that an id names, whoever made the id.
func claimedTask(exported string) (target, bool) {
	text, ok := strings.CutPrefix(exported, taskPrefix)
	raw, err := base64.RawURLEncoding.DecodeString(text)
	var named [2]string
	ok = ok && err == nil && len(raw) > taskMAC && json.Unmarshal(raw[taskMAC:], &named) == nil
	return target{named[0], named[1]}, ok
}

// locateTask returns the server of a task and its id there; false if the id is not one that the
// gateway gave to this principal, or if the server is gone.
func (g *Gateway) locateTask(v *view, principal, exported string) (target, bool) {
	t, ok := claimedTask(exported)
	if _, known := v.servers[t.server]; !ok || !known {
		return target{}, false
	}
	_, ok = g.taskIDs(principal, t.server).read(exported)
	return t, ok
}

// related replaces the id of the task to which a server's message belongs, in _meta, by the one
// that clients see.
func (n taskIDs) related(raw json.RawMessage) json.RawMessage {
	return mapRelated(raw, func(id string) (string, bool) { return n.export(id), true })
}

// mapRelated replaces the id of the task to which a message belongs, in _meta.
func mapRelated(raw json.RawMessage, f func(string) (string, bool)) json.RawMessage {
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

// task replaces the taskId of a server's object by the one that clients see.
func (n taskIDs) task(raw json.RawMessage) json.RawMessage {
	raw, _ = mapTaskID(raw, func(id string) (string, bool) { return n.export(id), true })
	return raw
}

// status rewrites a server's notification about one of its tasks.
func (n taskIDs) status(raw json.RawMessage) json.RawMessage { return n.task(n.related(raw)) }

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

// created is the result of a call that began a task, as clients see it.
func (n taskIDs) created(raw json.RawMessage) json.RawMessage {
	raw = n.task(raw)
	raw, _ = within(raw, "task", func(task json.RawMessage) (json.RawMessage, bool) { return n.task(task), true })
	return raw
}

// rewriteTask rewrites the result of a tasks/… request: the ids of tasks, and the URIs of
// resources.
func (v *view) rewriteTask(n taskIDs, method string, raw json.RawMessage) json.RawMessage {
	if method == mcp.MethodTaskResult {
		return v.rewriteContent(n.server, n.related(raw))
	}
	raw = n.status(raw)
	raw, _ = within(raw, "result", func(result json.RawMessage) (json.RawMessage, bool) {
		return v.rewriteContent(n.server, result), true
	})
	return raw
}

func isTaskMethod(method string) bool { return strings.HasPrefix(method, "tasks/") }
