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

// A saved config applies immediately: a disabled server is silent, unchanged servers keep their process, and an
// invalid config changes nothing.
func TestWatchFollowsTheConfig(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mcp-servers.json")
	mark := func(id string) string { return markOf(t) + "-" + id }
	on := `, "trackResources": true`
	keep, other := `"keep": `+demoEntry(t, mark("keep"), on), demoEntry(t, mark("other"), on)
	save(t, file, config(keep, `"other": `+other))
	r := runBeside(t, "watch", "--json", file)
	r.await(0, "keep is Ready", inState("keep", "Ready"))
	_, n := r.await(0, "other is Ready", inState("other", "Ready"))
	process := marked(t, mark("keep"))

	saved := time.Now()
	save(t, file, config(keep, `"other": `+strings.Replace(other, `"trackResources": true`, `"trackResources": false`, 1)))
	e, n := r.await(n, "config.reloaded", ofType("config.reloaded"))
	if fmt.Sprint(e.Changed) != "[other]" || len(e.Added)+len(e.Removed) > 0 {
		t.Errorf("%+v", e)
	}
	t.Logf("reloaded %v after the save", e.at.Sub(saved))
	gone, n := r.await(n, "other is not followed", inState("other", "Stopping"))
	for range 2 { // a second of the other server's life
		r.await(n, "an update of keep", func(e eventLine) bool { return e.ServerID == "keep" && e.Type == "resource.updated" })
	}
	for _, e := range r.seen() {
		if e.ServerID == "other" && e.at.After(gone.at) && e.Type != "server.state" {
			t.Errorf("an event of a server that is switched off: %+v", e)
		}
	}

	save(t, file, config(keep, `"other": {"trackResources": "yes"}`))
	e, n = r.await(n, "config.rejected", ofType("config.rejected"))
	if len(e.Problems) == 0 || e.Problems[0].Line == 0 {
		t.Errorf("no place in %+v", e)
	}
	saved = time.Now()
	save(t, file, config(keep, `"other": `+other))
	ready, n := r.await(n, "other is Ready again", inState("other", "Ready"))
	t.Logf("followed %v after the save", ready.at.Sub(saved))
	r.signal(syscall.SIGHUP)
	r.await(n, "config.reloaded by SIGHUP", ofType("config.reloaded"))
	if now := marked(t, mark("keep")); !slices.Equal(process, now) || len(now) != 1 {
		t.Errorf("the unchanged server was process %v, is %v", process, now)
	}
	r.signal(syscall.SIGTERM)
	r.ends(time.Minute, 0)
	if left := append(marked(t, mark("keep")), marked(t, mark("other"))...); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

// A killed server is restarted.
func TestKilledServerIsRestarted(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mcp-servers.json")
	save(t, file, config(`"demo": `+demoEntry(t, markOf(t), `, "trackResources": true`)))
	r := runBeside(t, "watch", "--json", file)
	_, n := r.await(0, "demo is Ready", inState("demo", "Ready"))
	for range 3 {
		for _, pid := range marked(t, markOf(t)) {
			kill(t, pid)
		}
		var down, up eventLine
		down, n = r.await(n, "the exit is reported", inState("demo", "Backoff"))
		if !strings.Contains(down.Reason, "disconnected") {
			t.Errorf("%+v", down)
		}
		up, n = r.await(n, "it is Ready again", inState("demo", "Ready"))
		t.Logf("back after %v", up.at.Sub(down.at))
	}
	r.signal(syscall.SIGTERM)
	r.ends(time.Minute, 0)
}

// The second Ctrl-C kills mcptrack immediately, and also a server that ignores SIGTERM.
func TestSecondInterruptKills(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mcp-servers.json")
	save(t, file, config(fmt.Sprintf(`"stubborn": {"command": "sh", "args": ["-c", "trap '' TERM; setsid sleep 600 & exec sleep 600"], "env": {%q: %q}, "trackResources": true}`, peerMark, markOf(t))))
	r := runBeside(t, "watch", "--json", file)
	r.await(0, "it connects", inState("stubborn", "Connecting"))
	began := time.Now()
	for len(marked(t, markOf(t))) < 2 && time.Since(began) < 10*time.Second {
		<-time.After(10 * time.Millisecond)
	}
	for over := false; !over; { // two at a time would be one; to stop this server takes 3 s
		_ = r.cmd.Process.Signal(syscall.SIGINT) // it may be gone by now
		select {
		case <-r.exited:
			over = true
		case <-time.After(100 * time.Millisecond):
		}
	}
	if status, ok := r.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != syscall.SIGINT {
		t.Errorf("it ended with %v", r.cmd.ProcessState)
	}
	for began := time.Now(); len(marked(t, markOf(t))) > 0; <-time.After(10 * time.Millisecond) {
		if time.Since(began) > 5*time.Second {
			t.Fatalf("these live on: %v", marked(t, markOf(t)))
		}
	}
}

// The next mcptrack kills the processes that a killed one left behind.
func TestOrphansAreKilled(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mcp-servers.json")
	stubborn := fmt.Sprintf(`"stubborn": {"command": "sh", "args": ["-c", "trap '' TERM; setsid sleep 600 & exec sleep 600"], "env": {%q: %q}, "trackResources": true}`, peerMark, markOf(t))
	save(t, file, config(stubborn))
	r := runBeside(t, "watch", "--json", file)
	r.await(0, "it connects", inState("stubborn", "Connecting"))
	deadline := time.Now().Add(time.Minute)
	for len(marked(t, markOf(t))) < 2 && time.Now().Before(deadline) {
		<-time.After(10 * time.Millisecond)
	}
	r.signal(syscall.SIGKILL)
	<-r.exited
	if left := marked(t, markOf(t)); len(left) < 2 {
		t.Fatalf("only %d processes were left behind: nothing to show", len(left))
	}
	save(t, file, config(`"demo": `+demoEntry(t, markOf(t)+"-next", `, "trackResources": true`)))
	next := runBeside(t, "watch", "--json", file)
	next.await(0, "the next is Ready", inState("demo", "Ready"))
	for deadline := time.Now().Add(time.Minute); len(marked(t, markOf(t))) > 0; <-time.After(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("processes %v were not swept", marked(t, markOf(t)))
		}
	}
	next.signal(syscall.SIGTERM)
	next.ends(time.Minute, 0)
}

// With --no-exec-on-reload, new commands start only after SIGHUP.
func TestNoExecOnReload(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mcp-servers.json")
	first := `"first": ` + demoEntry(t, markOf(t)+"-first", `, "trackResources": true`)
	second := `"second": ` + demoEntry(t, markOf(t)+"-second", `, "trackResources": true`)
	save(t, file, config(first))
	r := runBeside(t, "watch", "--json", "--no-exec-on-reload", file)
	_, n := r.await(0, "first is Ready", inState("first", "Ready"))
	save(t, file, config(first, second))
	_, n = r.await(n, "config.reloaded", ofType("config.reloaded"))
	_, n = r.await(n, "an update of first", ofType("resource.updated"))
	if left := marked(t, markOf(t)+"-second"); len(left) > 0 {
		t.Errorf("the new command runs: %v", left)
	}
	r.signal(syscall.SIGHUP)
	r.await(n, "second is Ready", inState("second", "Ready"))
	r.signal(syscall.SIGTERM)
	r.ends(time.Minute, 0)
}

// watch gets changes from the events of a gateway, also after the gateway and then its server were
// killed.
func TestWatchFollowsTheEventsOfAGateway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	behind := filepath.Join(dir, "behind.json")
	save(t, behind, config(`"demo": `+demoEntry(t, markOf(t)+"-demo", `, "trackResources": true`)))
	up := demoEntry(t, markOf(t)+"-up", `, "trackResources": true, "mode": "poll", "pollInterval": "10m"`)
	up = strings.Replace(up, `["demo-server", "--interval", "200ms"]`, fmt.Sprintf(`["gateway", "--stdio", "--config", %q, "--events", "--data-dir", %q, "--durability", "interval"]`, behind, filepath.Join(dir, "log")), 1)
	file := filepath.Join(dir, "mcp-servers.json")
	save(t, file, config(`"up": `+up))
	r := runBeside(t, "watch", "--json", file)
	byEvent := func(e eventLine) bool {
		return e.Type == "resource.updated" && e.ServerID == "up" && e.Cause == "event"
	}
	_, n := r.await(0, "a change by an event", byEvent)
	for _, pid := range marked(t, markOf(t)+"-up") {
		kill(t, pid)
	}
	_, n = r.await(n, "the gateway is away", inState("up", "Backoff"))
	_, n = r.await(n, "it is back", inState("up", "Ready"))
	r.await(n, "a change by an event after that", byEvent)

	before := marked(t, markOf(t)+"-demo")
	for _, pid := range before {
		kill(t, pid)
	}
	for over := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if now := marked(t, markOf(t)+"-demo"); len(now) > 0 && !slices.ContainsFunc(now, func(pid string) bool { return slices.Contains(before, pid) }) {
			break
		}
		if time.Now().After(over) {
			t.Fatal("the server behind the gateway is not started again")
		}
	}
	r.await(len(r.seen()), "a change of the server that was started again", byEvent)
	for _, e := range r.seen() {
		if e.Type == "resource.updated" && e.Cause == "notify" {
			t.Errorf("an update from a notification instead of an event: %+v", e)
		}
	}
	r.signal(syscall.SIGINT)
	r.ends(30*time.Second, 0)
}
