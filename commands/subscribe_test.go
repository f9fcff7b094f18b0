package commands

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/commands/internal/cli/clitest"
	"github.com/mcptrack/mcptrack/core/catalog"
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
