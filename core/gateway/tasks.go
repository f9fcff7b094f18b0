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
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/session"
)

// Clients see a task under an id that only the gateway can make: it holds the server, the
// server's id of the task, and a MAC over both and the task's principal. An id is therefore
// the same wherever it appears, stays valid over restarts of the gateway for as long as the
// server knows the task, and cannot be used by another principal. A request with an id that
// does not verify is answered without a request to the server.
//
// https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks and
// https://modelcontextprotocol.github.io/ext-tasks/specification/2026-07-28/tasks.html

const (
	maxTasks    = 10_000         // that are remembered (see fair); a principal beyond its share loses its own oldest
	maxTaskLife = 24 * time.Hour // how long a task is remembered, and waited for, at most
	maxTaskID   = 1 << 10        // bytes; a task with a longer id cannot be requested

	taskPrefix = "mcptrack-task-" // of the ids that clients see
	taskMAC    = 16               // bytes
)

// taskRegistry remembers the tasks that clients of the gateway began, and who listens to them.
// The zero value is ready.
type taskRegistry struct {
	mu     sync.Mutex
	room   fair.Limit            // the keys of byID, by principal
	byID   map[taskKey]*task     // by principal
	order  []taskKey             // the keys of byID, the oldest first
	shared map[target]*task      // the tasks of byID that run in shared sessions
	watch  map[target][]*watcher // who listens to a task
}

// taskKey is a task of a principal: its server and the server's id.
type taskKey struct {
	principal string
	target
}

// task is a task that a client began.
type task struct {
	taskKey
	session *clientSession    // the session in which it runs; nil: the shared session
	client  *mcpserver.Client // the legacy client that asked for it last; nil: a modern client began it
	expires time.Time         // when the server may have dropped it
}

// watcher is a modern client that listens to tasks (subscriptions/listen with taskIds). send
// delivers the params of a notification to it.
type watcher struct {
	principal string
	send      func(params json.RawMessage)
}

// add records a task of the client that made the request r, in session s (nil: the shared
// session). described is the server's description of the task.
func (t *taskRegistry) add(id target, r *mcpserver.Request, s *clientSession, described map[string]json.RawMessage) {
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
	added := &task{taskKey{r.Principal, id}, s, r.Client, time.Now().Add(life)}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID == nil {
		t.byID, t.shared, t.room.Max = map[taskKey]*task{}, map[target]*task{}, maxTasks
	}
	t.drop(t.byID[added.taskKey])
	if s == nil { // a server that reuses an id has dropped the former task, whoever owned it
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
}

// drop forgets a task; nil is allowed. t.mu must be held.
func (t *taskRegistry) drop(known *task) {
	if known == nil {
		return
	}
	delete(t.byID, known.taskKey)
	if t.shared[known.target] == known {
		delete(t.shared, known.target)
	}
	i := slices.Index(t.order, known.taskKey)
	t.order = slices.Delete(t.order, i, i+1)
	t.room.Give(known.principal)
}

// find returns the session in which a task of the client's principal runs, nil for the shared
// session. Its id was verified (see taskIDs). An unknown task may be older than this process:
// the server decides, unless it has given the id to another principal since.
func (t *taskRegistry) find(id target, r *mcpserver.Request) (s *clientSession, ok bool) {
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

// began reports whether the client of a request may list a task of session s (nil: the shared
// session), because it, or a client with the same credentials, began it.
func (t *taskRegistry) began(id target, r *mcpserver.Request, s *clientSession) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.byID[taskKey{r.Principal, id}]
	if known == nil || s == nil && t.shared[id] != nil && t.shared[id] != known {
		return false
	}
	return r.Principal != "" || known.client == r.Client
}

// unfinished reports whether a session has tasks that a client may still want.
func (t *taskRegistry) unfinished(s *clientSession) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, known := range t.byID {
		if known.session == s && time.Now().Before(known.expires) {
			return true
		}
	}
	return false
}

// forget drops the tasks of a session that ends.
func (t *taskRegistry) forget(s *clientSession) {
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

// inShared returns the task with this id in the shared session; nil: none is known.
func (t *taskRegistry) inShared(id target) *task {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.shared[id]; known != nil {
		return new(*known) // its client may change
	}
	return nil
}

func (t *taskRegistry) watchers(id target) []*watcher {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.watch[id])
}

// listen adds a watcher of tasks; stop removes it.
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

// taskIDs translates between a server's task ids and the ids under which one principal knows
// the tasks.
type taskIDs struct {
	key               []byte
	principal, server string
}

func (b *base) taskIDs(principal, server string) taskIDs {
	return taskIDs{b.opts.Key, principal, server}
}

// export returns the id that clients see. If it is too long, the result is an id under which
// nothing is found.
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

// read is the inverse of export; false if export did not make the id.
func (n taskIDs) read(exported string) (id string, ok bool) {
	t, ok := claimedTask(exported)
	return t.key, ok && t.server == n.server && subtle.ConstantTimeCompare([]byte(n.export(t.key)), []byte(exported)) == 1
}

// claimedTask returns the task that an id names. It does not verify the id.
func claimedTask(exported string) (target, bool) {
	text, ok := strings.CutPrefix(exported, taskPrefix)
	raw, err := base64.RawURLEncoding.DecodeString(text)
	var named [2]string
	ok = ok && err == nil && len(raw) > taskMAC && json.Unmarshal(raw[taskMAC:], &named) == nil
	return target{named[0], named[1]}, ok
}

// verifiedTask returns the task that an id names; false if the gateway did not give the id to
// this principal.
func (b *base) verifiedTask(principal, exported string) (target, bool) {
	t, ok := claimedTask(exported)
	if ok {
		_, ok = b.taskIDs(principal, t.server).read(exported)
	}
	return t, ok
}

// related replaces the id of the task that a server's message belongs to, in _meta, by the id
// that clients see.
func (n taskIDs) related(raw json.RawMessage) json.RawMessage {
	return mapRelated(raw, func(id string) (string, bool) { return n.export(id), true })
}

// mapRelated replaces the id of the task that a message belongs to, in _meta.
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

// task replaces the taskId of a server's object by the id that clients see.
func (n taskIDs) task(raw json.RawMessage) json.RawMessage {
	raw, _ = mapTaskID(raw, func(id string) (string, bool) { return n.export(id), true })
	return raw
}

// status rewrites a server's notification about one of its tasks.
func (n taskIDs) status(raw json.RawMessage) json.RawMessage { return n.task(n.related(raw)) }

// created is the result of a call that began a task, as clients see it.
func (n taskIDs) created(raw json.RawMessage) json.RawMessage {
	raw = n.task(raw)
	raw, _ = within(raw, "task", func(task json.RawMessage) (json.RawMessage, bool) { return n.task(task), true })
	return raw
}

// created reports whether a call began a task instead of returning its result, and returns
// the server's description of the task.
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

// forwardTaskNotification forwards a notification about a task that a server sends in the
// shared session. It is called by the goroutine that reads from the server.
func (g *Gateway) forwardTaskNotification(server, method string, params json.RawMessage) {
	id := target{server, taskID(params)}
	if id.key == "" {
		return
	}
	switch method {
	case mcp.NotificationTaskStatus:
		if known := g.tasks.inShared(id); known != nil && known.client != nil {
			g.notes.notify(known.client, method, g.taskIDs(known.principal, server).status(params))
		}
	case mcp.NotificationTask:
		v := g.view.Load()
		for _, w := range g.tasks.watchers(id) {
			w.send(v.rewriteTask(g.taskIDs(w.principal, server), mcp.MethodGetTask, withoutMeta(params, mcp.MetaSubscriptionID)))
		}
	}
}

func withoutMeta(raw json.RawMessage, name string) json.RawMessage {
	raw, _ = within(raw, "_meta", func(meta json.RawMessage) (json.RawMessage, bool) {
		return writeMembers(slices.DeleteFunc(readMembers(meta), func(m jsonMember) bool { return m.name == name })), true
	})
	return raw
}

const (
	maxWatched  = 256             // tasks that one client can listen to
	listenRetry = 2 * time.Second // the pause after a subscriptions/listen of tasks ended
)

// watchTasks begins to listen for a modern client: until ctx is done, it receives what servers
// announce about the tasks that it names. watchTasks returns the ids, as exported, to which
// the client may listen.
func (g *Gateway) watchTasks(ctx context.Context, watch mcpserver.TaskWatch) (known []string) {
	v := g.view.Load()
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

// listenToTasks listens to tasks of a server until ctx is done.
func (g *Gateway) listenToTasks(ctx context.Context, server string, keys []string, capabilities json.RawMessage) {
	q := session.Request{Method: mcp.MethodListen, Client: capabilities, Timeout: maxTaskLife,
		Params: map[string]json.RawMessage{"notifications": encode(map[string][]string{"taskIds": keys})}}
	for ctx.Err() == nil {
		_, err := g.tracker.Do(ctx, server, q)
		if _, refused := isRPC(err); refused {
			return // clients can still ask for the task
		}
		backoff.Sleep(ctx, listenRetry)
	}
}

// messageQueues sends notifications to clients. A client that does not read delays only its
// own notifications; if too many wait, further ones are dropped, as clients do not rely on
// them.
type messageQueues struct {
	*base
	mu       sync.Mutex
	byClient map[*mcpserver.Client]*messageQueue // of the clients that deliver sends to now
}

// messageQueue holds the notifications on their way to one client.
type messageQueue struct {
	waiting []queuedMessage
	bytes   int // of the params that wait or are in progress
}

type queuedMessage struct {
	method string
	params json.RawMessage
}

// notify sends a notification to a client, after the notifications that already wait.
func (m *messageQueues) notify(client *mcpserver.Client, method string, params json.RawMessage) {
	m.mu.Lock()
	q := m.byClient[client]
	begin := q == nil
	if begin {
		q = &messageQueue{}
		m.byClient[client] = q
	}
	if len(q.waiting) < maxQueuedMessages && (len(q.waiting) == 0 || q.bytes+len(params) <= maxQueuedBytes) {
		q.waiting, q.bytes = append(q.waiting, queuedMessage{method, params}), q.bytes+len(params)
	}
	m.mu.Unlock()
	if begin && !m.run(func(ending context.Context) { m.deliver(ending, client, q) }) {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.byClient, client) // the gateway is ending
	}
}

// deliver sends the queued notifications to a client, until none waits or ctx is done.
func (m *messageQueues) deliver(ctx context.Context, client *mcpserver.Client, q *messageQueue) {
	for {
		m.mu.Lock()
		if len(q.waiting) == 0 || ctx.Err() != nil {
			delete(m.byClient, client)
			m.mu.Unlock()
			return
		}
		next := q.waiting[0]
		q.waiting = q.waiting[1:]
		m.mu.Unlock()
		client.Notify(nil, next.method, next.params)
		m.mu.Lock()
		q.bytes -= len(next.params)
		m.mu.Unlock()
	}
}
