package commands

import (
	"encoding/json"
	"testing"
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
