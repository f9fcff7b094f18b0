package event

import (
	"encoding/json"
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
		"2026-11-24T10:00:00.005Z docs updated file:///a (292 B, same content, found by polling)": {ServerID: "docs", ResourceURI: "file:///a", Cause: CausePoll,
			Payload: ResourceUpdated{Size: &size, Changed: &no, Text: &text, PreviousText: &text, Content: &text, Diff: &text}},
		"2026-11-24T10:00:00.005Z docs retrying (disconnected, EOF, next attempt in 2s)":        {ServerID: "docs", Payload: ServerState{State: Backoff, Reason: "disconnected", Error: "EOF", RetryIn: Milliseconds(2 * time.Second)}},
		"2026-11-24T10:00:00.005Z docs asleep":                                                  {ServerID: "docs", Payload: ServerState{State: Pending, Reason: Asleep}},
		"2026-11-24T10:00:00.005Z docs following: 7 resources, 1 tool, 4 prompts (push)":        {ServerID: "docs", Payload: SubscriptionActive{Resources: 7, Tools: 1, Prompts: 4, Mode: Push}},
		"2026-11-24T10:00:00.005Z docs following: 14 tools":                                     {ServerID: "docs", Payload: SubscriptionActive{Tools: 14}},
		"2026-11-24T10:00:00.005Z docs following: 1 resource (changes are not detected)":        {ServerID: "docs", Payload: SubscriptionActive{Resources: 1}},
		"2026-11-24T10:00:00.005Z docs tools +a +b +c +d +e +… 2 more -x ~y (title, … 2 more)":  {ServerID: "docs", Payload: ListChanged{List: catalog.Tools, Added: []string{"a", "b", "c", "d", "e", "f", "g"}, Removed: []string{"x"}, Changed: []string{"y"}, Details: []catalog.ItemChange{{Key: "y", Changes: []catalog.Change{{Op: catalog.Changed, Path: "/title"}}, More: 2}}, Items: &catalog.List{}}},
		"2026-11-24T10:00:00.005Z docs skill changed a:s/SKILL.md (frontmatter, +b/c.md, ~d:e)": {ServerID: "docs", ResourceURI: "a:s/SKILL.md", Payload: SkillChanged{Frontmatter: true, Added: []SkillFile{{URI: "a:s/b/c.md"}}, Changed: []SkillFile{{URI: "d:e"}}}},
		"2026-11-24T10:00:00.005Z docs call failed deploy (not allowed, 0s)":                    {ServerID: "docs", Payload: ToolResult{Name: "deploy", Error: "not allowed", Result: &cache.ToolResult{}}},
		"2026-11-24T10:00:00.005Z docs card changed: version 1 to 2, title (x:card)":            {ServerID: "docs", Payload: CardChanged{URL: "x:card", Fields: []string{"version", "title"}, Version: "2", PreviousVersion: "1", Digest: catalog.Digest{1}, PreviousDigest: catalog.Digest{2}}},
		"2026-11-24T10:00:00.005Z docs card added (x:card)":                                     {ServerID: "docs", Payload: CardChanged{URL: "x:card", Digest: catalog.Digest{1}}},
		"2026-11-24T10:00:00.005Z docs card removed (x:card)":                                   {ServerID: "docs", Payload: CardChanged{URL: "x:card", PreviousDigest: catalog.Digest{1}}},
		"2026-11-24T10:00:00.005Z docs lock tool/add changed: wording, title":                   {ServerID: "docs", Payload: LockDrift{Change: DriftChanged, Section: "tools", Item: "tool/add", Classes: []DriftClass{{"L002", "wording"}, {"L003", "title"}}}},
		"2026-11-24T10:00:00.005Z docs lock: the server is not in the lock":                     {ServerID: "docs", Payload: LockDrift{Change: DriftChanged, Reason: "the server is not in the lock; run mcptrack lock docs"}},
		"2026-11-24T10:00:00.005Z config reloaded ~a":                                           {Payload: ConfigReloaded{Changed: []string{"a"}}},
		`2026-11-24T10:00:00.005Z a\x1b[2J\nb added file:///\x1b`:                               {ServerID: "a\x1b[2J\nb", ResourceURI: "file:///\x1b", Payload: ResourceAdded{}},
		"2026-11-24T10:00:00.005Z no payload":                                                   {},
	} {
		e.Timestamp = at
		for _, got := range []string{e.String(), fmt.Sprint(e), fmt.Sprint(&e), fmt.Sprintf("%+v", e)} {
			if got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
	}
}

// Every payload is described in words on one line, whatever its fields contain, and without addresses; and the
// JSON of its description is valid and safe.
func TestEveryPayloadIsDescribed(t *testing.T) {
	for _, d := range Definitions() {
		v := reflect.New(reflect.TypeOf(d.empty)).Elem()
		fillHostile(v)
		e := Event{ServerID: "s", Payload: v.Interface().(Payload)}
		got := fmt.Sprintf("%+v", e)
		if strings.ContainsAny(got, "\n\x1b") || strings.Contains(got, "0x") || strings.Contains(e.Describe().Verb, ".") {
			t.Errorf("%s: %q", d.Type, got)
		}
		e.Payload = reflect.Zero(v.Type()).Interface().(Payload)
		if l, ok := e.Payload.(ListChanged); ok {
			l.List = catalog.Kind(strings.TrimSuffix(string(d.Type), ".list_changed"))
			e.Payload = l
		}
		data, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var doc struct {
			Type        Type
			Description struct{ Verb string }
		}
		if err := json.Unmarshal(Described(data), &doc); err != nil || doc.Type != d.Type || doc.Description.Verb != e.Describe().Verb {
			t.Errorf("%s: %v, %+v", d.Type, err, doc)
		}
	}
	for _, other := range []string{"", "{}", "[1]", `{"type":"newer","timestamp":"2026-11-24T10:00:00.005Z"}`} {
		if got := string(Described([]byte(other))); got != other {
			t.Errorf("%q became %q", other, got)
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
	// Output: 2026-11-24T10:00:00.000Z docs updated file:///guide.md
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
