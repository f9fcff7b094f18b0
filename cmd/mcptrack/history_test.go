//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

// runFor runs mcptrack and returns its output; the exit status must be the one given.
func runFor(t *testing.T, status int, args ...string) (stdout, stderr string) {
	t.Helper()
	cmd := mcptrackCommand(t.Context(), args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != status {
		t.Fatalf("%q ended with %d, want %d:\n%s%s", args, got, status, out.String(), errs.String())
	}
	return out.String(), errs.String()
}

const clock = "vault://note/clock.md"

// demoHistory waits for versions of a resource of the demo. The function that it returns
// checks that history and diff have them from a source, which flags name.
func demoHistory(t *testing.T, s *serving) (check func(source ...string)) {
	t.Helper()
	const uri = clock
	tail := func(args ...string) (ids []string) {
		t.Helper()
		out, _ := runFor(t, 0, append([]string{"tail", s.url, "--since", "1h", "--type", "resource.updated", "--timeout", "2m"}, args...)...)
		for line := range strings.Lines(out) {
			var e struct{ ID, Type, ResourceURI string }
			if err := json.Unmarshal([]byte(line), &e); err != nil || e.Type != "resource.updated" {
				t.Fatalf("%q: %v", line, err)
			}
			if e.ResourceURI == uri {
				ids = append(ids, e.ID)
			}
		}
		return ids
	}
	var told []string
	for n := 3; len(told) < 2; n++ {
		told = tail("--count", strconv.Itoa(n))
	}
	return func(source ...string) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
			out, _ := runFor(t, 0, append([]string{"history", "demo", uri, "--json"}, source...)...)
			var versions []struct {
				ID   string
				Text bool
			}
			if err := json.Unmarshal([]byte(out), &versions); err != nil {
				t.Fatal(err)
			}
			known := map[string]bool{}
			for _, v := range versions {
				known[v.ID] = v.Text
			}
			if known[told[0]] && known[told[1]] && known[""] { // "": before the first change
				break
			}
			if time.Now().After(deadline) { // on a cluster events do not wait for texts
				t.Fatalf("%q: not all versions of %q have texts: %s", source, told, out)
			}
		}
		_, first, _ := strings.Cut(told[0], "-")
		if out, _ := runFor(t, 0, append([]string{"diff", "demo", uri, first, told[1]}, source...)...); !strings.Contains(out, "\n-- tick: ") || !strings.Contains(out, "\n+- tick: ") {
			t.Errorf("%q: the difference is %q", source, out)
		}
		if out, errs := runFor(t, 0, append([]string{"diff", "demo", uri, first, told[0]}, source...)...); out != "" || !strings.Contains(errs, "same text") {
			t.Errorf("%q: a version compared with itself: %q, %q", source, out, errs)
		}
		if _, errs := runFor(t, 1, append([]string{"diff", "demo", uri, "999999"}, source...)...); !strings.Contains(errs, "mcptrack history lists") {
			t.Errorf("%q: an unknown version: %q", source, errs)
		}
		if _, errs := runFor(t, 1, append([]string{"history", "demo", uri + "x"}, source...)...); !strings.Contains(errs, "no change of") {
			t.Errorf("%q: an unknown resource: %q", source, errs)
		}
	}
}

// TestHistoryOutlivesServeSSE: versions, differences and the feed are there from the
// running process, beside it, and after it was killed.
func TestHistoryOutlivesServeSSE(t *testing.T) {
	t.Parallel()
	s, dir := demoServing(t)
	check := demoHistory(t, s)
	check("--data-dir", dir)
	check("--url", s.url)
	s.stop(syscall.SIGKILL)
	check("--data-dir", dir)
	// In a file every event has its text.
	if out, _ := runFor(t, 0, "diff", "demo", clock, "--data-dir", dir); !strings.Contains(out, "\n-- tick: ") || !strings.Contains(out, "\n+- tick: ") {
		t.Errorf("the last difference is %q", out)
	}
	runFor(t, 4, "tail", s.url)
	runFor(t, 4, "history", "demo", clock, "--url", s.url)

	s = serveBeside(t, "--demo", "--data-dir", dir, "--no-content") // reads the log of the other
	if _, errs := runFor(t, 1, "diff", "demo", clock, "--url", s.url); !strings.Contains(errs, "is not stored") {
		t.Errorf("texts are there though they are turned off: %q", errs)
	}
}

// TestHistoryOnACluster: with NATS, versions and their texts are on the cluster. They are there
// for every process, also after the one that stored them and a node were killed.
func TestHistoryOnACluster(t *testing.T) {
	t.Parallel()
	nodes := journaltest.StartCluster(t)
	cluster := nodes.URL()
	file := filepath.Join(t.TempDir(), "mcp-servers.json")
	save(t, file, config(`"demo": `+demoEntry(t, t.Name(), `, "trackResources": true`)))
	s := serveBeside(t, "--config", file, "--nats", cluster)
	check := demoHistory(t, s)
	check("--nats", cluster)
	s.stop(syscall.SIGKILL)
	nodes.Kill(0)
	replica := serveBeside(t, "--nats", cluster, "--follow")
	check("--url", replica.url)
}
