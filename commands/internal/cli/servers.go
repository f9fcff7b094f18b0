package cli

import (
	"cmp"
	"slices"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/output/table"
)

// ServerTable returns a table with one server in each row; see [table.Records]. All tables of servers begin
// with the id and the state, and end with the error, which of returns. cells and head have the columns
// between.
func ServerTable[T any](records []T, of func(T) status.Summary, cells func(T) []string, head ...string) table.Part {
	return table.Records(records, func(r T) []string {
		s := of(r)
		state, _ := s.State.Said(s.Reason)
		return slices.Concat([]string{s.ID, state}, cells(r), []string{s.Error})
	}, slices.Concat([]string{"Server", "State"}, head, []string{"Error"})...)
}

// NoServers says that a config has no servers to connect to.
func NoServers(cfg *config.Config) string {
	what := "servers"
	if len(cfg.Servers) > 0 {
		what = "enabled servers"
	}
	return "no " + what + " in " + printable.Line(cfg.Path, 200)
}

// Probed returns the server of a report.
func Probed(r session.Report) status.Summary {
	st := status.ServerStatus{ID: r.Server.ID, Transport: cmp.Or(r.Info.Transport, r.Server.Transport), State: r.State(), Info: r.Info, Lists: r.Lists}
	if r.Err != nil {
		st.Error = r.Err.Error()
	}
	return status.Summarize(&st)
}
