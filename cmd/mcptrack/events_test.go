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
)

// Changes arrive by the events of a gateway, and again after the gateway was killed, and the
// server behind it.
func TestWatchFollowsTheEventsOfAGateway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	behind := filepath.Join(dir, "behind.json")
	save(t, behind, config(`"demo": `+demoEntry(t, t.Name()+"-demo", `, "trackResources": true`)))
	up := demoEntry(t, t.Name()+"-up", `, "trackResources": true, "mode": "poll", "pollInterval": "10m"`)
	up = strings.Replace(up, `["demo-server", "--interval", "200ms"]`, fmt.Sprintf(`["gateway", "--stdio", "--config", %q, "--events", "--data-dir", %q, "--durability", "os"]`, behind, filepath.Join(dir, "log")), 1)
	file := filepath.Join(dir, "mcp-servers.json")
	save(t, file, config(`"up": `+up))
	r := runBeside(t, "watch", "--json", file)
	byEvent := func(e eventLine) bool {
		return e.Type == "resource.updated" && e.ServerID == "up" && e.Cause == "event"
	}
	_, n := r.await(0, "a change by an event", byEvent)
	for _, pid := range marked(t, t.Name()+"-up") {
		kill(t, pid)
	}
	_, n = r.await(n, "the gateway is away", inState("up", "Backoff"))
	_, n = r.await(n, "it is back", inState("up", "Ready"))
	r.await(n, "a change by an event after that", byEvent)

	before := marked(t, t.Name()+"-demo")
	for _, pid := range before {
		kill(t, pid)
	}
	for over := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if now := marked(t, t.Name()+"-demo"); len(now) > 0 && !slices.ContainsFunc(now, func(pid string) bool { return slices.Contains(before, pid) }) {
			break
		}
		if time.Now().After(over) {
			t.Fatal("the server behind the gateway is not started again")
		}
	}
	r.await(len(r.seen()), "a change of the server that was started again", byEvent)
	for _, e := range r.seen() {
		if e.Type == "resource.updated" && e.Cause == "notify" {
			t.Errorf("a notification was relied on: %+v", e)
		}
	}
	r.signal(syscall.SIGINT)
	r.ends(30*time.Second, 0)
}
