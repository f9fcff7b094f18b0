package tui

import (
	"context"
	"fmt"
	"log/slog"
	"sort"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
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
	tabCalls
	tabs
)

// serverPage shows one server: what it offers, what happened to it, and its log.
type serverPage struct {
	id     string
	tab    int
	detail *ServerDetail // nil until it is loaded
	log    *serverLog
	list   table     // of what the server offers
	events eventList // of the timeline
	text   textView  // of the log
	calls  callsPage
	// byChange sorts lists by last change.
	byChange bool
}

// newServerPage returns a server's page, open at the first list that has something, or at the timeline.
func newServerPage(m *model, id string) *serverPage {
	p := &serverPage{id: id, calls: callsPage{server: id}}
	for p.tab < tabTimeline && p.has(m, p.tab) == 0 {
		p.tab++
	}
	return p
}

// has returns how many items the list of a tab has.
func (p *serverPage) has(m *model, tab int) int {
	if p.detail != nil {
		return len(p.detail.Lists[kinds()[tab]])
	}
	s := p.server(m)
	return []int{s.Resources, s.Tools, s.Prompts, s.Skills}[tab]
}

func (p *serverPage) keys(m *model) []string {
	switch p.tab {
	case tabTimeline, tabCalls:
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
	return append(keys, "L log", "c calls")
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
	switch p.tab {
	case tabCalls:
		return tea.Batch(detail, p.calls.load(m, p))
	case tabLog:
	default:
		return detail
	}
	return tea.Batch(detail, m.ask(p, func(ctx context.Context) (any, error) {
		lines, err := source.Log(ctx, id)
		return &serverLog{lines, err}, nil
	}))
}

func (p *serverPage) concerns(e *event.Event) bool { return e.ServerID == p.id }

// live reports true for the log and the calls: a server may write to stderr, and a client may call, at any time.
func (p *serverPage) live() bool { return p.tab == tabLog || p.tab == tabCalls }

func (p *serverPage) loaded(m *model, v any) {
	switch v := v.(type) {
	case ServerDetail:
		p.detail = &v
		p.events = eventList{verbose: true, list: p.events.list}
	case *Calls:
		p.calls.loaded(m, v)
	case *serverLog:
		p.log = v
		p.text.set(p.logLines(m))
	}
}

// kinds are what the first tabs list.
func kinds() []catalog.Kind {
	return []catalog.Kind{catalog.Resources, catalog.Tools, catalog.Prompts, catalog.Skills}
}

// rows returns what the tab lists, as far as it matches the filter.
func (p *serverPage) rows(m *model) (rows []Row) {
	if p.tab < tabTimeline {
		for _, r := range p.loadedDetail().Lists[kinds()[p.tab]] {
			if fits(m.filter, r.Key, r.About) {
				rows = append(rows, r)
			}
		}
	}
	if p.byChange {
		sort.SliceStable(rows, func(i, j int) bool { return rows[i].Changed.After(rows[j].Changed) })
	}
	p.list.follow(keysOf(rows))
	return rows
}

func keysOf(rows []Row) (keys []string) {
	for _, r := range rows {
		keys = append(keys, r.Key)
	}
	return keys
}

// loadedDetail returns what is known of the server.
func (p *serverPage) loadedDetail() ServerDetail {
	if p.detail == nil {
		return ServerDetail{}
	}
	return *p.detail
}

func (p *serverPage) uri(m *model) string {
	switch rows := p.rows(m); {
	case p.tab == tabResources && len(rows) > 0:
		return rows[p.list.cursor].Key
	case p.tab == tabTimeline:
		return p.events.uri()
	}
	return ""
}

func (p *serverPage) key(m *model, key string) tea.Cmd {
	if tab, ok := tabOf(key, p.tab, tabs); ok {
		for strings.HasSuffix(key, "tab") && tab < tabTimeline && p.has(m, tab) == 0 {
			tab, _ = tabOf(key, tab, tabs)
		}
		return p.show(m, tab)
	}
	switch key {
	case "L":
		return p.show(m, tabLog)
	case "c":
		return p.show(m, tabCalls)
	case "r", "e":
		return m.ofServer(key, p.id)
	case "s":
		if p.tab < tabTimeline {
			p.byChange = m.sort(p.byChange, "name")
		}
		return nil
	}
	switch p.tab {
	case tabTimeline:
		return p.events.key(m, key, p.loadedDetail().Timeline, 0)
	case tabLog:
		p.text.move(key)
		return nil
	case tabCalls:
		return p.calls.key(m, key)
	}
	switch chosen := p.list.choose(key, keysOf(p.rows(m))); {
	case chosen == "":
	case p.tab != tabResources && isOpen(key):
		return m.push(newItemPage(m, p.id, kinds()[p.tab], chosen))
	case isOpen(key):
		return m.push(&resourcePage{server: p.id, of: chosen})
	case p.tab == tabResources && key == "d":
		return m.push(&resourcePage{server: p.id, of: chosen, tab: tabDiff})
	}
	return nil
}

// show switches to a tab of the page and reloads.
func (p *serverPage) show(m *model, tab int) tea.Cmd {
	p.tab, p.list = tab, table{}
	p.text = textView{list: list{tail: tab == tabLog}}
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

func (p *serverPage) view(m *model, height int) []string {
	s, d := p.server(m), p.loadedDetail()
	said := []string{m.styles.state(s).Paint(m.stateOf(s)), "for " + since(m.now, s.Since)}
	if failing := d.failing(); s.Error != "" && !failing.IsZero() {
		said[1] = "failing for " + since(m.now, failing)
	}
	next, _ := time.Parse(time.RFC3339, s.NextRetry) // empty if none is planned
	connected := s.State == event.Ready || s.State == event.Unsupported || s.StillConnected
	switch {
	case next.After(m.now):
		said = append(said, "next attempt in "+next.Sub(m.now).Round(time.Second).String())
	case connected:
		said = append(said, line(s.ProtocolVersion))
	}
	if s.Reason != "" && !s.State.Dormant(s.Reason) {
		said = append(said, line(s.Reason))
	}
	if !connected && p.tab < tabTimeline && p.has(m, p.tab) > 0 {
		said = append(said, "the list is of the last session")
	}
	if p.tab == tabTimeline {
		p.events.update(m, d.Timeline, 0)
	}
	at, ok := map[int]string{tabTimeline: position(p.events.list.cursor, len(p.events.rows)), tabLog: "", tabCalls: ""}[p.tab]
	if !ok {
		at = position(p.list.cursor, len(p.rows(m)))
	}
	var names []string
	for i, kind := range kinds() {
		names = append(names, fmt.Sprintf("%s%s %d", strings.ToUpper(string(kind[:1])), kind[1:], p.has(m, i)))
	}
	empty := func(tab int) bool { return tab < tabTimeline && p.has(m, tab) == 0 }
	out := []string{m.spread(" "+strings.Join(said, "  "), m.styles.dim.Paint(at)), m.tabs(append(names, "Timeline", "Log", "Calls"), p.tab, empty)}
	for _, l := range indented(line(s.Error), m.width) {
		out = append(out, m.styles.bad.Paint(l))
	}
	out = out[:min(len(out), max(2, height-6))] // the timeline has the whole error, too
	height -= len(out)
	switch p.tab {
	case tabLog:
		return append(out, p.viewLog(m, height)...)
	case tabTimeline:
		none := "Nothing happened to this server since the start."
		if m.filter != "" {
			none = "No event matches the filter."
		}
		return append(out, p.events.view(m, height, true, none)...)
	case tabCalls:
		return append(out, p.calls.view(m, height)...)
	}
	return append(out, p.viewList(m, height)...)
}

// viewList returns the heading and the rows of what the tab lists.
func (p *serverPage) viewList(m *model, height int) []string {
	rows, what := p.rows(m), strings.TrimSuffix(string(kinds()[p.tab]), "s")
	columns := []column{{head: changedHeading(p.byChange), spare: 1}, {head: strings.ToUpper(what), kind: name}, {head: "DESCRIPTION", kind: sentence}}
	if p.tab == tabResources {
		columns = []column{columns[0], {head: "URI", kind: name}, {head: "TYPE", spare: 2}, {head: "SIZE", kind: right, spare: 3}}
	}
	return p.list.view(m, columns, "", len(rows), height, p.list.cursor, p.empty(m, what), func(i int) []cell {
		r := rows[i]
		age := since(m.now, r.Changed)
		if r.Gone {
			age = "gone"
		}
		cells := []cell{{age, m.styles.dim}, {line(r.Key), m.styles.bold}, {text: line(r.About)}}
		if p.tab == tabResources {
			cells[1].style = ""
			cells = append(cells, cell{text: printable.Size(r.Size)})
		}
		return cells
	})
}

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
		var style termtext.Colour
		if l.Level == slog.LevelWarn.String() || l.Level == slog.LevelError.String() {
			style = m.styles.bad
		}
		text := l.Time.Local().Format("15:04:05 ") + pad(line(l.Level), 6) + " " + line(l.Text)
		out = append(out, textLine{text: text, style: style, indent: 16})
	}
	return out
}

func (p *serverPage) viewLog(m *model, height int) []string {
	none := "No line matches the filter."
	switch {
	case p.log == nil:
		none = "loading…"
	case p.log.err != nil:
		none = line(p.log.err.Error())
	case len(p.log.lines) == 0:
		none = "Nothing was logged about this server, and it wrote nothing to stderr."
	default:
		if shown := p.text.view(m.width, height, m.filter); len(shown) > 0 {
			return shown
		}
	}
	return append([]string{""}, indented(none, m.width)...)
}

// tabs returns a line with the names of the tabs; those that are empty are dim. If there is too little room, the
// empty ones have no names, and then only the current one has.
func (m *model) tabs(names []string, current int, empty func(tab int) bool) (text string) {
	for narrow := range 3 {
		text = ""
		for i, name := range names {
			tab := fmt.Sprintf(" %d %s ", i+1, name)
			if i != current && (narrow == 2 || narrow == 1 && empty(i)) {
				tab = fmt.Sprintf(" %d ", i+1)
			}
			switch {
			case i == current:
				tab = m.styles.selected.Paint("[" + tab[1:len(tab)-1] + "]")
			case empty(i):
				tab = m.styles.dim.Paint(tab)
			}
			text += tab
		}
		if ansi.StringWidth(text) <= m.width {
			break
		}
	}
	return text
}
