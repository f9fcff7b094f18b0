package tui

import (
	"context"
	"fmt"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/mcptrack/mcptrack/core/calls"
	"github.com/mcptrack/mcptrack/core/printable"
)

// callList lists calls of tools, the newest first.
type callList struct {
	recorded *Calls // nil until it is loaded
	list     table
}

func (m *model) askCalls(p page, server string) tea.Cmd {
	source := m.opts.Source
	return m.ask(p, func(ctx context.Context) (any, error) { return source.Calls(ctx, server) })
}

// rows returns the calls that match the filter.
func (l *callList) rows(m *model) (rows []calls.Call) {
	if l.recorded == nil {
		return nil
	}
	for _, c := range slices.Backward(l.recorded.Calls) {
		if fits(m.filter, c.Client, c.ServerID, c.Tool, c.Outcome.Words()) {
			rows = append(rows, c)
		}
	}
	l.list.follow(callIDs(rows))
	return rows
}

func callIDs(rows []calls.Call) (ids []string) {
	for _, c := range rows {
		ids = append(ids, fmt.Sprint(c.ID))
	}
	return ids
}

// key moves the cursor, or shows the selected call.
func (l *callList) key(m *model, key string) tea.Cmd {
	rows := l.rows(m)
	if l.list.choose(key, callIDs(rows)) == "" || !isOpen(key) {
		return nil
	}
	c := rows[l.list.cursor]
	return m.push(&textPage{name: c.Tool + " " + c.Time().Local().Format("15:04:05"), text: textView{lines: l.recorded.describe(m, &c)}})
}

func (l *callList) view(m *model, position string, height int) []string {
	rows := l.rows(m)
	columns := []column{{head: "TIME"}, {head: "CLIENT", kind: name, spare: 2}, {head: "SERVER", kind: name, spare: 3}, {head: "TOOL", kind: name}, {head: "RESULT"}, {head: "TOOK", kind: right}, {head: "SIZE", kind: right, spare: 4}}
	none := "No client has called a tool yet, through the daemon or a gateway of this machine."
	if l.recorded == nil {
		none = "loading…"
	} else if m.filter != "" {
		none = "No call matches the filter."
	}
	return l.list.view(m, columns, position, len(rows), height, l.list.cursor, none, func(i int) []cell {
		c := rows[i]
		style := m.styles.good
		if c.Outcome != calls.OK {
			style = m.styles.bad
		}
		return []cell{{c.Time().Local().Format(clock(m.now, c.Time())), m.styles.dim}, {text: line(c.Client)}, {text: line(c.ServerID)}, {line(c.Tool), m.styles.bold}, {c.Outcome.Words(), style}, {text: calls.Took(c.Duration)}, {text: printable.Size(c.Bytes)}}
	})
}

// clock returns the format of a time: with the date if it is not of today.
func clock(now, t time.Time) string {
	if now.Sub(t) < 20*time.Hour {
		return "15:04:05"
	}
	return "Jan 2 15:04"
}

// describe returns all that is known of a call.
func (c *Calls) describe(m *model, call *calls.Call) (out []textLine) {
	result := call.Outcome.Words()
	switch {
	case call.Outcome == calls.ToolError:
		result += ": the tool answered, and said that it failed"
	case call.Code != 0:
		result += fmt.Sprintf(" with the code %d: the client received no result", call.Code)
	case call.Outcome == calls.Error:
		result += ": the client did not wait for the answer"
	}
	for _, f := range [][2]string{
		{"time", call.Time().Local().Format("Monday, 2 January 2006 15:04:05.000")}, {"client", call.Client}, {"session", call.Session}, {"server", call.ServerID}, {"tool", call.Tool},
		{"result", result}, {"took", calls.Took(call.Duration)}, {"size", printable.Size(call.Bytes)}, {"id", fmt.Sprint(call.ID)},
	} {
		if f[1] != "" {
			out = append(out, textLine{text: " " + pad(f[0], 8) + " " + line(f[1]), indent: 10})
		}
	}
	return append(out, textLine{}, textLine{text: " Arguments and results are not recorded.", style: m.styles.dim}, textLine{},
		textLine{text: " CALLS OF THE TOOL", style: m.styles.bold}, textLine{text: " " + c.summary(call.ServerID, call.Tool)})
}

// summary returns the statistics of a tool in words.
func (c *Calls) summary(server, tool string) string {
	for _, t := range c.Tools {
		if t.ServerID == server && t.Tool == tool {
			ms := func(n float64) string { return calls.Took(time.Duration(n * float64(time.Millisecond))) }
			return fmt.Sprintf("%d calls, p50 %s, p95 %s, %d with a tool error, %d with an error", t.Calls, ms(t.P50), ms(t.P95), t.ToolErrors, t.Errors)
		}
	}
	return "No call is recorded."
}

// callsPage shows the calls of all servers.
type callsPage struct {
	basePage
	calls callList
}

func (p *callsPage) title() string     { return "calls" }
func (p *callsPage) uri(*model) string { return "" }
func (p *callsPage) live() bool        { return true }
func (p *callsPage) keys(*model) []string {
	return []string{"enter details", "/ filter", "g/G first/last"}
}
func (p *callsPage) open(m *model) tea.Cmd          { return m.askCalls(p, "") }
func (p *callsPage) loaded(_ *model, v any)         { p.calls.recorded, _ = v.(*Calls) }
func (p *callsPage) key(m *model, k string) tea.Cmd { return p.calls.key(m, k) }

func (p *callsPage) view(m *model, height int) []string {
	return p.calls.view(m, position(p.calls.list.cursor, len(p.calls.rows(m))), height)
}
