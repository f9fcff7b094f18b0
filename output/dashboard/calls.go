package dashboard

import (
	"net/http"

	"github.com/mcptrack/mcptrack/core/calls"
)

// recentCalls is the response of /api/calls.
type recentCalls struct {
	Calls []calls.Call `json:"calls"` // oldest first
	// Tools sums up the newest [calls.MaxRead] calls, if the request has the parameter tools.
	Tools []calls.ToolStats `json:"tools,omitempty"`
}

// calls returns the calls that the parameters select; see [calls.ParseQuery].
func (d *Dashboard) calls(r *http.Request) (any, error) {
	if d.opts.Calls == nil {
		return nil, missing("no calls are recorded here")
	}
	q, err := calls.ParseQuery(r.URL.Query())
	if err != nil {
		return nil, &refusal{http.StatusBadRequest, err.Error()}
	}
	sum, shown := r.URL.Query().Has("tools"), q.Limit()
	if sum {
		q.Newest = calls.MaxRead
	}
	list, err := d.opts.Calls(r.Context(), q)
	if err != nil {
		return nil, &refusal{http.StatusServiceUnavailable, "the calls cannot be read"}
	}
	out := recentCalls{Calls: append([]calls.Call{}, list[max(0, len(list)-shown):]...)}
	if sum {
		out.Tools = calls.ByTool(list)
	}
	return out, nil
}
