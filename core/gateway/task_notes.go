package gateway

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/session"
)

// maxWatched is how many tasks one client can listen to at the same time.
const maxWatched = 256

// watcher is a client of the modern era that listens to tasks (subscriptions/listen with
// taskIds). send delivers the params of a notification to it.
type watcher struct {
	principal string
	send      func(params json.RawMessage)
}

// fromServer forwards the notifications about tasks that a server sends in the session that
// clients share. It is called by the goroutine that reads from the server.
func (t *tasks) fromServer(server, method string, params json.RawMessage) {
	id := target{server, taskID(params)}
	if id.key == "" {
		return
	}
	switch method {
	case mcp.NotificationTaskStatus:
		if known := t.inShared(id); known != nil && known.client != nil {
			t.notify(known.client, method, t.g.taskIDs(known.principal, server).status(params))
		}
	case mcp.NotificationTask:
		v := t.g.view.Load()
		for _, w := range t.watchersOf(id) {
			w.send(v.rewriteTask(t.g.taskIDs(w.principal, server), mcp.MethodGetTask, withoutMeta(params, mcp.MetaSubscriptionID)))
		}
	}
}

func withoutMeta(raw json.RawMessage, name string) json.RawMessage {
	raw, _ = within(raw, "_meta", func(meta json.RawMessage) (json.RawMessage, bool) {
		return writeMembers(slices.DeleteFunc(readMembers(meta), func(m jsonMember) bool { return m.name == name })), true
	})
	return raw
}

func (t *tasks) watchersOf(id target) []*watcher {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.watch[id])
}

// listen adds a watcher of tasks; stop removes it.
func (t *tasks) listen(w *watcher, ids []target) (stop func()) {
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

// watchAll begins to listen for a modern client: until ctx is done, what servers announce
// about the tasks that it names reaches it. It returns the ids to which the client may
// listen, as exported.
func (t *tasks) watchAll(ctx context.Context, watch mcpserver.TaskWatch) (known []string) {
	v := t.g.view.Load()
	byServer := map[string][]string{}
	var ids []target
	for _, exported := range watch.IDs {
		id, ok := t.g.locateTask(v, watch.Principal, exported)
		if _, mine := t.find(id, &mcpserver.Request{Principal: watch.Principal}); !ok || !mine || !v.modern[id.server] ||
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
	stop := t.listen(&watcher{watch.Principal, watch.Send}, ids)
	t.g.clients.run(func(ending context.Context) {
		select {
		case <-ctx.Done():
		case <-ending.Done():
		}
		stop()
	})
	for server, keys := range byServer {
		t.g.clients.run(func(ending context.Context) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(ending, cancel)()
			t.listenUpstream(ctx, server, keys, watch.Capabilities)
		})
	}
	return known
}

// listenUpstream listens to tasks of a server until ctx is done.
func (t *tasks) listenUpstream(ctx context.Context, server string, keys []string, capabilities json.RawMessage) {
	q := session.Request{Method: mcp.MethodListen, Client: capabilities, Timeout: maxTaskLife,
		Params: map[string]json.RawMessage{"notifications": encode(map[string][]string{"taskIds": keys})}}
	for ctx.Err() == nil {
		_, err := t.g.tracker.Do(ctx, server, q)
		if _, refused := isRPC(err); refused {
			return // clients can still ask for the task
		}
		_ = pause(ctx, map[string]json.RawMessage{"pollIntervalMs": encode(listenAgain / time.Millisecond)})
	}
}

// listenAgain is the pause before the next attempt after a subscriptions/listen ended.
const listenAgain = 2 * time.Second

// notes are the params of notifications on their way to one client.
type notes struct {
	waiting []note
	bytes   int // of waiting
}

type note struct {
	method string
	params json.RawMessage
}

// notify sends a notification to a client, after those that wait already. A client that does not
// read holds back only its own: when too many wait, more are dropped, as clients do not rely on
// them.
func (t *tasks) notify(client *mcpserver.Client, method string, params json.RawMessage) {
	t.mu.Lock()
	n := t.notes[client]
	begin := n == nil
	if begin {
		n = &notes{}
		t.notes[client] = n
	}
	if len(n.waiting) < ownQueue && (len(n.waiting) == 0 || n.bytes+len(params) <= ownBytes) {
		n.waiting, n.bytes = append(n.waiting, note{method, params}), n.bytes+len(params)
	}
	t.mu.Unlock()
	if begin && !t.g.clients.run(func(ending context.Context) { t.deliver(ending, client, n) }) {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.notes, client) // the gateway ends
	}
}

// deliver sends what waits for a client, until nothing does or ctx is done.
func (t *tasks) deliver(ctx context.Context, client *mcpserver.Client, n *notes) {
	for {
		t.mu.Lock()
		if len(n.waiting) == 0 || ctx.Err() != nil {
			delete(t.notes, client)
			t.mu.Unlock()
			return
		}
		next := n.waiting[0]
		n.waiting = n.waiting[1:]
		t.mu.Unlock()
		client.Notify(nil, next.method, next.params)
		t.mu.Lock()
		n.bytes -= len(next.params)
		t.mu.Unlock()
	}
}
