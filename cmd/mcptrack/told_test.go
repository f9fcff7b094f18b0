//go:build linux

package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// toldBy returns what the stored events tell of resources and of the list of tools.
func toldBy(t *testing.T, place ...string) (resources, tools []string) {
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

// serve-sse is killed while it tells what left a server and what came, and all of that is undone
// before it is started again: in the end the events tell what there is.
func TestToldAcrossKills(t *testing.T) {
	t.Parallel()
	for name, place := range map[string][]string{
		"file": {"--data-dir", t.TempDir()},
		"nats": {"--nats", journaltest.Store(t)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
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
				killed := func() bool { // as soon as something is told, and then some time later
					resources, tools := toldBy(t, place...)
					return slices.Contains(resources, "x://comes") || !slices.Contains(resources, "x://goes") || !slices.Contains(tools, "goes")
				}
				for end := time.Now().Add(time.Minute); !killed(); {
					if time.Now().After(end) {
						t.Fatalf("round %d: nothing is told", round)
					}
				}
				<-time.After(rand.N(300 * time.Millisecond))
				s.stop(syscall.SIGKILL)
				before()
			}
			last := serveBeside(t, append([]string{"--config", file}, place...)...)
			ready(last)
			for end := time.Now().Add(time.Minute); ; <-time.After(100 * time.Millisecond) {
				resources, tools := toldBy(t, place...)
				if slices.Equal(resources, []string{"x://goes", "x://stays"}) && slices.Equal(tools, []string{"goes", "stays"}) {
					return
				}
				if time.Now().After(end) {
					out, _ := mcptrackCommand(t.Context(), append([]string{"replay"}, place...)...).Output()
					t.Fatalf("told %q and %q by\n%s", resources, tools, out)
				}
			}
		})
	}
}
