package metrics

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/calls"
)

// The names of tools cannot make more time series than the limits, whoever chooses them.
func TestCallsHaveBoundedLabels(t *testing.T) {
	t.Parallel()
	m := New(Options{})
	m.Called(calls.Call{ServerID: "docs", Tool: "search", Outcome: calls.OK, Duration: 30 * time.Millisecond})
	for i := range 3 * maxCalledTools {
		m.Called(calls.Call{ServerID: "docs", Tool: fmt.Sprint("tool", i), Outcome: calls.ToolError})
		m.Called(calls.Call{Tool: fmt.Sprint("unknown", i), Outcome: calls.Error})
	}
	for i := range maxCalledServers + 10 {
		m.Called(calls.Call{ServerID: fmt.Sprint("server", i), Tool: "x", Outcome: calls.OK})
	}
	m.Called(calls.Call{ServerID: "docs", Tool: "search", Outcome: calls.OK, Duration: time.Hour})
	text := scraped(t, m)
	for _, want := range []string{
		`mcptrack_call_seconds_bucket{outcome="ok",server="docs",tool="search",le="0.05"} 1`,
		`mcptrack_call_seconds_count{outcome="ok",server="docs",tool="search"} 2`,
		`mcptrack_call_seconds_count{outcome="toolError",server="docs",tool="other"} 201`,
		`mcptrack_call_seconds_count{outcome="error",server="",tool="other"} 300`,
		`mcptrack_call_seconds_count{outcome="ok",server="other",tool="other"} 12`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	if n := strings.Count(text, "mcptrack_call_seconds_count"); n != maxCalledTools+1+1+maxCalledServers-2+1 {
		t.Errorf("%d series", n)
	}
}
