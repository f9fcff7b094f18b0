package event

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/cache"
	"github.com/mcptrack/mcptrack/core/catalog"
)

func TestString(t *testing.T) {
	at := time.Date(2026, 11, 24, 10, 0, 0, 5_000_000, time.UTC)
	no, size, text := false, int64(292), "secret text"
	for want, e := range map[string]Event{
		"2026-11-24T10:00:00.005Z docs file:///a updated (292 bytes, unchanged) [notify]": {ServerID: "docs", ResourceURI: "file:///a", Cause: CauseNotify,
			Payload: ResourceUpdated{Size: &size, Changed: &no, Text: &text, PreviousText: &text, Content: &text, Diff: &text}},
		"2026-11-24T10:00:00.005Z docs retrying (disconnected, EOF, next attempt in 2s)": {ServerID: "docs", Payload: ServerState{State: Backoff, Reason: "disconnected", Error: "EOF", RetryIn: Milliseconds(2 * time.Second)}},
		"2026-11-24T10:00:00.005Z docs following (7 resources, 1 tool, 4 prompts, push)": {ServerID: "docs", Payload: SubscriptionActive{Resources: 7, Tools: 1, Prompts: 4, Mode: Push}},
		"2026-11-24T10:00:00.005Z docs following (14 tools)":                             {ServerID: "docs", Payload: SubscriptionActive{Tools: 14}},
		"2026-11-24T10:00:00.005Z docs tools changed (2 added, 1 removed)":               {ServerID: "docs", Payload: ListChanged{List: catalog.Tools, Added: []string{"a", "b"}, Removed: []string{"c"}, Items: &catalog.List{}}},
		"2026-11-24T10:00:00.005Z docs tool (deploy, not allowed)":                       {ServerID: "docs", Payload: ToolResult{Name: "deploy", Error: "not allowed", Result: &cache.ToolResult{}}},
		"2026-11-24T10:00:00.005Z docs server card (version 1 to 2, title)":              {ServerID: "docs", Payload: CardChanged{Fields: []string{"version", "title"}, Version: "2", PreviousVersion: "1", Digest: catalog.Digest{1}, PreviousDigest: catalog.Digest{2}}},
		"2026-11-24T10:00:00.005Z docs server card (new)":                                {ServerID: "docs", Payload: CardChanged{Digest: catalog.Digest{1}}},
		"2026-11-24T10:00:00.005Z docs server card (gone)":                               {ServerID: "docs", Payload: CardChanged{PreviousDigest: catalog.Digest{1}}},
		"2026-11-24T10:00:00.005Z docs lock changed (tool/add, wording, title)":          {ServerID: "docs", Payload: LockDrift{Change: DriftChanged, Section: "tools", Item: "tool/add", Classes: []DriftClass{{"L002", "wording"}, {"L003", "title"}}}},
		"2026-11-24T10:00:00.005Z config reloaded (1 changed)":                           {Payload: ConfigReloaded{Changed: []string{"a"}}},
		`2026-11-24T10:00:00.005Z a\x1b[2J\nb file:///\x1b added`:                        {ServerID: "a\x1b[2J\nb", ResourceURI: "file:///\x1b", Payload: ResourceAdded{}},
		"2026-11-24T10:00:00.005Z no payload":                                            {},
	} {
		e.Timestamp = at
		for _, got := range []string{e.String(), fmt.Sprint(e), fmt.Sprint(&e), fmt.Sprintf("%+v", e)} {
			if got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
	}
}

// Every payload is printed in words on one line, whatever its fields contain, and without addresses.
func TestEveryPayloadIsPrinted(t *testing.T) {
	for _, d := range Definitions() {
		v := reflect.New(reflect.TypeOf(d.sample)).Elem()
		fillHostile(v)
		p := v.Interface().(Payload)
		for _, got := range []string{fmt.Sprint(p), fmt.Sprintf("%+v", Event{ServerID: "s", Payload: p})} {
			if strings.ContainsAny(got, "\n\x1b") || strings.Contains(got, "0x") {
				t.Errorf("%s: %q", d.Type, got)
			}
		}
		if _, ok := p.(fmt.Stringer); !ok {
			t.Errorf("%s has no String", d.Type)
		}
	}
}

// fillHostile sets every pointer, and every string to one that would clear the screen.
func fillHostile(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("\x1b[2J\n")
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		if v.Elem().Kind() == reflect.String {
			fillHostile(v.Elem())
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			if field.CanSet() {
				fillHostile(field)
			}
		}
	}
}

func TestUnifiedDiff(t *testing.T) {
	was, now, stored := "one\n", "two\n", "stored"
	want := "--- a.md\n+++ a.md\n@@ -1 +1 @@\n-one\n+two\n"
	if got := (ResourceUpdated{Name: "a.md", PreviousText: &was, Text: &now}).UnifiedDiff(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := (ResourceUpdated{Text: &now}).UnifiedDiff(); got != "" {
		t.Errorf("without a previous text: %q", got)
	}
	if got := (ResourceUpdated{Diff: &stored}).UnifiedDiff(); got != stored {
		t.Errorf("decoded: %q", got)
	}
}

func ExampleEvent_String() {
	fmt.Println(Event{
		ServerID: "docs", ResourceURI: "file:///guide.md", Timestamp: time.Date(2026, 11, 24, 10, 0, 0, 0, time.UTC),
		Cause: CauseNotify, Payload: ResourceUpdated{},
	})
	// Output: 2026-11-24T10:00:00.000Z docs file:///guide.md updated [notify]
}

func ExampleResourceUpdated_UnifiedDiff() {
	before, after := "open\n", "open\nclosed\n"
	u := ResourceUpdated{Name: "status.txt", PreviousText: &before, Text: &after}
	fmt.Print(u.UnifiedDiff())
	// Output:
	// --- status.txt
	// +++ status.txt
	// @@ -1 +1,2 @@
	//  open
	// +closed
}
