package tui

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/mcptrack/mcptrack/core/event"
)

// serversPage lists the servers, with the feed below.
type serversPage struct {
	list     list
	selected string // id of the selected server; the cursor stays on it when rows move
}

func (p *serversPage) title() string          { return "" }
func (p *serversPage) open(*model) tea.Cmd    { return nil }
func (p *serversPage) loaded(_ *model, _ any) {}
func (p *serversPage) uri(*model) string      { return "" }

func (p *serversPage) live() bool { return false }

func (p *serversPage) concerns(*event.Event) bool { return false }

func (p *serversPage) rows(m *model) []Server {
	var rows []Server
	for _, s := range m.servers {
		if fits(m.filter, s.ID, string(s.State), s.Error) {
			rows = append(rows, s)
		}
	}
	p.list.clamp(len(rows))
	for i, s := range rows {
		if s.ID == p.selected {
			p.list.cursor = i
		}
	}
	return rows
}

func (p *serversPage) key(m *model, key string) tea.Cmd {
	rows := p.rows(m)
	if len(rows) == 0 {
		return nil
	}
	if p.list.move(key, len(rows), p.height(m.height-2, len(rows))) {
		p.selected = rows[p.list.cursor].ID
		return nil
	}
	p.selected = rows[p.list.cursor].ID
	switch key {
	case "enter", "right", "l":
		return m.push(&serverPage{id: p.selected})
	case "L":
		return m.push(&serverPage{id: p.selected, tab: tabLog, text: scroller{tail: true}})
	case "r":
		return m.reconnect(p.selected)
	}
	return nil
}

// height returns how many servers are visible: at most three fifths of the screen, so that the
// feed has the rest.
func (p *serversPage) height(height, rows int) int { return min(rows, max(3, height*3/5)) }

func (p *serversPage) view(m *model, height int) []string {
	rows := p.rows(m)
	id := 12
	for _, s := range rows {
		id = max(id, min(len(line(s.ID)), 28))
	}
	spark := sparks
	if m.width < 110 {
		spark = sparks / 2
	}
	format := func(server, age, resources, tools, rate, sparks, last string) string {
		return fmt.Sprintf("%s %s %s %s %s  %s  %s", pad(server, id), pad(age, 5), right(resources, 5), right(tools, 5), right(rate, 5), pad(sparks, spark), last)
	}
	lines := []string{m.styles.dim.Render(" " + pad("STATE", stateWidth) + " " + format("SERVER", "AGE", "RES", "TOOLS", "/MIN", "2 MINUTES", "LAST ERROR"))}
	from, to := p.list.window(len(rows), p.height(height, len(rows)))
	for i := from; i < to; i++ {
		s := rows[i]
		counts, perMinute := m.feed.of(s.ID)
		text := format(line(s.ID), since(m.now, s.Since), fmt.Sprint(s.Resources), fmt.Sprint(s.Tools), fmt.Sprint(perMinute), sparkline(counts[sparks-spark:]), line(s.Error))
		lines = append(lines, m.row(m.styles.state(s.State), pad(string(s.State), stateWidth), text, i == p.list.cursor))
	}
	switch {
	case len(m.servers) == 0:
		lines = append(lines, "", "  There are no servers to follow.")
	case len(rows) == 0:
		lines = append(lines, "", "  No server matches the filter.")
	case to < len(rows):
		lines = append(lines, m.styles.dim.Render(fmt.Sprintf("  %d more", len(rows)-to)))
	}
	between := strings.Repeat("─", m.width)
	if len(rows) > 0 && rows[p.list.cursor].Error != "" { // show the error below: its column may be too narrow
		between = "── " + line(rows[p.list.cursor].Error) + " " + between
	}
	lines = append(lines, m.styles.dim.Render(cut(between, m.width)))
	return append(lines, m.feed.lines(height-len(lines), func(e *event.Event) bool {
		return fits(m.filter, e.ServerID, e.ResourceURI, string(e.Type()))
	})...)
}

// stateWidth is the width of the longest state.
const stateWidth = 12

// row returns one row of a list. Its first column has a style; the selected row is marked.
func (m *model) row(style lipgloss.Style, first, rest string, selected bool) string {
	if selected {
		return m.styles.selected.Render(pad("▸"+first+" "+rest, m.width))
	}
	return " " + style.Render(first) + " " + rest
}

func right(s string, width int) string {
	return strings.Repeat(" ", max(0, width-len(s))) + s
}
