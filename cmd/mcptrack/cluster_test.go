//go:build linux

package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

// follows returns the ids of the servers that are ready in the process.
func (s *serving) follows() (ids string) { return s.ready(fmt.Sprint(":", s.cmd.Process.Pid)) }

// ready returns the ids of the servers that a process says are ready, and followed by
// the process whose name ends with by.
func (s *serving) ready(by string) (ids string) {
	body, _ := ask(s.T, s.url+"/api/servers", nil)
	for _, id := range []string{"a", "b"} {
		if _, rest, ok := strings.Cut(body, `{"id":"`+id+`"`); ok {
			if rest, _, _ = strings.Cut(rest, "}"); strings.Contains(rest, `"state":"Ready"`) && strings.Contains(rest, by+`"`) {
				ids += id
			}
		}
	}
	return ids
}

// Two processes on one cluster: every server is followed by one of them, both serve
// one feed with the same ids, and when one is killed the other takes its servers
// over within 10 s, without an event lost or an id used twice.
func TestRealClusterSharesServers(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mcp-servers.json")
	marks := []string{markOf(t) + "-a", markOf(t) + "-b"}
	on := `, "trackResources": true`
	save(t, file, config(`"a": `+demoEntry(t, marks[0], on), `"b": `+demoEntry(t, marks[1], on)))
	cluster := journaltest.Store(t)
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
	until("server followed by either process", func() bool { return len(nodes[0].follows())+len(nodes[1].follows()) == 2 })
	for _, mark := range marks {
		until("process of each server", func() bool {
			n := len(marked(t, mark))
			if n > 1 {
				t.Errorf("%d processes of one server", n)
			}
			return n > 0
		})
	}
	// Both publish the same events under the same ids.
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
	if took > 40*time.Second {
		t.Errorf("taken over after %v", took)
	}
	after := lives.events(10, last)
	wantNext(t, append([]string{last}, after...)...)
	if same := replica.events(10, last); !slices.Equal(same, after) {
		t.Errorf("the follower serves %v, want %v", same, after)
	}
	until("server missing on the process that only serves", func() bool { return replica.ready("") == "ab" })
	if ids := replica.follows(); ids != "" {
		t.Errorf("one that only serves follows %q", ids)
	}
}

// NATS restarts and has lost the leases: the servers are followed again soon.
// Until then /readyz and status say that the process waits for leases.
func TestRealClusterFollowsServersAfterNATSRestarts(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mcp-servers.json")
	on := `, "trackResources": true`
	save(t, file, config(`"a": `+demoEntry(t, markOf(t)+"-a", on), `"b": `+demoEntry(t, markOf(t)+"-b", on)))
	cluster := journaltest.Start(t, t.TempDir())
	node := serveBeside(t, "--config", file, "--nats", cluster.URL)
	until := func(within time.Duration, what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(within); !ok(); <-time.After(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("not within %v: %s", within, what)
			}
		}
	}
	readyz := func() string {
		body, code := ask(t, node.url+"/readyz", nil)
		return fmt.Sprint(code, " ", body)
	}
	until(time.Minute, "both servers are followed", func() bool { return node.follows() == "ab" && strings.HasPrefix(readyz(), "200") })
	cluster.Stop()
	until(time.Minute, "it waits for leases", func() bool {
		return node.follows() == "" && strings.HasPrefix(readyz(), "503") && strings.Contains(readyz(), "waiting for leases")
	})
	out, err := mcptrackCommand(t.Context(), "status", node.url, "-o", "table").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "waiting for leases") {
		t.Errorf("status: %v\n%s", err, out)
	}
	cluster.Start()
	until(time.Minute, "both servers are followed again", func() bool { return node.follows() == "ab" && strings.HasPrefix(readyz(), "200") })
}
