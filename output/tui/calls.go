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

// callsPage lists calls of tools, the newest first.
type callsPage struct {
	basePage
	server   string // empty selects all servers
	recorded *Calls // nil until it is loaded
	list     table
}

func (p *callsPage) title() string          { return "calls" }
func (p *callsPage) uri(*model) string      { return "" }
func (p *callsPage) live() bool             { return true } // a client may call at any time
func (p *callsPage) loaded(_ *model, v any) { p.recorded, _ = v.(*Calls) }

func (p *callsPage) keys(*model) []string {
	return []string{"enter details", "/ filter", "g/G first/last"}
}

func (p *callsPage) open(m *model) tea.Cmd { return p.load(m, p) }

// load requests the calls for a page.
func (p *callsPage) load(m *model, of page) tea.Cmd {
	source, server := m.opts.Source, p.server
	return m.ask(of, func(ctx context.Context) (any, error) { return source.Calls(ctx, server) })
}

// rows returns the calls that match the filter.
func (p *callsPage) rows(m *model) (rows []calls.Call) {
	if p.recorded == nil {
		return nil
	}
	for _, c := range slices.Backward(p.recorded.Calls) {
		if fits(m.filter, c.Client, c.ServerID, c.Tool, c.Outcome.Words()) {
			rows = append(rows, c)
		}
	}
	p.list.follow(callIDs(rows))
	return rows
}

func callIDs(rows []calls.Call) (ids []string) {
	for _, c := range rows {
		ids = append(ids, fmt.Sprint(c.ID))
	}
	return ids
}

// key moves the cursor, or shows the selected call.
func (p *callsPage) key(m *model, key string) tea.Cmd {
	rows := p.rows(m)
	if p.list.choose(key, callIDs(rows)) == "" || !isOpen(key) {
		return nil
	}
	c := rows[p.list.cursor]
	return m.push(&textPage{name: c.Tool + " " + c.Time().Local().Format("15:04:05"), text: textView{lines: p.recorded.describe(m, &c)}})
}

func (p *callsPage) view(m *model, height int) []string {
	rows := p.rows(m)
	columns := []column{{head: "TIME"}, {head: "CLIENT", kind: name, spare: 2}, {head: "SERVER", kind: name, spare: 3}, {head: "TOOL", kind: name}, {head: "RESULT"}, {head: "TOOK", kind: right}, {head: "SIZE", kind: right, spare: 4}}
	none := "No client has called a tool yet, through the daemon or a gateway of this machine."
	if p.recorded == nil {
		none = "loading…"
	} else if m.filter != "" {
		none = "No call matches the filter."
	}
	return p.list.view(m, columns, position(p.list.cursor, len(rows)), len(rows), height, p.list.cursor, none, func(i int) []cell {
		c := rows[i]
		style, at := m.styles.good, c.Time().Local().Format("15:04:05")
		if m.now.Sub(c.Time()) > 20*time.Hour {
			at = c.Time().Local().Format("Jan 2 15:04")
		}
		if c.Outcome != calls.OK {
			style = m.styles.bad
		}
		return []cell{{at, m.styles.dim}, {text: line(c.Client)}, {text: line(c.ServerID)}, {line(c.Tool), m.styles.bold}, {c.Outcome.Words(), style}, {text: calls.Took(c.Duration)}, {text: printable.Size(c.Bytes)}}
	})
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
			return fmt.Sprintf("%s, p50 %s, p95 %s, %d with a tool error, %d with an error", printable.Plural(t.Calls, "call"), ms(t.P50), ms(t.P95), t.ToolErrors, t.Errors)
		}
	}
	return "No call is recorded."
}
