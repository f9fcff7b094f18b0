package session_test

import (
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/session"
)

// A server that requires a login for one method does not need one as a whole.
func TestLoginForOneMethod(t *testing.T) {
	t.Parallel()
	has := session.Info{Capabilities: mcp.Capabilities{Tools: true, Prompts: true, Resources: true}}
	for _, c := range []struct {
		listed []catalog.Kind
		want   event.State
	}{
		{[]catalog.Kind{catalog.Tools, catalog.Skills}, event.Ready},
		{[]catalog.Kind{catalog.Skills}, event.NeedsAuth}, // it has no skills, so it was not asked
		{nil, event.NeedsAuth},
	} {
		r := session.Report{Server: config.Server{ID: "s", Enabled: true}, Info: has, Lists: map[catalog.Kind]catalog.List{}, Err: &session.AuthError{Status: 403}}
		for _, k := range c.listed {
			r.Lists[k] = catalog.List{}
		}
		if got := r.State(); got != c.want {
			t.Errorf("with %v: %s, want %s", c.listed, got, c.want)
		}
	}
}
