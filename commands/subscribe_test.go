package commands

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/commands/internal/cli/clitest"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
)

// --count of subscribe counts changes of resources; a resource that is new in the list is printed, but not
// counted.
func TestSubscribeCountsChangesOnly(t *testing.T) {
	b := clitest.New(t, Main)
	b.Server.SetQuietly("note:///a", "one")
	lines, out := io.Pipe()
	b.Out = out
	code := make(chan int, 1) // sent to once
	go func() {
		code <- Main(t.Context(), &b.Env, []string{"subscribe", "notes", "note:///*", "--json", "--count", "2", "--timeout", "1m"})
		_ = out.Close()
	}()
	var types []string
	updates := 0
	for printed := bufio.NewScanner(lines); printed.Scan(); {
		var e struct {
			Type        string
			ResourceURI string
			Resources   int
		}
		if err := json.Unmarshal(printed.Bytes(), &e); err != nil {
			t.Fatalf("%s: %v", printed.Text(), err)
		}
		types = append(types, e.Type)
		switch {
		case e.Type == "subscription.active" && e.Resources == 1:
			b.Server.SetQuietly("note:///b", "new")
			b.Server.NotifyListChanged(catalog.Resources)
		case e.Type == "subscription.active":
			b.Server.SetQuietly("note:///a", "two")
			b.Server.NotifyUpdated("note:///a")
		case e.Type == "resource.updated" && updates == 0:
			updates++
			b.Server.SetQuietly("note:///b", "newer")
			b.Server.NotifyUpdated("note:///b")
		case e.Type == "resource.updated":
			updates++
		}
	}
	if got := <-code; got != 0 || updates != 2 {
		t.Errorf("exit %d after %d updates: %s: %s", got, updates, types, &b.Stderr)
	}
	if all := strings.Join(types, " "); !strings.Contains(all, "resource.added") {
		t.Errorf("the new resource was not printed: %s", all)
	}
}

// If a glob matches nothing, subscribe waits for a resource and logs once that it waits.
func TestSubscribeWaitsForResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := clitest.New(t, Main)
		b.Server.SetQuietly("note:///a", "one")
		code, out := b.Run(t, "subscribe", "notes", "other:///**", "--json", "--timeout", "1m")
		if code != cli.ExitTimeout || !strings.Contains(out, `"resources":0`) || strings.Count(b.Stderr.String(), "waiting for one") != 1 {
			t.Errorf("exit %d, %s: %s", code, out, &b.Stderr)
		}
		if !strings.Contains(b.Stderr.String(), `"message":"--timeout expired before there was a resource to follow"`) {
			t.Errorf("%s", &b.Stderr)
		}
		if code, _ := b.Run(t, "subscribe", "notes", "--json", "--timeout", "1m"); code != cli.ExitOK {
			t.Errorf("with a resource: exit %d: %s", code, &b.Stderr)
		}
	})
}

// A list event that concerns only resources the user did not name is not printed.
func TestSubscribeNarrowsListEvents(t *testing.T) {
	s := subscription{srv: config.Server{Tracking: config.Tracking{Include: []string{"note:///a*"}}}}
	mixed := event.Event{Payload: event.ListChanged{List: catalog.Resources, Added: []string{"note:///a1", "note:///b"}, Changed: []string{"note:///c", "note:///a2"},
		Details: []catalog.ItemChange{{Key: "note:///c"}, {Key: "note:///a2"}}}}
	if !s.narrowed(&mixed) {
		t.Error("an event with resources that were named is dropped")
	}
	want := event.ListChanged{List: catalog.Resources, Added: []string{"note:///a1"}, Changed: []string{"note:///a2"}, Details: []catalog.ItemChange{{Key: "note:///a2"}}}
	if diff := cmp.Diff(want, mixed.Payload, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for what, payload := range map[string]event.ListChanged{
		"other resources": {List: catalog.Resources, Removed: []string{"note:///b"}},
		"templates":       {List: catalog.Templates, Added: []string{"note:///{x}"}},
	} {
		if e := (event.Event{Payload: payload}); s.narrowed(&e) {
			t.Errorf("%s: printed", what)
		}
	}
	if e := (event.Event{Payload: event.ListChanged{List: catalog.Resources, Error: "broken"}}); !s.narrowed(&e) {
		t.Error("a list that cannot be loaded is hidden")
	}
}
