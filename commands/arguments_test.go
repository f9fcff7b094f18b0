package commands

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/commands/internal/cli/clitest"
	"github.com/mcptrack/mcptrack/core/catalog"
)

func TestInputProblem(t *testing.T) {
	t.Parallel()
	const tool = `{"inputSchema": {"properties": {"milliseconds": {"type": "number"}, "why": {"type": ["string", "null"]}, "a": {}}, "required": ["milliseconds"], "additionalProperties": false}}`
	const takes = "; it takes milliseconds (number, required), a, why (string null)"
	for _, c := range []struct {
		tool  string
		given []string
		want  string
	}{
		{tool, []string{"milliseconds"}, ""},
		{tool, []string{"milliseconds", "x"}, `has no argument "x"` + takes},
		{tool, []string{"why"}, `needs the argument "milliseconds"` + takes},
		{`{"inputSchema": {"additionalProperties": false}}`, []string{"x"}, `has no argument "x"; it takes no arguments`},
		{`{"inputSchema": {"type": "object"}}`, []string{"x"}, ""}, // says nothing about its arguments
		{`{"inputSchema": 1}`, []string{"x"}, ""},
	} {
		if got := newInput(json.RawMessage(c.tool)).problem(c.given); got != c.want {
			t.Errorf("%q: got %q, want %q", c.given, got, c.want)
		}
	}
	if !newInput(json.RawMessage(tool)).strict() || newInput(json.RawMessage(`{"inputSchema": {}}`)).strict() {
		t.Error("strict does not reflect additionalProperties")
	}
}

// TestArgumentsAreChecked: what a listed tool or prompt cannot accept is not sent.
func TestArgumentsAreChecked(t *testing.T) {
	b := clitest.New(t, Main)
	b.Server.SetList(catalog.Tools, json.RawMessage(`{"name": "wait", "inputSchema": {"properties": {"ms": {"type": "number"}, "why": {"type": "string"}}, "required": ["ms"]}}`))
	b.Server.SetList(catalog.Prompts, json.RawMessage(`{"name": "sum", "arguments": [{"name": "style"}, {"name": "text", "required": true}]}`), json.RawMessage(`{"name": "plain"}`))
	for _, c := range []struct {
		args string
		exit int
		says string
	}{
		{"call notes wait", cli.ExitUsage, `notes: wait needs the argument "ms"; it takes ms (number, required), why (string)`},
		{"call notes wait --arg why=x", cli.ExitUsage, `notes: wait needs the argument "ms"; it takes ms (number, required), why (string)`},
		{"call notes wait --arg m=1", cli.ExitUsage, `notes: wait has no argument "m"; it takes ms (number, required), why (string)`},
		{"call notes wait --arg ms=1 --arg more=2", cli.ExitOK, ""}, // the schema allows more
		{"call notes wait --args-json {}", cli.ExitOK, ""},
		{"call notes unlisted", cli.ExitOK, ""},
		{"prompt notes sum", cli.ExitUsage, `notes: sum needs the argument "text"; it takes text (required), style`},
		{"prompt notes sum --arg txt=a", cli.ExitUsage, `notes: sum has no argument "txt"; it takes text (required), style`},
		{"prompt notes plain --arg a=b", cli.ExitUsage, `notes: plain has no argument "a"; it takes no arguments`},
		{"prompt notes sum --arg text=a", cli.ExitOK, ""},
		{"prompt notes unlisted --arg a=b", cli.ExitOK, ""},
	} {
		want := ""
		if c.says != "" {
			want = "mcptrack: " + c.says + "\n"
		}
		if code, _ := b.Run(t, strings.Fields(c.args)...); code != c.exit || b.Stderr.String() != want {
			t.Errorf("%s: exit %d, want %d\n got %q\nwant %q", c.args, code, c.exit, &b.Stderr, want)
		}
	}
}
