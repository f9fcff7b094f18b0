//go:build linux

package main

import (
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// natsServer is a NATS server with JetStream on a free loopback port.
func natsServer(t *testing.T) (url string) {
	t.Helper()
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() {
		ns.Shutdown()
		ns.WaitForShutdown()
	})
	if !ns.ReadyForConnections(10 * time.Second) {
		t.Fatal("the NATS server is not ready")
	}
	return ns.ClientURL()
}

// follows are the ids of the servers that the process has ready.
func (s *serving) follows() (ids string) {
	body, _ := ask(s.T, s.url+"/api/servers", nil)
	for _, id := range []string{"a", "b"} {
		if _, rest, ok := strings.Cut(body, `{"id":"`+id+`"`); ok {
			if rest, _, _ = strings.Cut(rest, "}"); strings.Contains(rest, `"state":"Ready"`) {
				ids += id
			}
		}
	}
	return ids
}

// Two processes on one cluster: every server is followed by one of them, both serve
// one feed with the same ids, and when one is killed the other takes its servers
// over within 10 s, without an event lost or an id used twice.
func TestServersAreShared(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mcp-servers.json")
	marks := []string{t.Name() + "-a", t.Name() + "-b"}
	on := `, "trackResources": true`
	save(t, file, config(`"a": `+demoEntry(t, marks[0], on), `"b": `+demoEntry(t, marks[1], on)))
	cluster := natsServer(t)
	args := []string{"--config", file, "--nats", cluster}
	nodes := []*serving{serveBeside(t, args...), serveBeside(t, args...)}
	replica := serveBeside(t, "--nats", cluster, "--follow")
	until := func(what string, ok func() bool) time.Duration {
		t.Helper()
		began := time.Now()
		for !ok() {
			if time.Since(began) > 20*time.Second {
				t.Fatalf("no %s: %q and %q", what, nodes[0].follows(), nodes[1].follows())
			}
			<-time.After(50 * time.Millisecond)
		}
		return time.Since(began)
	}
	until("server followed by somebody", func() bool { return len(nodes[0].follows())+len(nodes[1].follows()) == 2 })
	for _, mark := range marks {
		if n := len(marked(t, mark)); n != 1 {
			t.Errorf("%d processes of one server", n)
		}
	}
	// Both tell the same events under the same ids.
	first := nodes[0].events(3, "")
	again := nodes[1].events(3, first[0])
	wantNext(t, append(first[:1:1], again...)...)

	dies, lives := nodes[0], nodes[1]
	if lives.follows() == "ab" {
		dies, lives = lives, dies
	}
	last := again[2]
	dies.stop(syscall.SIGKILL)
	nodes = []*serving{lives, lives}
	took := until("take-over", func() bool { return lives.follows() == "ab" })
	t.Logf("taken over after %v", took.Round(time.Millisecond))
	if took > 10*time.Second {
		t.Errorf("taken over after %v", took)
	}
	after := lives.events(10, last)
	wantNext(t, append([]string{last}, after...)...)
	if same := replica.events(10, last); !slices.Equal(same, after) {
		t.Errorf("one that only serves tells %v, not %v", same, after)
	}
	if ids := replica.follows(); ids != "" {
		t.Errorf("one that only serves follows %q", ids)
	}
}
