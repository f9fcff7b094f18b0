package tui

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/output/lines"
	"github.com/mcptrack/mcptrack/output/serverlog"
)

// The tabs of a server's page.
const (
	tabResources = iota
	tabTools
	tabPrompts
	tabTimeline
	tabLog
	tabs
)

// serverPage shows one server: what it offers, what happened to it, and its log.
type serverPage struct {
	id     string
	tab    int
	detail *ServerDetail // nil until it is loaded
	log    *serverLog
	list   list
	text   scroller
}

func (p *serverPage) title() string { return line(p.id) }

// serverLog is the result of a request for the log.
type serverLog struct {
	lines []serverlog.Line
	err   error
}

func (p *serverPage) open(m *model) tea.Cmd {
	id, source := p.id, m.opts.Source
	detail := m.ask(p, func(ctx context.Context) (any, error) { return source.Detail(ctx, id) })
	if p.tab != tabLog {
		return detail
	}
	return tea.Batch(detail, m.ask(p, func(ctx context.Context) (any, error) {
		lines, err := source.Log(ctx, id)
		return &serverLog{lines, err}, nil
	}))
}

func (p *serverPage) concerns(e *event.Event) bool { return e.ServerID == p.id }

// live reports true for the log: a server may write to stderr at any time.
func (p *serverPage) live() bool { return p.tab == tabLog }

func (p *serverPage) loaded(_ *model, v any) {
	switch v := v.(type) {
	case ServerDetail:
		p.detail = &v
	case *serverLog:
		p.log = v
	}
}

func (p *serverPage) resources(m *model) (rows []ResourceRow) {
	if p.detail == nil {
		return nil
	}
	for _, r := range p.detail.Resources {
		if fits(m.filter, r.URI, r.MimeType) {
			rows = append(rows, r)
		}
	}
	return rows
}

func (p *serverPage) uri(m *model) string {
	if rows := p.resources(m); p.tab == tabResources && p.list.cursor < len(rows) {
		return rows[p.list.cursor].URI
	}
	return ""
}

func (p *serverPage) key(m *model, key string) tea.Cmd {
	height := m.height - 4 - p.errorLines(m)
	switch key {
	case "tab":
		return p.show(m, (p.tab+1)%tabs)
	case "shift+tab":
		return p.show(m, (p.tab+tabs-1)%tabs)
	case "1", "2", "3", "4", "5":
		return p.show(m, int(key[0]-'1'))
	case "L":
		return p.show(m, tabLog)
	case "r":
		return m.reconnect(p.id)
	}
	if p.tab != tabResources {
		p.text.move(key, len(p.lines(m)), height)
		return nil
	}
	rows := p.resources(m)
	if p.list.move(key, len(rows), height) || len(rows) == 0 {
		return nil
	}
	switch key {
	case "enter", "right", "l":
		return m.push(&resourcePage{server: p.id, of: rows[p.list.cursor].URI})
	case "d":
		return m.push(&resourcePage{server: p.id, of: rows[p.list.cursor].URI, tab: tabDiff})
	}
	return nil
}

// show switches to a tab of the page and reloads.
func (p *serverPage) show(m *model, tab int) tea.Cmd {
	p.tab, p.text = tab, scroller{tail: tab == tabTimeline || tab == tabLog}
	return p.open(m)
}

func (p *serverPage) server(m *model) ServerRow {
	for _, s := range m.servers {
		if s.ID == p.id {
			return s
		}
	}
	return ServerRow{ID: p.id, State: "removed"}
}

// maxErrorLines bounds the error shown above the lists; the log has the whole error.
const maxErrorLines = 4

func (p *serverPage) errorLines(m *model) int { return len(wrap(line(p.server(m).Error), m.width-2)) }

func (p *serverPage) view(m *model, height int) []string {
	s := p.server(m)
	count := func(n int) string {
		if p.detail == nil {
			return ""
		}
		return fmt.Sprintf(" %d", n)
	}
	var d ServerDetail
	if p.detail != nil {
		d = *p.detail
	}
	names := []string{"Resources" + count(len(d.Resources)), "Tools" + count(len(d.Tools)), "Prompts" + count(len(d.Prompts)), "Timeline", "Log"}
	out := []string{
		fmt.Sprintf(" %s  since %s  %s", m.styles.state(s.State).Render(string(s.State)), since(m.now, s.Since), line(s.Protocol)),
		m.tabs(names, p.tab),
	}
	for _, l := range wrap(line(s.Error), m.width-2) {
		out = append(out, "  "+m.styles.bad.Render(l))
	}
	height -= len(out)
	if p.tab != tabResources {
		return append(out, p.text.window(p.lines(m), height)...)
	}
	rows := p.resources(m)
	if len(rows) == 0 {
		return append(out, "", "  "+p.empty(m, "resource"))
	}
	width := max(m.width-34, 20)
	from, to := p.list.window(len(rows), height)
	for i := from; i < to; i++ {
		r := rows[i]
		state := since(m.now, r.Changed)
		if r.Gone {
			state = "gone"
		}
		text := fmt.Sprintf("%s %s %s", middle(line(r.URI), width), pad(line(r.MimeType), 14), right(lines.Size(r.Size), 10))
		out = append(out, m.row(m.styles.dim, pad(state, ageWidth), text, i == p.list.cursor))
	}
	return out
}

// ageWidth is the width of the longest age.
const ageWidth = 5

func (p *serverPage) empty(m *model, what string) string {
	switch {
	case p.detail == nil:
		return "loading…"
	case m.filter != "":
		return "No " + what + " matches the filter."
	}
	return "There is no " + what + " here."
}

// lines returns the lines of a tab without a cursor.
func (p *serverPage) lines(m *model) []string {
	var d ServerDetail
	if p.detail != nil {
		d = *p.detail
	}
	switch p.tab {
	case tabTools:
		return p.items(m, d.Tools, "tool")
	case tabPrompts:
		return p.items(m, d.Prompts, "prompt")
	case tabTimeline:
		return p.orNone(m, eventLines(d.Timeline, m.opts.Colour, true), "Nothing happened to this server since the start.")
	}
	if p.log == nil {
		return []string{"", "  loading…"}
	}
	if p.log.err != nil {
		return []string{"", "  " + line(p.log.err.Error())}
	}
	out := make([]string, 0, len(p.log.lines))
	for _, l := range p.log.lines {
		level := pad(line(l.Level), 6)
		if l.Level == slog.LevelWarn.String() || l.Level == slog.LevelError.String() {
			level = m.styles.bad.Render(level)
		}
		out = append(out, l.Time.Local().Format("15:04:05 ")+level+" "+line(l.Text))
	}
	return p.orNone(m, out, "Nothing was logged about this server, and it wrote nothing to stderr.")
}

// orNone returns the lines that match the filter, or the line none if there are none.
func (p *serverPage) orNone(m *model, lines []string, none string) []string {
	lines = slices.DeleteFunc(lines, func(l string) bool { return !fits(m.filter, ansi.Strip(l)) })
	switch {
	case p.detail == nil && p.tab == tabTimeline:
		none = "loading…"
	case m.filter != "":
		none = "No line matches the filter."
	}
	if len(lines) == 0 {
		return []string{"", "  " + none}
	}
	return lines
}

func (p *serverPage) items(m *model, items []ItemRow, what string) []string {
	var out []string
	for _, it := range items {
		if fits(m.filter, it.Name, it.Description) {
			out = append(out, " "+m.styles.bold.Render(pad(line(it.Name), 28))+" "+line(it.Description))
		}
	}
	if len(out) == 0 {
		return []string{"", "  " + p.empty(m, what)}
	}
	return out
}

// tabs returns a line with the names of the tabs.
func (m *model) tabs(names []string, current int) string {
	var b strings.Builder
	for i, name := range names {
		text := fmt.Sprintf(" %d %s ", i+1, name)
		if i == current {
			text = m.styles.selected.Render("[" + text[1:len(text)-1] + "]")
		}
		b.WriteString(text)
	}
	return b.String()
}

// wrap breaks a text into at most maxErrorLines lines.
func wrap(s string, width int) (lines []string) {
	for s != "" && len(lines) < maxErrorLines {
		first := cutAt(s, width)
		lines = append(lines, first)
		s = strings.TrimLeft(s[len(first):], " ")
	}
	return lines
}
