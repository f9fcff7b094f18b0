package gateway

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// taskServer begins the task t1 with every call, and lists it together with another task.
func taskServer(t *testing.T, era session.Era) (*sessiontest.Fake, *sessiontest.Net) {
	server := sessiontest.New()
	server.Legacy, server.Modern = era == session.EraLegacy, era == session.EraModern
	server.SetList("tools", tool("slow"))
	server.Capabilities["tasks"] = json.RawMessage(`{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`)
	server.Capabilities["extensions"] = json.RawMessage(`{"io.modelcontextprotocol/tasks":{}}`)
	described := `"taskId":"t1","status":"working","ttl":60000,"ttlMs":60000`
	begun := `{"task":{` + described + `}}`
	if era == session.EraModern {
		begun = `{"resultType":"task",` + described + `}`
	}
	for method, result := range map[string]string{
		"tools/call":   begun,
		"tasks/get":    `{` + described + `}`,
		"tasks/cancel": `{` + described + `}`,
		"tasks/result": `{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1"}}}`,
		"tasks/list":   `{"tasks":[{` + described + `},{"taskId":"t2","status":"working"}]}`,
	} {
		server.Fail(sessiontest.Fault{Method: method, Result: json.RawMessage(result)})
	}
	net := new(sessiontest.Net)
	net.Add("docs", server)
	t.Cleanup(net.Wait)
	return server, net
}

const tasksCapability = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// as connects a client with credentials.
func (o *outside) as(era session.Era, name string) *session.Session {
	return o.client(era, map[string]config.Secret{"Authorization": config.NewSecret("Bearer " + name)})
}

func (o *outside) asked(server *sessiontest.Fake) (n int) {
	for _, m := range server.Wire() {
		if strings.HasPrefix(m.Method, "tasks/") {
			n++
		}
	}
	return n
}

// A task belongs to the principal that began it, even after a restart of the gateway and whatever
// other clients do. For others the task does not exist, and the server is not asked.
func TestTaskBelongsToItsPrincipal(t *testing.T) {
	t.Parallel()
	for _, era := range []session.Era{session.EraLegacy, session.EraModern} {
		t.Run(string(era), func(t *testing.T) {
			t.Parallel()
			server, net := taskServer(t, era)
			opts := Options{Dial: net.Dial, Key: []byte("a key that survives")}
			o := newOutside(t, opts, sessiontest.Entry("docs"))
			alice, bob := o.as(era, "alice"), o.as(era, "bob")
			begun, err := o.do(alice, "tools/call", `{"name":"slow","task":{}}`, tasksCapability)
			if era == session.EraLegacy {
				begun = fields(begun["task"])
			}
			id := taskID(encode(begun))
			if err != nil || id == "" || len(id) > 200 || strings.Contains(id, "t1") {
				t.Fatalf("%s, %v", encode(begun), err)
			}
			methods := []string{"tasks/get", "tasks/cancel"}
			if era == session.EraLegacy {
				methods = append(methods, "tasks/result")
			}
			check := func(when string, o *outside, alice, bob *session.Session) {
				t.Helper()
				before := o.asked(server)
				for _, method := range methods {
					_, other := o.do(bob, method, `{"taskId":"`+id+`"}`, tasksCapability)
					_, unknown := o.do(bob, method, `{"taskId":"mcptrack-task-AAAA"}`, tasksCapability)
					if other == nil || unknown == nil || other.Error() != unknown.Error() {
						t.Errorf("%s: %s of another client: %v, of an unknown task: %v", when, method, other, unknown)
					}
					for _, forged := range []string{"mcptrack://server/docs/t1", "t1", id[:len(id)-1], id + "A", taskIDs{server: "docs", alias: "docs"}.export("t1")} {
						if _, err := o.do(bob, method, `{"taskId":"`+forged+`"}`, tasksCapability); err == nil || err.Error() != unknown.Error() {
							t.Errorf("%s: %s of %s: %v", when, method, forged, err)
						}
					}
				}
				if n := o.asked(server); n != before {
					t.Errorf("%s: the server got %d requests", when, n-before)
				}
				for _, method := range methods {
					got, err := o.do(alice, method, `{"taskId":"`+id+`"}`, tasksCapability)
					if err != nil || !strings.Contains(string(encode(got)), id) {
						t.Errorf("%s: %s of alice: %s, %v", when, method, encode(got), err)
					}
				}
			}
			list := func(c *session.Session) string {
				got, err := o.do(c, "tasks/list", `{}`, tasksCapability)
				if era == session.EraModern {
					return ""
				}
				if err != nil {
					t.Error(err)
				}
				return string(got["tasks"])
			}
			check("in the beginning", o, alice, bob)
			r := &mcpserver.Request{Principal: "bob"}
			for i := range maxTasks + 50 {
				o.gateway.tasks.add(target{"docs", fmt.Sprint("b", i)}, r, nil, nil)
			}
			check("after many tasks of bob", o, alice, bob)
			if all := list(alice); era == session.EraLegacy && (!strings.Contains(all, id) || strings.Count(all, "taskId") != 1) {
				t.Errorf("alice lists %s", all)
			}
			if all := list(bob); strings.Contains(all, "taskId") {
				t.Errorf("bob lists %s", all)
			}
			o = newOutside(t, opts, sessiontest.Entry("docs"))
			alice, bob = o.as(era, "alice"), o.as(era, "bob")
			check("after a restart", o, alice, bob)
			if all := list(alice); era == session.EraLegacy && !strings.Contains(all, id) {
				t.Errorf("after a restart alice lists %s", all)
			}
			if all := list(bob); strings.Contains(all, "taskId") {
				t.Errorf("after a restart bob lists %s", all)
			}
			o = newOutside(t, Options{Dial: net.Dial}, sessiontest.Entry("docs"))
			if _, err := o.do(o.as(era, "alice"), "tasks/get", `{"taskId":"`+id+`"}`, tasksCapability); err == nil {
				t.Error("an id is valid under another key")
			}
		})
	}
}

// The tasks of one principal never displace others'; its own oldest tasks are dropped.
func TestTasksOfAPrincipalAreBounded(t *testing.T) {
	t.Parallel()
	g := &Gateway{}
	add := func(principal string, n int) {
		for i := range n {
			g.tasks.add(target{"a", fmt.Sprint(principal, i)}, &mcpserver.Request{Principal: principal}, nil, nil)
		}
	}
	remembers := func(principal string, i int) bool {
		return g.tasks.began(target{"a", fmt.Sprint(principal, i)}, &mcpserver.Request{Principal: principal}, nil)
	}
	add("bob", 1)
	add("alice", maxTasks+50)
	add("carol", maxTasks/3+1)
	if !remembers("bob", 0) || remembers("alice", 49) || !remembers("alice", maxTasks+49) || remembers("carol", 0) || !remembers("carol", 1) {
		t.Error("the dropped tasks are not the oldest tasks of the principal that exceeded the limit")
	}
	if len(g.tasks.byID) != len(g.tasks.order) || len(g.tasks.byID) != len(g.tasks.shared) || len(g.tasks.byID) != g.tasks.room.All() {
		t.Errorf("%d tasks, %d in order, %d shared, %d counted", len(g.tasks.byID), len(g.tasks.order), len(g.tasks.shared), g.tasks.room.All())
	}
}

// A server that reuses an id for another client has dropped the former task: the former owner
// cannot reach the new task.
func TestReusedTaskID(t *testing.T) {
	t.Parallel()
	g := &Gateway{}
	id, alice, bob := target{"a", "1"}, &mcpserver.Request{Principal: "alice"}, &mcpserver.Request{Principal: "bob"}
	g.tasks.add(id, alice, nil, nil)
	g.tasks.add(id, bob, nil, nil)
	if _, ok := g.tasks.find(id, alice); ok || g.tasks.began(id, alice, nil) {
		t.Error("alice reaches the task of bob")
	}
	mine := &ownSession{}
	g.tasks.add(id, alice, mine, nil)
	if o, ok := g.tasks.find(id, alice); !ok || o != mine || g.tasks.began(id, alice, nil) || !g.tasks.began(id, alice, mine) {
		t.Error("alice does not reach the task in her own session, or lists bob's task as hers")
	}
	if o, ok := g.tasks.find(id, bob); !ok || o != nil {
		t.Error("bob does not reach his")
	}
	g.tasks.forget(mine)
	if _, ok := g.tasks.find(id, alice); ok {
		t.Error("after the end of her session alice reaches the task of bob")
	}
}

// Ids are of limited length, and never ambiguous.
func TestTaskIDs(t *testing.T) {
	t.Parallel()
	n := taskIDs{[]byte("key"), "alice", "a", "a"}
	for _, id := range []string{"1", `"\u0000/`, strings.Repeat("é", maxTaskID/2)} {
		exported := n.export(id)
		if got, ok := n.read(exported); got != id || !ok {
			t.Errorf("%q, %v", got, ok)
		}
		for _, other := range []taskIDs{{[]byte("other"), "alice", "a", "a"}, {n.key, "bob", "a", "a"}, {n.key, "alice", "b", "b"}, {n.key, "alice", "b", "a"}} {
			if _, ok := other.read(exported); ok {
				t.Errorf("%v reads it", other)
			}
		}
	}
	long := n.export(strings.Repeat("x", maxTaskID+1))
	if _, ok := n.read(long); ok || len(long) > 64 || long == n.export(strings.Repeat("x", maxTaskID+2)) {
		t.Errorf("too long: %s", long)
	}
	if len(n.export(strings.Repeat("\x01", maxTaskID))) > 10*maxTaskID {
		t.Error("an id has no bound")
	}
}

// A client knows a task of its own session under one id, including in notifications.
func TestTaskIDsInClientSession(t *testing.T) {
	t.Parallel()
	ids := taskIDs{[]byte("key"), "alice", "docs", "docs"}
	id := ids.export("t1")
	if got := string(ids.status(json.RawMessage(`{"taskId":"t1"}`))); got != `{"taskId":"`+id+`"}` {
		t.Error(got)
	}
	const related = `{"taskId":"t1","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1"}}}`
	if got := string(ids.related(json.RawMessage(related))); got != `{"taskId":"t1","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"`+id+`"}}}` {
		t.Error(got)
	}
}
