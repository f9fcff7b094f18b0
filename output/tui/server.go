package tui

import (
	"context"
	"encoding/json"
	"fmt"
	"github.com/mcptrack/mcptrack/core/printable"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/output/serverlog"
	"github.com/mcptrack/mcptrack/output/termtext"
)

// The tabs of a server's page.
const (
	tabResources = iota
	tabTools
	tabPrompts
	tabSkills
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
	list   list      // of resources, tools, prompts or skills
	events eventList // of the timeline
	text   textView  // of the log
	// byChange sorts lists by last change.
	byChange bool
	uriWidth int // width of the widest URI that was shown
}

func (p *serverPage) keys(m *model) []string {
	switch p.tab {
	case tabTimeline:
		return []string{"enter details", "tab next", "/ filter"}
	case tabLog:
		return []string{"tab next", "up/down scroll", "g/G start/end", "/ filter"}
	}
	keys := []string{"enter open", "tab next", "s sort", "/ filter", "e events"}
	if p.tab == tabResources {
		keys = append(keys[:1], append([]string{"d diff"}, keys[1:]...)...)
	}
	if m.opts.Reconnect != nil {
		keys = append(keys, "r reconnect")
	}
	return append(keys, "L log")
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

func (p *serverPage) loaded(m *model, v any) {
	switch v := v.(type) {
	case ServerDetail:
		p.detail = &v
		p.events = eventList{verbose: true, list: p.events.list, away: p.events.away}
	case *serverLog:
		p.log = v
		p.text.set(p.logLines(m))
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
	if p.byChange {
		slices.SortStableFunc(rows, func(a, b ResourceRow) int { return b.Changed.Compare(a.Changed) })
	}
	return rows
}

// items returns the tools, prompts or skills of the tab that match the filter.
func (p *serverPage) items(m *model) (rows []ItemRow) {
	if p.detail == nil {
		return nil
	}
	for _, it := range p.detail.Lists[p.kind()] {
		if fits(m.filter, it.Name, it.Description) {
			rows = append(rows, it)
		}
	}
	if p.byChange {
		slices.SortStableFunc(rows, func(a, b ItemRow) int { return p.changed(b.Name).Compare(p.changed(a.Name)) })
	}
	return rows
}

// changed returns the time of the last event in the timeline that names an item of the tab.
func (p *serverPage) changed(name string) time.Time {
	for _, e := range slices.Backward(p.detail.Timeline) {
		if l, ok := e.Payload.(event.ListChanged); ok && l.List == p.kind() && (slices.Contains(l.Added, name) || slices.Contains(l.Changed, name)) {
			return e.Timestamp
		}
	}
	return time.Time{}
}

// kinds are the kinds of the tabs that list items, from tabTools on.
func kinds() []catalog.Kind { return []catalog.Kind{catalog.Tools, catalog.Prompts, catalog.Skills} }

func (p *serverPage) kind() catalog.Kind { return kinds()[p.tab-tabTools] }

func (p *serverPage) uri(m *model) string {
	switch rows := p.resources(m); {
	case p.tab == tabResources && p.list.cursor < len(rows):
		return rows[p.list.cursor].URI
	case p.tab == tabTimeline && p.events.selected() != nil:
		return p.events.selected().ResourceURI
	}
	return ""
}

func (p *serverPage) key(m *model, key string) tea.Cmd {
	height := m.height - 5 - p.errorLines(m)
	switch key {
	case "tab":
		return p.show(m, (p.tab+1)%tabs)
	case "shift+tab":
		return p.show(m, (p.tab+tabs-1)%tabs)
	case "1", "2", "3", "4", "5", "6":
		return p.show(m, int(key[0]-'1'))
	case "L":
		return p.show(m, tabLog)
	case "r":
		return m.reconnect(p.id)
	case "e":
		return m.push(newFeedPage(p.id))
	case "s":
		if p.tab <= tabSkills {
			p.byChange = !p.byChange
			m.notice = map[bool]string{true: "sorted by last change", false: "sorted by name"}[p.byChange]
		}
		return nil
	}
	switch p.tab {
	case tabTimeline:
		p.updateTimeline(m)
		return p.events.key(m, key, height)
	case tabLog:
		p.text.move(key, m.width, height+1)
		return nil
	case tabResources:
		return p.resourceKey(m, key, height)
	}
	items := p.items(m)
	p.list.follow(len(items), func(i int) string { return items[i].Name })
	if len(items) == 0 {
		return nil
	}
	moved := p.list.move(key, len(items), height)
	it := items[p.list.cursor]
	p.list.key = it.Name
	if !moved && (key == "enter" || key == "right" || key == "l") {
		return m.push(newItemPage(m, p.id, p.kind(), it.Name))
	}
	return nil
}

func (p *serverPage) resourceKey(m *model, key string, height int) tea.Cmd {
	rows := p.resources(m)
	p.list.follow(len(rows), func(i int) string { return rows[i].URI })
	if len(rows) == 0 {
		return nil
	}
	moved := p.list.move(key, len(rows), height)
	p.list.key = rows[p.list.cursor].URI
	if moved {
		return nil
	}
	switch key {
	case "enter", "right", "l":
		return m.push(&resourcePage{server: p.id, of: p.list.key})
	case "d":
		return m.push(&resourcePage{server: p.id, of: p.list.key, tab: tabDiff})
	}
	return nil
}

// newItemPage returns a page with the descriptor of an item.
func newItemPage(m *model, server string, kind catalog.Kind, name string) *textPage {
	source := m.opts.Source
	return &textPage{name: name, server: server, load: func(ctx context.Context) ([]textLine, error) {
		d, err := source.Detail(ctx, server)
		if err != nil {
			return nil, err
		}
		for _, it := range d.Lists[kind] {
			if it.Name == name {
				return itemLines(m, it), nil
			}
		}
		return []textLine{{text: "The server no longer offers this."}}, nil
	}}
}

// itemLines returns the description of an item and then each other member of its descriptor, such as
// the input schema.
func itemLines(m *model, it ItemRow) (out []textLine) {
	for _, l := range split(it.Description) {
		out = append(out, textLine{text: l})
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(it.Raw, &members) != nil {
		return out
	}
	delete(members, "name")
	delete(members, "description")
	names := slices.Sorted(maps.Keys(members))
	if i := slices.Index(names, "inputSchema"); i > 0 {
		names = slices.Insert(slices.Delete(names, i, i+1), 0, "inputSchema")
	}
	for _, name := range names {
		out = append(out, textLine{}, textLine{text: words(name), style: m.styles.bold})
		for _, l := range pretty(m, members[name]) {
			l.style = lipgloss.NewStyle()
			out = append(out, l)
		}
	}
	return out
}

// words returns the name of a JSON member as words: inputSchema becomes INPUT SCHEMA.
func words(member string) string {
	var b strings.Builder
	for _, r := range line(member) {
		if unicode.IsUpper(r) {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToUpper(r))
	}
	return b.String()
}

// show switches to a tab of the page and reloads.
func (p *serverPage) show(m *model, tab int) tea.Cmd {
	p.tab, p.list = tab, list{}
	p.text = textView{scroller: scroller{tail: tab == tabLog}}
	return p.open(m)
}

func (p *serverPage) server(m *model) ServerRow {
	for _, s := range m.servers {
		if s.ID == p.id {
			return s
		}
	}
	return ServerRow{Summary: status.Summary{ID: p.id, State: "removed"}}
}

// maxErrorLines bounds the error shown above the lists; the log has the whole error.
const maxErrorLines = 4

func (p *serverPage) errorLines(m *model) int { return len(p.wrappedError(m)) }

func (p *serverPage) wrappedError(m *model) []string {
	all := termtext.Wrap(line(p.server(m).Error), m.width-2)
	return all[:min(len(all), maxErrorLines)]
}

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
	names := []string{"Resources" + count(len(d.Resources)), "Tools" + count(len(d.Lists[catalog.Tools])), "Prompts" + count(len(d.Lists[catalog.Prompts])),
		"Skills" + count(len(d.Lists[catalog.Skills])), "Timeline", "Log"}
	out := []string{
		fmt.Sprintf(" %s  since %s  %s", m.styles.state(s.State).Render(m.stateOf(s)), since(m.now, s.Since), line(s.ProtocolVersion)),
		m.tabs(names, p.tab),
	}
	for _, l := range p.wrappedError(m) {
		out = append(out, "  "+m.styles.bad.Render(l))
	}
	height -= len(out) + 1
	changed := "CHANGED"
	if p.byChange {
		changed += "↓"
	}
	switch p.tab {
	case tabLog:
		return append(out, p.viewLog(m, height+1)...)
	case tabTimeline:
		p.updateTimeline(m)
		out = append(out, m.heading(" TIME", position(p.events.list.cursor, len(p.events.rows))))
		if len(p.events.rows) == 0 {
			none := "Nothing happened to this server since the start."
			if m.filter != "" {
				none = "No event matches the filter."
			}
			return append(out, "", "  "+none)
		}
		return append(out, p.events.view(m, height, true)...)
	case tabResources:
		return append(out, p.viewResources(m, height, changed)...)
	}
	rows, what := p.items(m), map[int]string{tabTools: "tool", tabPrompts: "prompt", tabSkills: "skill"}[p.tab]
	p.list.follow(len(rows), func(i int) string { return rows[i].Name })
	out = append(out, m.heading(" "+pad(changed, changedWidth)+" "+pad(strings.ToUpper(what), 28)+" DESCRIPTION", position(p.list.cursor, len(rows))))
	if len(rows) == 0 {
		return append(out, "", "  "+p.empty(m, what))
	}
	from, to := p.list.window(len(rows), height)
	for i := from; i < to; i++ {
		text := pad(since(m.now, p.changed(rows[i].Name)), changedWidth) + " " + m.styles.bold.Render(pad(line(rows[i].Name), 28)) + " " + line(rows[i].Description)
		out = append(out, m.marked(text, i == p.list.cursor))
	}
	return out
}

func (p *serverPage) updateTimeline(m *model) {
	var timeline []*event.Event
	if p.detail != nil {
		timeline = p.detail.Timeline
	}
	p.events.update(m, timeline, 0)
}

func (p *serverPage) viewResources(m *model, height int, changed string) []string {
	rows := p.resources(m)
	p.list.follow(len(rows), func(i int) string { return rows[i].URI })
	from, to := p.list.window(len(rows), height)
	for _, r := range rows[from:to] {
		p.uriWidth = max(p.uriWidth, ansi.StringWidth(line(r.URI)))
	}
	const others = 1 + changedWidth + 1 + 1 + typeWidth + 1 + sizeWidth
	width := min(max(p.uriWidth, 20), max(m.width-others, 20))
	heading := " " + pad(changed, changedWidth) + " " + pad("URI", width) + " TYPE"
	if width+others+12 < m.width { // there is space for the position
		heading = pad(heading, others+width-sizeWidth) + right("SIZE", sizeWidth)
	}
	out := []string{m.heading(heading, position(p.list.cursor, len(rows)))}
	if len(rows) == 0 {
		return append(out, "", "  "+p.empty(m, "resource"))
	}
	for i := from; i < to; i++ {
		r := rows[i]
		state := since(m.now, r.Changed)
		if r.Gone {
			state = "gone"
		}
		text := fmt.Sprintf("%s %s %s %s", m.styles.dim.Render(pad(state, changedWidth)), middle(line(r.URI), width), pad(line(r.MimeType), typeWidth), right(printable.Size(r.Size), sizeWidth))
		out = append(out, m.marked(text, i == p.list.cursor))
	}
	return out
}

// Widths of the columns of resources.
const (
	changedWidth = 8
	typeWidth    = 16
	sizeWidth    = 9
)

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

// logLines returns the lines of the log.
func (p *serverPage) logLines(m *model) (out []textLine) {
	for _, l := range p.log.lines {
		style := lipgloss.NewStyle()
		if l.Level == slog.LevelWarn.String() || l.Level == slog.LevelError.String() {
			style = m.styles.bad
		}
		text := l.Time.Local().Format("15:04:05 ") + pad(line(l.Level), 6) + " " + line(l.Text)
		out = append(out, textLine{text: text, style: style, indent: 16})
	}
	return out
}

func (p *serverPage) viewLog(m *model, height int) []string {
	switch {
	case p.log == nil:
		return []string{"", "  loading…"}
	case p.log.err != nil:
		return []string{"", "  " + line(p.log.err.Error())}
	case len(p.log.lines) == 0:
		return []string{"", "  Nothing was logged about this server, and it wrote nothing to stderr."}
	case m.filter == "":
		return p.text.view(m.width, height)
	}
	found := textView{}
	for _, l := range p.text.lines {
		if fits(m.filter, l.text) {
			found.lines = append(found.lines, l)
		}
	}
	if len(found.lines) == 0 {
		return []string{"", "  No line matches the filter."}
	}
	found.scroller = scroller{tail: true}
	return found.view(m.width, height)
}

// tabs returns a line with the names of the tabs.
func (m *model) tabs(names []string, current int) string {
	var b strings.Builder
	narrow := ansi.StringWidth(strings.Join(names, "    ")) > m.width-4
	for i, name := range names {
		if narrow && i != current { // only the number
			name = ""
		}
		text := fmt.Sprintf(" %d %s ", i+1, name)
		if i == current {
			text = m.styles.selected.Render("[" + text[1:len(text)-1] + "]")
		}
		b.WriteString(text)
	}
	return b.String()
}
