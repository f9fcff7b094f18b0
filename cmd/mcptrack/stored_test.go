//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// The data directory is deleted while serve-sse runs, and cannot be created again for some time: /readyz and
// status report it, and serve-sse continues with a new log as soon as it can. A watch on the directory prints
// the gap and continues, also after serve-sse has ended.
func TestDataDirectoryIsDeleted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	above, file := filepath.Join(dir, "above"), filepath.Join(dir, "mcp-servers.json")
	data := filepath.Join(above, "events")
	save(t, file, config(`"demo": `+demoEntry(t, markOf(t), `, "trackResources": true`)))
	s := serveBeside(t, "--config", file, "--data-dir", data)
	seen := s.events(3, "")
	watch := mcptrackCommand(t.Context(), "watch", "--json", "--data-dir", data, "--config", file, "--since", seen[0], "--type", "*")
	out, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = watch.Process.Kill()
		_ = watch.Wait() // killed
	}()
	lines := bufio.NewScanner(out)
	until := func(what string, found func(line string) bool) (last string) {
		t.Helper()
		for lines.Scan() {
			if found(lines.Text()) {
				return lines.Text()
			}
		}
		t.Fatalf("watch has ended without %s", what)
		return ""
	}
	epoch, _, _ := strings.Cut(seen[0], "-")
	until("an event of the log", func(line string) bool { return strings.HasPrefix(line, `{"id":"`+epoch) })

	if err := os.RemoveAll(above); err != nil {
		t.Fatal(err)
	}
	save(t, above, "in the way")
	waitFor(t, "it is not ready", func() bool {
		text, code := ask(t, s.url+"/readyz", nil)
		return code == http.StatusServiceUnavailable && strings.Contains(text, "cannot be stored")
	})
	status, err := mcptrackCommand(t.Context(), "status", s.url).CombinedOutput()
	if err != nil || !strings.Contains(string(status), "events cannot be stored") {
		t.Errorf("status: %v\n%s", err, status)
	}
	if err := os.Remove(above); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "it is ready again", func() bool { _, code := ask(t, s.url+"/readyz", nil); return code == http.StatusOK })
	until("the gap", func(line string) bool {
		return strings.Contains(line, `"type":"gap"`) && strings.Contains(line, `"reason":"epoch"`)
	})
	now := until("an event of the new log", func(line string) bool { return !strings.Contains(line, `"type":"gap"`) })
	if strings.HasPrefix(now, `{"id":"`+epoch) {
		t.Errorf("an event of the old log after the gap: %s", now)
	}
	s.stop(syscall.SIGTERM)
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit %d", code)
	}
	epoch, _, _ = strings.Cut(strings.TrimPrefix(now, `{"id":"`), "-")
	until("an event of its own", func(line string) bool {
		return strings.Contains(line, `"serverId":"demo"`) && !strings.HasPrefix(line, `{"id":"`+epoch)
	})
}

// storedState returns the resources and tools that exist according to the stored events.
func storedState(t *testing.T, place ...string) (resources, tools []string) {
	t.Helper()
	out, err := mcptrackCommand(t.Context(), append([]string{"replay"}, place...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	there, named := map[string]bool{"x://stays": true, "x://goes": true}, map[string]bool{"stays": true, "goes": true}
	for line := range strings.Lines(string(out)) {
		var e event.Event
		if err := e.UnmarshalJSON([]byte(line)); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		switch p := e.Payload.(type) {
		case event.ResourceAdded, event.ResourceUpdated:
			there[e.ResourceURI] = true
		case event.ResourceRemoved:
			delete(there, e.ResourceURI)
		case event.ListChanged:
			if p.List != catalog.Tools {
				continue
			}
			for _, name := range p.Added {
				named[name] = true
			}
			for _, name := range p.Removed {
				delete(named, name)
			}
		}
	}
	return slices.Sorted(maps.Keys(there)), slices.Sorted(maps.Keys(named))
}

// serve-sse is killed while it reports added and removed items, and the server reverts the change before
// serve-sse starts again. In the end the stored events describe the current state.
func TestChangesSurviveKills(t *testing.T) {
	t.Parallel()
	changesSurviveKills(t, "--data-dir", t.TempDir())
}

func TestRealChangesSurviveKillsOnNATS(t *testing.T) {
	t.Parallel()
	changesSurviveKills(t, "--nats", journaltest.Store(t))
}

func changesSurviveKills(t *testing.T, place ...string) {
	t.Helper()
	x := sessiontest.New()
	tool := func(name string) any {
		return map[string]any{"name": name, "inputSchema": map[string]any{"type": "object"}}
	}
	before := func() {
		x.SetQuietly("x://goes", "one")
		x.Remove("x://comes")
		x.SetList(catalog.Tools, tool("stays"), tool("goes"))
		x.NotifyListChanged(catalog.Tools)
	}
	x.SetQuietly("x://stays", "one")
	before()
	served := httptest.NewServer(x)
	defer served.Close()
	defer x.Disconnect()
	file := filepath.Join(t.TempDir(), "mcp-servers.json")
	save(t, file, config(fmt.Sprintf(`"x": {"url": %q, "trackResources": true, "trackTools": true}`, served.URL)))
	ready := func(s *serving) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; <-time.After(20 * time.Millisecond) {
			if body, _ := ask(t, s.url+"/api/servers", nil); strings.Contains(body, `"state":"Ready"`) {
				return
			}
			if time.Now().After(end) {
				t.Fatal("the server is not ready")
			}
		}
	}
	for round := range 4 {
		s := serveBeside(t, append([]string{"--config", file}, place...)...)
		ready(s)
		x.SetList(catalog.Tools, tool("stays"), tool("comes"))
		x.NotifyListChanged(catalog.Tools)
		x.Remove("x://goes")
		x.Set("x://comes", "one")
		killed := func() bool { // as soon as the first change is stored; the pause after it is random
			resources, tools := storedState(t, place...)
			return slices.Contains(resources, "x://comes") || !slices.Contains(resources, "x://goes") || !slices.Contains(tools, "goes")
		}
		for end := time.Now().Add(time.Minute); !killed(); {
			if time.Now().After(end) {
				t.Fatalf("round %d: no change is stored", round)
			}
		}
		<-time.After(rand.N(300 * time.Millisecond))
		s.stop(syscall.SIGKILL)
		before()
	}
	last := serveBeside(t, append([]string{"--config", file}, place...)...)
	ready(last)
	for end := time.Now().Add(time.Minute); ; <-time.After(100 * time.Millisecond) {
		resources, tools := storedState(t, place...)
		if slices.Equal(resources, []string{"x://goes", "x://stays"}) && slices.Equal(tools, []string{"goes", "stays"}) {
			return
		}
		if time.Now().After(end) {
			out, _ := mcptrackCommand(t.Context(), append([]string{"replay"}, place...)...).Output()
			t.Fatalf("stored: %q and %q, by\n%s", resources, tools, out)
		}
	}
}

// watch --since prints the stored events. While a serve-sse is running, watch follows its log and starts no
// server; without one it follows the servers itself.
func TestWatchSince(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data, file := filepath.Join(dir, "data"), filepath.Join(dir, "mcp-servers.json")
	save(t, file, config(`"demo": `+demoEntry(t, markOf(t), `, "trackResources": true`)))
	s := serveBeside(t, "--config", file, "--data-dir", data)
	seen := s.events(4, "")
	watch := func(args ...string) (ids []string) {
		t.Helper()
		cmd := mcptrackCommand(t.Context(), append([]string{"watch", "--json", "--data-dir", data, "--config", file, "--timeout", "5m"}, args...)...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("watch %q: %v\n%s", args, err, out)
		}
		for line := range strings.Lines(string(out)) {
			id, _, _ := strings.Cut(strings.TrimPrefix(line, `{"id":"`), `"`)
			ids = append(ids, id)
		}
		return ids
	}
	follows := watch("--since", seen[0], "--count", "6", "--type", "*")
	wantNext(t, append([]string{seen[0]}, follows...)...)
	if stored := watch("--since", seen[0], "--no-follow"); len(stored) < 6 || stored[0] != follows[0] {
		t.Errorf("--no-follow prints %q, and following printed %q", stored, follows)
	}
	s.stop(syscall.SIGTERM)
	epoch, _, _ := strings.Cut(seen[0], "-")
	stored := watch("--since", seen[0], "--no-follow")
	after := watch("--since", seen[0], "--type", "*", "--count", fmt.Sprint(len(stored)+5))
	if len(after) <= len(stored) || strings.HasPrefix(after[len(after)-1], epoch) || !strings.HasPrefix(after[0], epoch) {
		t.Errorf("%d events are stored, and watch without a serve-sse printed %d, from %s to %s", len(stored), len(after), after[0], after[len(after)-1])
	}
}

const clock = "vault://note/clock.md"

// demoHistory waits for two updates of a demo resource. check verifies that history and diff find them
// in a source, which is given by flags.
func demoHistory(t *testing.T, s *serving) (check func(source ...string)) {
	t.Helper()
	const uri = clock
	known := true // what it was before the first change
	tail := func(args ...string) (ids []string) {
		t.Helper()
		out, _ := runFor(t, 0, append([]string{"tail", s.url, "--since", "1h", "--type", "resource.updated", "--timeout", "2m"}, args...)...)
		for line := range strings.Lines(out) {
			var e struct {
				ID, Type, ResourceURI, PreviousDigest string
				Changed                               *bool
			}
			if err := json.Unmarshal([]byte(line), &e); err != nil || e.Type != "resource.updated" {
				t.Fatalf("%q: %v", line, err)
			}
			if e.ResourceURI == uri && (e.Changed == nil || *e.Changed) { // an announced update may change nothing
				known = known && (len(ids) > 0 || e.PreviousDigest != "")
				ids = append(ids, e.ID)
			}
		}
		return ids
	}
	var updates []string
	for n := 3; len(updates) < 2; n++ {
		updates = tail("--count", strconv.Itoa(n))
	}
	return func(source ...string) {
		t.Helper()
		for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
			out, _ := runFor(t, 0, append([]string{"history", "demo", uri, "--json", "--last", "500"}, source...)...)
			var versions []struct {
				ID, Timestamp string
				Text          bool
			}
			if err := json.Unmarshal([]byte(out), &versions); err != nil {
				t.Fatal(err)
			}
			texts := map[string]bool{}
			for _, v := range versions {
				texts[v.ID] = v.Text
			}
			if texts[updates[0]] && texts[updates[1]] && texts[""] == known { // "": before the first change
				if first, next := versions[len(versions)-1], versions[len(versions)-2]; known && (first.ID != "" || first.Timestamp == "" || first.Timestamp >= next.Timestamp) {
					t.Errorf("%q: the first version is not the one that was seen first: %s", source, out)
				}
				break
			}
			if time.Now().After(deadline) { // on a cluster events do not wait for texts
				t.Fatalf("%q: not all versions of %q have texts: %s", source, updates, out)
			}
		}
		_, first, _ := strings.Cut(updates[0], "-")
		if out, _ := runFor(t, 0, append([]string{"diff", "demo", uri, first, updates[1]}, source...)...); !strings.Contains(out, "\n-- tick: ") || !strings.Contains(out, "\n+- tick: ") {
			t.Errorf("%q: the difference is %q", source, out)
		}
		if out, errs := runFor(t, 0, append([]string{"diff", "demo", uri, first, updates[0]}, source...)...); out != "" || !strings.Contains(errs, "same text") {
			t.Errorf("%q: a version compared with itself: %q, %q", source, out, errs)
		}
		if _, errs := runFor(t, 1, append([]string{"diff", "demo", uri, "999999"}, source...)...); !strings.Contains(errs, "mcptrack history lists") {
			t.Errorf("%q: an unknown version: %q", source, errs)
		}
		if _, errs := runFor(t, 1, append([]string{"history", "demo", uri + "x"}, source...)...); !strings.Contains(errs, "no change to") {
			t.Errorf("%q: an unknown resource: %q", source, errs)
		}
	}
}

// TestHistoryOutlivesServeSSE: history and diff work through a running serve-sse, on its data directory
// and after it was killed.
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

	s = serveBeside(t, "--demo", "--data-dir", dir, "--keep-content", "0") // reads the log of the other
	waitFor(t, "a newest version without its text", func() bool {
		return mcptrackCommand(t.Context(), "diff", "demo", clock, "--url", s.url).Run() != nil
	})
	if _, errs := runFor(t, 1, "diff", "demo", clock, "--url", s.url); !strings.Contains(errs, "is not stored") {
		t.Errorf("--keep-content 0, but texts are available: %q", errs)
	}
}

// TestRealHistoryOnACluster: with NATS, versions and their texts are stored on the cluster. Every
// process can read them, also after the process that stored them and a node were killed.
func TestRealHistoryOnACluster(t *testing.T) {
	t.Parallel()
	nodes := journaltest.StartCluster(t)
	cluster := nodes.URL()
	file := filepath.Join(t.TempDir(), "mcp-servers.json")
	save(t, file, config(`"demo": `+demoEntry(t, markOf(t), `, "trackResources": true`)))
	s := serveBeside(t, "--config", file, "--nats", cluster)
	check := demoHistory(t, s)
	check("--nats", cluster)
	s.stop(syscall.SIGKILL)
	nodes.Kill(0)
	replica := serveBeside(t, "--nats", cluster, "--follow")
	check("--url", replica.url)
}
