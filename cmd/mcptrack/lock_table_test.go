//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	coreconfig "github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/lock/locktest"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// TestLockTableOfTheProgram makes all changes of package locktest with servers of all transports and eras,
// for lock, verify, approve and a gateway as they are released. TestLockTable of core/gateway makes them
// one after the other.
func TestLockTableOfTheProgram(t *testing.T) {
	dir := t.TempDir()
	file, changed := filepath.Join(dir, "mcp-servers.json"), filepath.Join(dir, "changed")
	var fakes []*sessiontest.Fake
	serve := func(legacy, sse bool) string {
		fake := sessiontest.New()
		fake.Legacy, fake.Modern = legacy, !legacy
		locktest.Offer(fake, false)
		fakes = append(fakes, fake)
		handler := httptest.NewServer(fake)
		if sse {
			handler = httptest.NewServer(fake.SSE())
		}
		t.Cleanup(func() {
			fake.Disconnect()
			handler.CloseClientConnections()
			handler.Close()
		})
		return handler.URL + "/mcp"
	}
	const track = `"trackTools": true, "trackPrompts": true, "trackResources": true`
	save(t, file, fmt.Sprintf(`{"mcpServers": {
		"http-legacy": {"type": "http", "url": %[1]q, %[5]s}, "http-modern": {"type": "http", "url": %[2]q, %[5]s}, "sse-legacy": {"type": "sse", "url": %[3]q, %[5]s},
		"stdio-legacy": {"command": "changed-server", "args": ["legacy", %[4]q], %[5]s}, "stdio-modern": {"command": "changed-server", "args": ["modern", %[4]q], %[5]s}
	}}`, serve(true, false), serve(false, false), serve(true, true), changed, track))
	servers := []string{"http-legacy", "http-modern", "sse-legacy", "stdio-legacy", "stdio-modern"}
	set := func(is bool) {
		if is {
			save(t, changed, "")
		} else if err := os.Remove(changed); err != nil {
			t.Fatal(err)
		}
		for _, fake := range fakes {
			locktest.Offer(fake, is)
		}
	}
	runFor(t, 0, "lock", "--config", file)
	url := startGateway(t, "--config", file)
	client, err := session.Dial(t.Context(), coreconfig.Server{ID: "gateway", Transport: coreconfig.TransportHTTP, URL: coreconfig.NewSecret(url)}, session.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	// refused returns what the gateway refuses of a change: nil, or the error.
	refused := func(server string, c locktest.Change) error {
		switch c.Section {
		case lock.SectionTools, lock.SectionPrompts:
			c.Key = server + "_" + c.Key
		default:
			c.Key = "mcptrack://server/" + server + "/" + c.Key
		}
		method, params := c.Call()
		var p map[string]json.RawMessage
		if err := json.Unmarshal([]byte(params), &p); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := client.Do(ctx, session.Request{Method: method, Params: p})
		return err
	}
	held := func(c locktest.Change) bool {
		return lock.Policy(nil).Action(lock.Drift{Classes: c.Classes}) == lock.Hold
	}
	each := func(f func(server string, c locktest.Change)) {
		for _, server := range servers {
			for _, c := range locktest.Changes() {
				f(server, c)
			}
		}
	}
	// settled waits until the gateway refuses all changes that it holds, or serves what is offered.
	settled := func(what string, hold bool, offered func(locktest.Change) json.RawMessage) {
		t.Helper()
		for _, server := range servers {
			for _, c := range locktest.Changes() {
				if held(c) {
					waitFor(t, what+": "+server+" "+c.Key, func() bool {
						err := refused(server, c)
						if !hold {
							return err == nil || offered(c) == nil
						}
						return err != nil && strings.Contains(err.Error(), "run mcptrack review "+server)
					})
				}
			}
		}
	}
	cells := 0
	set(true)
	out, _ := runFor(t, 7, "verify", "--config", file, "--json")
	var verified struct {
		Items []struct {
			ServerID, Item string
			Classes        []string
		}
	}
	if err := json.Unmarshal([]byte(out), &verified); err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	for _, it := range verified.Items {
		for _, name := range it.Classes {
			class, _ := lock.FindClass(name)
			found[it.ServerID+":"+it.Item] = append(found[it.ServerID+":"+it.Item], class.ID)
		}
	}
	each(func(server string, c locktest.Change) {
		cells++
		name := server + ":" + lock.Name(c.Section, c.Key)
		if slices.Sort(found[name]); !slices.Equal(found[name], c.Classes) {
			t.Errorf("%s is classified as %q, want %q", name, found[name], c.Classes)
		}
	})
	if len(verified.Items) != cells {
		t.Errorf("%d changes are found, want %d", len(verified.Items), cells)
	}
	old, new := func(c locktest.Change) json.RawMessage { return c.Old }, func(c locktest.Change) json.RawMessage { return c.New }
	settled("held", true, nil)
	each(func(server string, c locktest.Change) {
		if err := refused(server, c); held(c) && strings.Contains(err.Error(), locktest.Evil) {
			t.Errorf("%s %s: %v", server, c.Key, err)
		}
	})
	set(false)
	waitFor(t, "verify finds nothing", func() bool { // the programs look at the file every 50 ms
		return mcptrackCommand(t.Context(), "verify", "--config", file).Run() == nil
	})
	settled("taken back", false, old)
	set(true)
	settled("held again", true, nil)
	runFor(t, 0, append([]string{"approve", "--config", file}, servers...)...)
	settled("approved", false, new)
	runFor(t, 0, "verify", "--config", file)
	t.Logf("%d cells", cells)
}
