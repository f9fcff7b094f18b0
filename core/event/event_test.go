package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/mcptrack/mcptrack/core/catalog"
)

var update = flag.Bool("update", false, "write the golden files")

// samples returns one event of every documented form.
func samples() []Event {
	at := time.Date(2026, 11, 20, 20, 37, 25, 123_900_000, time.FixedZone("CET", 3600))
	digest := func(b byte) (d catalog.Digest) { d[0], d[31] = b, b; return d }
	changed, size, text := true, int64(42), "new <text> & more"
	payloads := []Payload{
		ServerState{State: Pending},
		ServerState{State: Ready, Previous: Connecting, ProtocolVersion: "2025-11-25", Era: "legacy", InstructionsDigest: digest(3)},
		ServerState{State: Backoff, Previous: Ready, Reason: "crashloop", Error: "exit status 3", Attempt: 5, RetryIn: Milliseconds(1500 * time.Millisecond)},
		SubscriptionActive{Resources: 3, Mode: Push},
		SubscriptionActive{Resources: 1, URIs: []string{"file:///a"}, Mode: Poll, Missing: []string{"file:///a"}},
		ResourceUpdated{},
		ResourceUpdated{Changed: &changed, Name: "guide", MimeType: "text/markdown", Size: &size, Digest: digest(1), PreviousDigest: digest(2), Content: &text, Diff: &text},
		ResourceAdded{Descriptor{Name: "guide", MimeType: "text/markdown"}},
		ResourceRemoved{},
		ResourceChanged{Descriptor{Name: "guide"}},
		ListChanged{List: catalog.Resources, Added: []string{"file:///b"}},
		ListChanged{List: catalog.Templates, Removed: []string{"file:///{x}"}},
		ListChanged{List: catalog.Prompts, Changed: []string{"p"}},
		ListChanged{List: catalog.Tools, Changed: []string{"add"}, Details: []catalog.ItemChange{{Key: "add", Fields: []string{"description", "inputSchema"}, More: 2,
			Changes: []catalog.Change{{Op: catalog.Changed, Path: "/description"}, {Op: catalog.Added, Path: "/inputSchema/properties/b"}}}}, Versions: []catalog.ItemVersion{{Key: "add", Digest: digest(1), PreviousDigest: digest(2)}}},
		ListChanged{List: catalog.Tools, Error: "timed out"},
		ListChanged{List: catalog.Skills, Changed: []string{"skill://review/SKILL.md"}},
		SkillAdded{Skill{Name: "review", Files: 2, Size: 42, Digest: digest(1)}},
		SkillRemoved{Skill{Name: "daily", Dynamic: true, Digest: digest(2)}},
		SkillChanged{Skill: Skill{Name: "review", Files: 2, Size: 42, Digest: digest(1)}, PreviousDigest: digest(2), Frontmatter: true, More: 1,
			Added: []SkillFile{{URI: "skill://review/a", Digest: digest(3), Size: 0}}, Removed: []SkillFile{{URI: "skill://review/b", Digest: digest(4), Size: 1}},
			Changed: []SkillFile{{URI: "skill://review/SKILL.md", Digest: digest(5), Size: 42, PreviousDigest: digest(6), PreviousSize: &size}}},
		SkillMismatch{Skill: "skill://review/SKILL.md", Reason: "the content has 3 bytes instead of 2"},
		ConfigReloaded{Added: []string{"docs"}, Duration: Milliseconds(12 * time.Millisecond)},
		ConfigRejected{Problems: []Problem{{Severity: "error", File: "c.json", Line: 4, Column: 23, Code: "invalid_type", Message: "no"}}},
		ResourceContent{Template: "file:///{name}", Changed: &changed, MimeType: "text/markdown", Size: size, Digest: digest(1), PreviousDigest: digest(2)},
		ResourceContent{Digest: digest(1)},
		PromptContent{Name: "summarize", Size: 120},
		ToolResult{Name: "add", Success: true, Duration: Milliseconds(12 * time.Millisecond)},
		ToolResult{Name: "add", Error: "no such number"},
		SubscriptionsChanged{URIs: []string{"file:///a"}},
		SubscriptionsChanged{},
		Gap{From: "3f9a1c20b7e4d581-1", To: "3f9a1c20b7e4d581-9", Reason: "retention"},
		ServerEvent{Name: "page.changed", EventID: "evt <1>", Size: 42},
		CardChanged{URL: "https://docs.example/mcp/server-card", Fields: []string{"version", "remotes"}, Version: "1.1.0", PreviousVersion: "1.0.0", Title: "Docs", PreviousTitle: "Docs",
			Remotes: []string{"https://docs.example/mcp"}, PreviousRemotes: []string{"https://old.example/mcp"}, Digest: catalog.Digest{1}, PreviousDigest: catalog.Digest{2}},
		LockDrift{Change: DriftChanged, Section: "tools", Item: "tool/add", Classes: []DriftClass{{"L002", "wording"}, {"L009", "suspicious"}}, Severity: "error", Action: "hold", OldHash: "ab", NewHash: "cd"},
		LockDrift{Change: DriftApproved, Section: "tools", Item: "tool/add"},
		LockDrift{Change: DriftChanged, Action: "block", Reason: "the server is not in the lock"},
		HookReceived{HookID: "repo", DeliveryID: "72d3162e-cc78-11e3-81ab-4c9367dc0958", ContentType: "application/json", Size: 6615, Digest: digest(3)},
		WebhookDisabled{Host: "app.example", Format: "standard", Error: "timeout", FailedSince: time.Date(2026, 11, 19, 8, 0, 0, 0, time.UTC)},
	}
	var out []Event
	for i, p := range payloads {
		e := Event{ID: FormatID("3f9a1c20b7e4d581", uint64(i+1)), Seq: uint64(i + 1), ServerID: "docs", Timestamp: at, Payload: p}
		if kind := string(e.Type()); strings.HasPrefix(kind, "resource.") || strings.HasPrefix(kind, "skill.") {
			e.ResourceURI, e.Cause = "file:///guide.md?a=1&b=2", CauseNotify
		}
		if strings.HasPrefix(string(e.Type()), "config.") || e.Type() == TypeGap || e.Type() == TypeHookReceived || e.Type() == TypeWebhookDisabled {
			e.ServerID = ""
		}
		out = append(out, e)
	}
	updated := Event{ServerID: "docs", ResourceURI: "file:///guide.md", Timestamp: at, Cause: CauseNotify, Payload: ResourceUpdated{Name: "guide"}}
	for i, names := range []map[string]string{{}, {"file:///guide.md": "mcptrack://server/docs/file:///guide.md"}} {
		e := updated
		e.Exported, e.Seq = names, uint64(len(payloads)+i+1)
		e.ID = FormatID("3f9a1c20b7e4d581", e.Seq)
		out = append(out, e)
	}
	traced := updated
	traced.Trace, traced.Seq = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", uint64(len(out)+1)
	traced.ID = FormatID("3f9a1c20b7e4d581", traced.Seq)
	return append(out, traced)
}

// The wire form does not change: other programs parse it.
func TestWireSchema(t *testing.T) {
	var got []byte
	for _, e := range samples() {
		var err error
		if got, err = e.AppendJSON(got); err != nil {
			t.Fatal(err)
		}
		got = append(got, '\n')
	}
	golden := filepath.Join("testdata", "wire.golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("the wire form changed (-want +got):\n%s", diff)
	}
}

func TestSummaryOfARejectedConfig(t *testing.T) {
	warning := Problem{Severity: "warning", File: "c.json", Line: 1, Column: 2, Message: "odd"}
	failure := Problem{Severity: "error", File: "c.json", Line: 4, Column: 23, Message: "no"}
	for want, problems := range map[string][]Problem{
		"no problems":                                nil,
		"c.json:1:2: warning: odd":                   {warning, warning},
		"c.json:4:23: error: no":                     {warning, failure},
		"c.json:4:23: error: no (and 1 more error)":  {failure, warning, failure},
		"c.json:4:23: error: no (and 2 more errors)": {warning, failure, failure, failure},
	} {
		if got := (ConfigRejected{Problems: problems}).summary(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestEveryTypeHasASample(t *testing.T) {
	var seen []Type
	for _, e := range samples() {
		seen = append(seen, e.Type())
	}
	for _, typ := range Types() {
		if !slices.Contains(seen, typ) {
			t.Errorf("no sample of %s", typ)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	for _, e := range samples() {
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var back Event
		if err := json.Unmarshal(line, &back); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		again, err := back.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		if want, _ := e.AppendJSON(nil); !bytes.Equal(again, want) {
			t.Errorf("read back as\n%s, was\n%s", again, want)
		}
		if diff := cmp.Diff(e.Exported, back.Exported); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
		if back.Seq != e.Seq || back.Type() != e.Type() {
			t.Errorf("read back as %d %s", back.Seq, back.Type())
		}
	}
}

// hidden reports whether a line has characters that a terminal or a log would interpret or hide.
func hidden(line string) bool {
	return strings.ContainsFunc(line, func(r rune) bool {
		return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
	})
}

func TestHostileNamesAreEscaped(t *testing.T) {
	const evil = "a\nb\x1b[31m\u202e\u200b\u2028\x00\"\\\ufeff"
	e := Event{ID: "1-1", ServerID: evil, ResourceURI: evil, Timestamp: time.Unix(0, 0), Payload: ResourceUpdated{Name: evil, MimeType: evil, Content: new(evil)}}
	line, err := e.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	if hidden(string(line)) {
		t.Errorf("hidden characters in %q", line)
	}
	var back Event
	if err := json.Unmarshal(line, &back); err != nil {
		t.Fatal(err)
	}
	if back.ServerID != evil || back.ResourceURI != evil || *back.Payload.(ResourceUpdated).Content != evil {
		t.Errorf("the names did not survive: %+v", back)
	}
}

func TestInvalidEvents(t *testing.T) {
	for _, line := range []string{
		``, `null`, `[]`, `{}`, `{"type":"nonsense","timestamp":"2026-11-20T19:37:25.123Z"}`,
		`{"type":"gap","timestamp":"yesterday"}`, `{"id":"x-y","type":"gap","timestamp":"2026-11-20T19:37:25.123Z"}`,
		`{"id":"a\"b-1","type":"gap","timestamp":"2026-11-20T19:37:25.123Z"}`, `{"id":"ab-01","type":"gap","timestamp":"2026-11-20T19:37:25.123Z"}`,
		`{"type":"gap","timestamp":5}`, `{"type":"gap","timestamp":"2026-11-20T19:37:25.123Z","from":7}`,
		`{"type":"config.reloaded","timestamp":"2026-11-20T19:37:25.123Z","added":{}}`,
		`{"type":"config.reloaded","timestamp":"2026-11-20T19:37:25.123Z","durationMs":"long"}`,
	} {
		var e Event
		if err := json.Unmarshal([]byte(line), &e); err == nil {
			t.Errorf("%s was decoded as %+v", line, e)
		} else if strings.Contains(err.Error(), "json:") || strings.Contains(err.Error(), "Go ") {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// Additions of a newer version are ignored; only a missing or malformed required member is an
// error.
func TestEventsOfANewerVersion(t *testing.T) {
	const head = `"type":"resource.updated","serverId":"docs","resourceUri":"file:///a","timestamp":"2026-11-20T19:37:25.123Z"`
	plain := Event{ServerID: "docs", ResourceURI: "file:///a", Timestamp: time.Date(2026, 11, 20, 19, 37, 25, 123e6, time.UTC), Payload: ResourceUpdated{}}
	named := plain
	named.Payload = ResourceUpdated{Name: "a"}
	for line, want := range map[string]Event{
		`{` + head + `,"cause":"telepathy"}`:                                  plain,
		`{` + head + `,"cause":{"by":"poll"},"name":"a"}`:                     named,
		`{` + head + `,"digest":"sha512:00","previousDigest":"blake3:1"}`:     plain,
		`{` + head + `,"digest":{"sha512":"00"},"name":"a"}`:                  named,
		`{` + head + `,"size":"large","changed":"partly","name":"a"}`:         named,
		`{"exported":{"a":1},` + head + `,"name":"a"}`:                        named,
		`{"trace":7,` + head + `,"name":"a"}`:                                 named,
		`{"trace":"x",` + head + `,"name":"a"}`:                               named,
		`{"exported":["a"],` + head + `,"name":"a"}`:                          named,
		`{"importance":[1,{}],` + head + `,"name":"a","attachments":{"x":1}}`: named,
	} {
		var e Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Errorf("%s: %v", line, err)
		} else if diff := cmp.Diff(want, e); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
	var e Event
	added := strings.Replace(`{`+head+`,"name":"a","mimeType":{}}`, "updated", "added", 1)
	if err := json.Unmarshal([]byte(added), &e); err != nil || e.Payload != (ResourceAdded{Descriptor{Name: "a"}}) {
		t.Errorf("%s: %+v, %v", added, e, err)
	}
	err := json.Unmarshal([]byte(strings.Replace(`{`+head+`}`, "resource.updated", "resource.archived", 1)), &e)
	if !errors.Is(err, ErrUnknownType) {
		t.Errorf("an unknown type: %v", err)
	}
}

// The documented members are the ones that are written.
func TestMembersMatchTheWireForm(t *testing.T) {
	shared := []string{"id", "type", "serverId", "resourceUri", "timestamp", "cause", "trace", "exported"}
	for _, e := range samples() {
		d, ok := Define(e.Type())
		if !ok || d.About == "" {
			t.Fatalf("%s has no definition", e.Type())
		}
		line, err := e.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		var written map[string]json.RawMessage
		if err := json.Unmarshal(line, &written); err != nil {
			t.Fatal(err)
		}
		for _, m := range d.Members() {
			if _, ok := written[m.Name]; !ok && !m.Optional {
				t.Errorf("%s lacks %s, which is not optional", line, m.Name)
			}
			delete(written, m.Name)
		}
		for _, name := range shared {
			delete(written, name)
		}
		if len(written) > 0 {
			t.Errorf("%s has members that are not documented: %v", e.Type(), written)
		}
	}
}

// Every event that can be decoded can be encoded, and decodes to the same event.
func FuzzParse(f *testing.F) {
	for _, e := range samples() {
		line, err := e.AppendJSON(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var e Event
		if json.Unmarshal(data, &e) != nil {
			return
		}
		line, err := e.AppendJSON(nil)
		if err != nil {
			t.Fatalf("decoded but not encoded: %v", err)
		}
		if bytes.ContainsAny(line, "\n\r") || !json.Valid(line) {
			t.Fatalf("not one line of JSON: %q", line)
		}
		var back Event
		if err := json.Unmarshal(line, &back); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if again, _ := back.AppendJSON(nil); !bytes.Equal(again, line) {
			t.Fatalf("%s became %s", line, again)
		}
	})
}

func BenchmarkAppendJSON(b *testing.B) {
	e := samples()[6]
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = e.AppendJSON(buf[:0])
	}
}

func BenchmarkUnmarshal(b *testing.B) {
	line, err := samples()[6].MarshalJSON()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			b.Fatal(err)
		}
	}
}

// Every state has one word, and every word one state: people who read "retrying" must be able to
// look up which state it is.
func TestEveryStateHasItsOwnWords(t *testing.T) {
	seen := map[string]State{}
	for _, s := range append(States(), Failed) {
		words := s.Words()
		if words == "" || words != strings.ToLower(words) {
			t.Errorf("%s: words %q", s, words)
		}
		if other, taken := seen[words]; taken {
			t.Errorf("%s and %s are both %q", s, other, words)
		}
		seen[words] = s
	}
}
