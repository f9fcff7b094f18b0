package lines

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
)

var update = flag.Bool("update", false, "write the golden files")

func samples() []*event.Event {
	changed, size, diff := false, int64(2300), "--- a\n+++ a\n@@ -1 +1 @@\n-old\n+new\n"
	at := time.Date(2026, 11, 20, 19, 37, 25, 123_000_000, time.UTC)
	payloads := []event.Payload{
		event.ServerState{State: event.Ready, Previous: event.Connecting, ProtocolVersion: "2025-11-25"},
		event.ServerState{State: event.Backoff, Reason: "crashloop", Error: "exit status 3", RetryIn: event.Milliseconds(1540 * time.Millisecond)},
		event.ServerState{State: event.Unsupported, Reason: "the server does not offer resources"},
		event.SubscriptionActive{Resources: 12, Mode: event.Push, Missing: []string{"a", "b"}},
		event.ResourceUpdated{Size: &size, Diff: &diff, Digest: catalog.Digest{1}},
		event.ResourceUpdated{Changed: &changed, Content: new("one\ntwo\x1b[31m\n")},
		event.ResourceAdded{}, event.ResourceRemoved{}, event.ResourceChanged{},
		event.ListChanged{List: catalog.Tools, Added: []string{"a", "b", "c", "d", "e", "f", "g"}, Removed: []string{"x"}, Changed: []string{"y"}},
		event.ListChanged{List: catalog.Resources, Error: "timed out"},
		event.ListChanged{List: catalog.Tools, Changed: []string{"add", "sum"}, Details: []catalog.ItemChange{
			{Key: "add", Changes: []catalog.Change{{Op: catalog.Changed, Path: "/description"}, {Op: catalog.Added, Path: "/inputSchema/properties/c"},
				{Op: catalog.Removed, Path: "/inputSchema/properties/b"}, {Op: catalog.Changed, Path: "/title"}}, More: 2}}},
		event.ResourceContent{Size: 2300, Changed: &changed, Template: "file:///{name}"},
		event.PromptContent{Name: "summarize", Size: 120},
		event.ToolResult{Name: "add", Success: true, Duration: event.Milliseconds(12 * time.Millisecond)},
		event.ToolResult{Name: "add", Error: "no such number"},
		event.SubscriptionsChanged{URIs: []string{"file:///a"}}, event.SubscriptionsChanged{},
		event.CardChanged{URL: "https://docs.example/mcp/server-card", Fields: []string{"version", "remotes\x1b[31m"}, Version: "1.1.0", PreviousVersion: "1.0.0", Digest: catalog.Digest{1}, PreviousDigest: catalog.Digest{2}},
		event.LockDrift{Change: event.DriftChanged, Section: "tools", Item: "tool/add\x1b[31m", Classes: []event.DriftClass{{ID: "L002", Name: "wording"}, {ID: "L009", Name: "suspicious"}}, Severity: "error"},
		event.LockDrift{Change: event.DriftChanged, Section: "tools", Item: "tool/add", Classes: []event.DriftClass{{ID: "L003", Name: "title"}}, Severity: "note"},
		event.LockDrift{Change: event.DriftApproved, Section: "tools", Item: "tool/add"}, event.LockDrift{Change: event.DriftResolved},
		event.LockDrift{Change: event.DriftChanged, Reason: "the server is not in the lock; run mcptrack lock docs"},
		event.ConfigReloaded{Added: []string{"a"}},
		event.ConfigRejected{Problems: []event.Problem{{Severity: "error", File: "c.json", Line: 1, Column: 2, Message: "no"}}},
		event.Gap{Reason: "output was too slow"},
	}
	var out []*event.Event
	for i, p := range payloads {
		e := &event.Event{ID: event.FormatID("3f9a1c20b7e4d581", uint64(i+1)), ServerID: "docs", Timestamp: at, Payload: p}
		if strings.HasPrefix(string(e.Type()), "resource.") {
			e.ResourceURI, e.Cause = "file:///guide.md", event.CauseNotify
		}
		out = append(out, e)
	}
	return out
}

func TestGolden(t *testing.T) {
	for name, w := range map[string]Writer{"plain": {}, "wide": {Wide: true}, "colour": {Colour: true}} {
		t.Run(name, func(t *testing.T) {
			var got strings.Builder
			w.W = &got
			if err := w.Write(samples()...); err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Content that cannot be displayed is summarised, if it is requested and new.
func TestSummaries(t *testing.T) {
	size, changed, same := int64(2300), true, false
	for _, c := range []struct {
		u    event.ResourceUpdated
		want string
	}{
		{event.ResourceUpdated{MimeType: "image/png", Size: &size, Digest: catalog.Digest{1}, Changed: &changed}, "[image/png, 2300 bytes, sha256:01000"},
		{event.ResourceUpdated{Size: &size, Digest: catalog.Digest{1}}, "[unknown type, 2300 bytes, sha256:01000"},
		{event.ResourceUpdated{MimeType: "image/png", Size: &size, Digest: catalog.Digest{1}, Changed: &same}, ""},
		{event.ResourceUpdated{MimeType: "text/plain", Size: &size, Digest: catalog.Digest{1}, Text: new("text")}, ""},
		{event.ResourceUpdated{}, ""},
	} {
		for _, asked := range []bool{true, false} {
			var got strings.Builder
			w := Writer{W: &got, Summaries: asked}
			if err := w.Write(&event.Event{ResourceURI: "file:///a", Payload: c.u}); err != nil {
				t.Fatal(err)
			}
			if shown := strings.Contains(got.String(), "["); shown != (asked && c.want != "") || shown && !strings.Contains(got.String(), c.want) {
				t.Errorf("%+v, asked %t: %q", c.u, asked, got.String())
			}
		}
	}
}

// Whatever names servers use, the output contains no control characters except our own
// colours and line feeds.
func TestControlCharactersNeverReachTheTerminal(t *testing.T) {
	colours := regexp.MustCompile("\x1b\\[[0-9;]+m")
	rapid.Check(t, func(t *rapid.T) {
		evil := rapid.String().Draw(t, "text")
		var got strings.Builder
		w := Writer{W: &got, Colour: true, Wide: rapid.Bool().Draw(t, "wide")}
		err := w.Write(
			&event.Event{ServerID: evil, ResourceURI: evil, Payload: event.ResourceUpdated{Content: &evil, Diff: &evil}},
			&event.Event{ServerID: evil, Payload: event.ServerState{State: event.Backoff, Error: evil, Reason: evil, ProtocolVersion: evil}},
			&event.Event{Payload: event.ServerState{State: event.State(evil)}}, // as a newer mcptrack, or anybody, may have stored it
			&event.Event{Payload: event.SubscriptionActive{Mode: event.UpdateMode(evil)}},
			&event.Event{Payload: event.ListChanged{List: catalog.Tools, Added: []string{evil}, Error: evil}},
			&event.Event{Payload: event.ListChanged{List: catalog.Tools, Changed: []string{evil}, Details: []catalog.ItemChange{
				{Key: evil, Changes: []catalog.Change{{Op: catalog.Changed, Path: "/" + evil}}}}}},
			&event.Event{ResourceURI: evil, Payload: event.ResourceContent{Template: evil}},
			&event.Event{Payload: event.PromptContent{Name: evil}},
			&event.Event{Payload: event.ToolResult{Name: evil, Error: evil}},
			&event.Event{Payload: event.SubscriptionsChanged{URIs: []string{evil}}},
			&event.Event{Payload: event.Gap{Reason: evil}},
		)
		if err != nil {
			t.Fatal(err)
		}
		rest := colours.ReplaceAllString(got.String(), "")
		if i := strings.IndexFunc(rest, func(r rune) bool {
			return r != '\n' && r != '\t' && r != '\u200d' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
		}); i >= 0 {
			t.Fatalf("%q at %d of %q", rest[i:min(len(rest), i+8)], i, rest)
		}
	})
}
