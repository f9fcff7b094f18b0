package commands

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// Arguments are completed from the last list, and values by a server that was used
// before and whose entry has not changed.
func TestCompleteArguments(t *testing.T) {
	tool := map[string]any{"name": "convert", "inputSchema": map[string]any{"type": "object", "properties": map[string]any{
		"unit": map[string]any{"type": "string", "enum": []string{"metric", "imperial"}}, "round": map[string]any{"type": "boolean"}, "amount": map[string]any{"type": "number"}}}}
	prompt := map[string]any{"name": "weather", "arguments": []any{map[string]any{"name": "city"}, map[string]any{"name": "day"}, map[string]any{"name": "evil\x1b="}}}
	serve := func(b *bench) {
		b.server.Capabilities["completions"] = map[string]any{}
		b.server.SetList(catalog.Tools, tool)
		b.server.SetList(catalog.Prompts, prompt)
		b.server.Fail(sessiontest.Fault{Method: "completion/complete", Result: map[string]any{"completion": map[string]any{
			"values": []string{"Hamburg", "Hannover", "Ha\x1b[31m"}}}})
	}
	b := newBench(t)
	serve(b)
	complete := func(b *bench, args ...string) []string {
		t.Helper()
		_, out := b.run(t, append([]string{"__complete"}, args...)...)
		var values []string
		for line := range strings.Lines(out) {
			if !strings.HasPrefix(line, ":") {
				values = append(values, strings.TrimSuffix(line, "\n"))
			}
		}
		return values
	}
	if got := complete(b, "prompt", "notes", "weather", "--arg", "city=Ha"); len(got) != 0 || b.dials != 0 {
		t.Fatalf("%q offered, %d dials, before anything was used", got, b.dials)
	}
	if code, _ := b.run(t, "list", "prompts"); code != 0 {
		t.Fatalf("list: exit %d: %s", code, &b.err)
	}
	if code, _ := b.run(t, "list", "tools"); code != 0 {
		t.Fatalf("list: exit %d: %s", code, &b.err)
	}
	dials := b.dials
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"call", "notes", "convert", "--arg", ""}, []string{"amount=", "round=", "unit="}},
		{[]string{"call", "notes", "convert", "--arg", "amount=1", "--arg", ""}, []string{"round=", "unit="}},
		{[]string{"call", "notes", "convert", "--arg", "unit="}, []string{"unit=metric", "unit=imperial"}},
		{[]string{"call", "notes", "convert", "--arg", "round="}, []string{"round=true", "round=false"}},
		{[]string{"prompt", "notes", "weather", "--arg", ""}, []string{"city=", "day="}},
		{[]string{"read", "notes", "--template", "note:///{year}/{name}", "--param", ""}, []string{"year=", "name="}},
	} {
		if got := complete(b, c.args...); !slices.Equal(got, c.want) {
			t.Errorf("%q offers %q, want %q", c.args, got, c.want)
		}
	}
	if b.dials != dials {
		t.Errorf("names were asked of the server %d times", b.dials-dials)
	}
	if got := complete(b, "prompt", "notes", "weather", "--arg", "day=1", "--arg", "city=Ha"); !slices.Equal(got, []string{"city=Hamburg", "city=Hannover"}) {
		t.Errorf("offered %q", got)
	}
	wire := b.server.Wire()
	i := slices.IndexFunc(wire, func(m sessiontest.Message) bool { return m.Method == "completion/complete" })
	var params struct {
		Ref, Argument map[string]string
		Context       struct{ Arguments map[string]string }
	}
	if i < 0 || json.Unmarshal(wire[i].Params, &params) != nil || params.Ref["name"] != "weather" || params.Argument["value"] != "Ha" || params.Context.Arguments["day"] != "1" {
		t.Errorf("asked %+v", params)
	}
	if got := complete(b, "read", "notes", "--template", "note:///{year}", "--param", "year="); !slices.Equal(got, []string{"year=Hamburg", "year=Hannover"}) {
		t.Errorf("offered %q", got)
	}

	// The entry has changed: it has another key, which was never sent to the server.
	lookup := b.LookupEnv
	b.LookupEnv = func(name string) (string, bool) {
		if name == "KEY" {
			return "two", true
		}
		return lookup(name)
	}
	dials = b.dials
	if got := complete(b, "prompt", "notes", "weather", "--arg", "city=Ha"); len(got) != 0 || b.dials != dials {
		t.Errorf("%q offered, %d dials, for a server that is another by now", got, b.dials-dials)
	}
}
