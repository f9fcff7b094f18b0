package gateway

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/internal/fair"
	"github.com/mcptrack/mcptrack/core/internal/rawjson"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/session"
)

// Clients refer to a task by an id that only the gateway can create: it contains the server, the
// server's id for the task, and a MAC over both and the principal of the task. An id is therefore
// the same wherever it appears, remains valid after the gateway restarts for as long as the server
// keeps the task, and cannot be used by another principal. A request with an invalid id is rejected
// without asking the server.
//
// https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks and
// https://modelcontextprotocol.github.io/ext-tasks/specification/2026-07-28/tasks.html

const (
	maxTasks    = 10_000         // registered tasks; a principal that exceeds its share (see fair) loses its oldest
	maxTaskLife = 24 * time.Hour // how long a task is registered and waited for
	maxTaskID   = 1 << 10        // in bytes; a task with a longer id cannot be requested

	taskPrefix = "mcptrack-task-" // prefix of the ids that clients use
	taskMAC    = 16               // length in bytes
)

// taskRegistry stores the tasks that clients of the gateway started, and which clients listen to
// them. The zero value is ready to use.
type taskRegistry struct {
	mu     sync.Mutex
	demand func(server string) (release func()) // keeps a server awake; nil without servers, and when the gateway stops
	room   fair.Limit                           // limits the tasks in byID, by principal
	byID   map[taskKey]*task                    // keyed by principal and task
	order  []taskKey                            // keys of byID, oldest first
	shared map[target]*task                     // tasks in byID that run in shared sessions
	watch  map[target][]*watcher                // clients that listen to a task
}

// taskKey identifies a task of a principal by its server and the server's id for it.
type taskKey struct {
	principal string
	target
}

// task is a task that a client started.
type task struct {
	taskKey
	session *ownSession       // session in which the task runs; nil means the shared session
	client  *mcpserver.Client // legacy client that last requested it; nil if a modern client started it
	expires time.Time         // after this time, the server may have discarded the task
	// release ends the demand for the server; nil if the task has ended, or runs in a session of a
	// client.
	release func()
}

// settle lets the server of a task sleep. taskRegistry.mu must be held.
func (t *task) settle() {
	if t != nil && t.release != nil {
		t.release()
		t.release = nil
	}
}

// hasEnded reports whether a task has ended, according to the server's description of it.
func hasEnded(described map[string]json.RawMessage) bool {
	switch string(described["status"]) {
	case `"completed"`, `"failed"`, `"cancelled"`:
		return true
	}
	return false
}

// watcher is a modern client that listens to tasks (subscriptions/listen with taskIds). send
// delivers the params of a notification to it.
type watcher struct {
	principal string
	send      func(params json.RawMessage)
}

// add registers a task started by the request r in session s; nil means the shared session.
// described is the server's description of the task.
func (t *taskRegistry) add(id target, r *mcpserver.Request, s *ownSession, described map[string]json.RawMessage) {
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
	added := &task{taskKey: taskKey{r.Principal, id}, session: s, client: r.Client, expires: time.Now().Add(life)}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID == nil {
		t.byID, t.shared, t.room.Max = map[taskKey]*task{}, map[target]*task{}, maxTasks
	}
	t.drop(t.byID[added.taskKey])
	if s == nil { // a server that reuses an id has discarded the previous task, whoever owned it
		t.drop(t.shared[id])
		t.shared[id] = added
	}
	for !t.room.Take(r.Principal) {
		oldest := slices.IndexFunc(t.order, func(k taskKey) bool { return k.principal == r.Principal })
		if oldest < 0 {
			delete(t.shared, id)
			return
		}
		t.drop(t.byID[t.order[oldest]])
	}
	t.byID[added.taskKey] = added
	t.order = append(t.order, added.taskKey)
	if s == nil && t.demand != nil && !hasEnded(described) {
		added.release = t.demand(id.server)
	}
}

// settle lets the server of a task sleep, because the task has ended.
func (t *taskRegistry) settle(k taskKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byID[k].settle()
}

// reconcile lets the servers sleep whose tasks have expired.
func (t *taskRegistry) reconcile(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, known := range t.byID {
		if !now.Before(known.expires) {
			known.settle()
		}
	}
}

// close ends the demand for servers, because the gateway stops.
func (t *taskRegistry) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.demand = nil
	for _, known := range t.byID {
		known.settle()
	}
}

// drop removes a task from the registry; known may be nil. t.mu must be held.
func (t *taskRegistry) drop(known *task) {
	if known == nil {
		return
	}
	known.settle()
	delete(t.byID, known.taskKey)
	if t.shared[known.target] == known {
		delete(t.shared, known.target)
	}
	i := slices.Index(t.order, known.taskKey)
	t.order = slices.Delete(t.order, i, i+1)
	t.room.Give(known.principal)
}

// find returns the session in which a task of the client's principal runs, or nil for the shared
// session. The id must already be verified (see taskIDs). An unregistered task may be older than
// this process. In that case the server determines whether it exists, unless the server has since
// assigned the id to another principal.
func (t *taskRegistry) find(id target, r *mcpserver.Request) (s *ownSession, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.byID[taskKey{r.Principal, id}]
	if known == nil {
		return nil, t.shared[id] == nil
	}
	if r.Client != nil {
		known.client = r.Client
	}
	return known.session, true
}

// began reports whether a task may be listed for the client that sent r, because that client, or
// one with the same credentials, started it. s is the session of the task; nil means the shared
// session.
func (t *taskRegistry) began(id target, r *mcpserver.Request, s *ownSession) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.byID[taskKey{r.Principal, id}]
	if known == nil || s == nil && t.shared[id] != nil && t.shared[id] != known {
		return false
	}
	return r.Principal != "" || known.client == r.Client
}

// unfinished reports whether a session has tasks that a client may still request.
func (t *taskRegistry) unfinished(s *ownSession) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, known := range t.byID {
		if known.session == s && time.Now().Before(known.expires) {
			return true
		}
	}
	return false
}

// forget removes the tasks of a session that is being closed.
func (t *taskRegistry) forget(s *ownSession) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.order = slices.DeleteFunc(t.order, func(id taskKey) bool {
		if t.byID[id].session != s {
			return false
		}
		delete(t.byID, id)
		t.room.Give(id.principal)
		return true
	})
}

// inShared returns the task with this id in the shared session, or nil if none is registered.
func (t *taskRegistry) inShared(id target) *task {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.shared[id]; known != nil {
		return new(*known) // a copy, because the client of the task may change
	}
	return nil
}

func (t *taskRegistry) watchers(id target) []*watcher {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.watch[id])
}

// listen registers a watcher of tasks; stop removes it.
func (t *taskRegistry) listen(w *watcher, ids []target) (stop func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.watch == nil {
		t.watch = map[target][]*watcher{}
	}
	for _, id := range ids {
		t.watch[id] = append(slices.Clone(t.watch[id]), w)
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		for _, id := range ids {
			if left := slices.DeleteFunc(slices.Clone(t.watch[id]), func(o *watcher) bool { return o == w }); len(left) > 0 {
				t.watch[id] = left
			} else {
				delete(t.watch, id)
			}
		}
	}
}

// taskIDs translates between a server's task ids and the ids by which one principal refers to the
// tasks.
type taskIDs struct {
	key               []byte
	principal, server string
	alias             string // the server's exported id
}

func (b *base) taskIDs(principal, server string) taskIDs {
	return taskIDs{b.opts.Key, principal, server, b.alias().of(server)}
}

// export returns the id that clients use for a server's task id. If that would be too long, it
// returns an id that matches no task.
func (n taskIDs) export(id string) string {
	named := encode([2]string{n.alias, id})
	h := hmac.New(sha256.New, n.key)
	own := encode([2]string{n.server, id})                             // an id is valid only for the same server, not for another with its exported id
	_, _ = h.Write(encode([]string{"task", n.principal, string(own)})) // writing to a hash never fails
	sum := h.Sum(nil)[:taskMAC]
	if len(id) > maxTaskID {
		named = nil
	}
	return taskPrefix + base64.RawURLEncoding.EncodeToString(append(sum, named...))
}

// read is the inverse of export. ok is false if export did not create the id.
func (n taskIDs) read(exported string) (id string, ok bool) {
	t, ok := claimedTask(exported)
	return t.key, ok && t.server == n.alias && subtle.ConstantTimeCompare([]byte(n.export(t.key)), []byte(exported)) == 1
}

// claimedTask returns the task that an id refers to, with the exported id of its server, without
// verifying the id.
func claimedTask(exported string) (target, bool) {
	text, ok := strings.CutPrefix(exported, taskPrefix)
	raw, err := base64.RawURLEncoding.DecodeString(text)
	var named [2]string
	ok = ok && err == nil && len(raw) > taskMAC && json.Unmarshal(raw[taskMAC:], &named) == nil
	return target{named[0], named[1]}, ok
}

// verifiedTask returns the task that an id refers to. ok is false if the gateway did not create the
// id for this principal.
func (b *base) verifiedTask(principal, exported string) (target, bool) {
	t, ok := claimedTask(exported)
	if ok {
		t.server = b.internal(t.server)
		_, ok = b.taskIDs(principal, t.server).read(exported)
	}
	return t, ok
}

// related replaces the task id in the _meta of a server's message, which specifies the task that
// the message belongs to, with the id that clients use.
func (n taskIDs) related(raw json.RawMessage) json.RawMessage {
	return mapRelated(raw, func(id string) (string, bool) { return n.export(id), true })
}

// mapRelated applies f to the task id in the _meta of a message, which specifies the task that the
// message belongs to.
func mapRelated(raw json.RawMessage, f func(string) (string, bool)) json.RawMessage {
	if !bytes.Contains(raw, []byte(mcp.MetaRelatedTask)) {
		return raw
	}
	raw, _ = within(raw, "_meta", func(meta json.RawMessage) (json.RawMessage, bool) {
		return within(meta, mcp.MetaRelatedTask, func(task json.RawMessage) (json.RawMessage, bool) { return mapTaskID(task, f) })
	})
	return raw
}

// taskID returns the taskId in the params of a request or in a task, or "" if there is none.
func taskID(raw json.RawMessage) (id string) {
	_ = json.Unmarshal(fields(raw)["taskId"], &id) // stays empty if it is not a string
	return id
}

// mapTaskID applies f to the taskId of an object.
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

// task replaces the taskId in a server's object with the id that clients use.
func (n taskIDs) task(raw json.RawMessage) json.RawMessage {
	raw, _ = mapTaskID(raw, func(id string) (string, bool) { return n.export(id), true })
	return raw
}

// status rewrites the task ids in a server's notification about one of its tasks.
func (n taskIDs) status(raw json.RawMessage) json.RawMessage { return n.task(n.related(raw)) }

// created rewrites the result of a call that started a task for the client.
func (n taskIDs) created(raw json.RawMessage) json.RawMessage {
	raw = n.task(raw)
	raw, _ = within(raw, "task", func(task json.RawMessage) (json.RawMessage, bool) { return n.task(task), true })
	return raw
}

// created reports whether a call started a task instead of returning its result, and returns the
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

// rewriteTask rewrites the task ids and resource URIs in the result of a tasks/… request.
func (v *exports) rewriteTask(n taskIDs, method string, raw json.RawMessage) json.RawMessage {
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

// forwardNotification forwards a notification about a task, a log message or the end of an
// elicitation that a server sent in the shared session to the client that it is for. It is called by the goroutine that reads from the server, so it must not block.
func (g *Gateway) forwardNotification(server, method string, params json.RawMessage) {
	switch method {
	case mcp.NotificationMessage, mcp.NotificationElicitationComplete:
		if g.exports.Load().servers[server].verdict.Blocked() != nil {
			return
		}
		for _, client := range g.opts.Callers.recipients(server, method, params, g.base) {
			g.notify(client, method, params)
		}
		return
	}
	id := target{server, taskID(params)}
	if id.key == "" {
		return
	}
	switch method {
	case mcp.NotificationTaskStatus:
		if known := g.tasks.inShared(id); known != nil && known.client != nil {
			g.notify(known.client, method, g.taskIDs(known.principal, server).status(params))
			if hasEnded(fields(params)) {
				g.tasks.settle(known.taskKey)
			}
		}
	case mcp.NotificationTask:
		v := g.exports.Load()
		for _, w := range g.tasks.watchers(id) {
			w.send(v.rewriteTask(g.taskIDs(w.principal, server), mcp.MethodGetTask, withoutMeta(params, mcp.MetaSubscriptionID)))
		}
	}
}

func withoutMeta(raw json.RawMessage, name string) json.RawMessage {
	raw, _ = within(raw, "_meta", func(meta json.RawMessage) (json.RawMessage, bool) {
		return writeMembers(slices.DeleteFunc(rawjson.Members(meta), func(m rawjson.Member) bool { return m.Name == name })), true
	})
	return raw
}

const (
	maxWatched  = 256             // maximum number of tasks that one client can listen to
	listenRetry = 2 * time.Second // delay before another subscriptions/listen request for tasks
)

// watchTasks starts to listen for a modern client: until ctx is done, the client receives the
// notifications that servers send about the tasks specified in watch. It returns the exported ids
// of the tasks to which the client may listen.
func (g *Gateway) watchTasks(ctx context.Context, watch mcpserver.TaskWatch) (known []string) {
	v := g.exports.Load()
	byServer := map[string][]string{}
	var ids []target
	for _, exported := range watch.IDs {
		id, ok := g.verifiedTask(watch.Principal, exported)
		if _, mine := g.tasks.find(id, &mcpserver.Request{Principal: watch.Principal}); !ok || !mine || !v.servers[id.server].modern ||
			!slices.Contains(v.extensions[mcp.ExtensionTasks], id.server) || slices.Contains(ids, id) || len(ids) == maxWatched {
			continue
		}
		known = append(known, exported)
		ids = append(ids, id)
		byServer[id.server] = append(byServer[id.server], id.key)
	}
	if len(ids) == 0 {
		return nil
	}
	stop := g.tasks.listen(&watcher{watch.Principal, watch.Send}, ids)
	g.run(func(ending context.Context) {
		select {
		case <-ctx.Done():
		case <-ending.Done():
		}
		stop()
	})
	for server, keys := range byServer {
		g.run(func(ending context.Context) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(ending, cancel)()
			g.listenToTasks(ctx, server, keys, watch.Capabilities)
		})
	}
	return known
}

// listenToTasks listens to notifications about tasks of a server until ctx is done.
func (g *Gateway) listenToTasks(ctx context.Context, server string, keys []string, capabilities json.RawMessage) {
	q := session.Request{Method: mcp.MethodListen, Client: capabilities, Timeout: maxTaskLife,
		Params: map[string]json.RawMessage{"notifications": encode(map[string][]string{"taskIds": keys})}}
	defer g.tracker.Demand(server)()
	for ctx.Err() == nil {
		_, err := g.tracker.Do(ctx, server, q)
		if _, refused := isRPC(err); refused {
			return // clients can still poll the task
		}
		backoff.Sleep(ctx, listenRetry)
	}
}

// notify queues a notification for a client.
func (g *Gateway) notify(client *mcpserver.Client, method string, params json.RawMessage) {
	g.queues.put(client, len(params), func() { client.Notify(nil, method, params) })
}
