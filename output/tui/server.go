package tui

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sort"
	"strings"
	"unicode"

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
	tabs
)

// serverPage shows one server: what it offers, what happened to it, and its log.
type serverPage struct {
	id     string
	tab    int
	detail *ServerDetail // nil until it is loaded
	log    *serverLog
	list   list      // of what the server offers
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
		p.events = eventList{verbose: true, list: p.events.list}
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
		return p.show(m, tab)
	}
	switch key {
	case "L":
		return p.show(m, tabLog)
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

// newItemPage returns a page with the descriptor of an item.
func newItemPage(m *model, server string, kind catalog.Kind, name string) *textPage {
	source := m.opts.Source
	return &textPage{name: name, server: server, load: func(ctx context.Context) ([]textLine, error) {
		d, err := source.Detail(ctx, server)
		if err != nil {
			return nil, err
		}
		if i := slices.Index(keysOf(d.Lists[kind]), name); i >= 0 {
			return itemLines(m, d.Lists[kind][i]), nil
		}
		return []textLine{{text: "The server no longer offers this."}}, nil
	}}
}

// itemLines returns the description of an item and then each other member of its descriptor, such as
// the input schema.
func itemLines(m *model, it Row) (out []textLine) {
	for _, l := range split(it.About) {
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
			l.style = ""
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

// maxErrorLines bounds the error shown above the lists; the log has the whole error.
const maxErrorLines = 4

func (p *serverPage) view(m *model, height int) []string {
	s, d := p.server(m), p.loadedDetail()
	var names []string
	for _, kind := range kinds() {
		name := strings.ToUpper(string(kind[:1])) + string(kind[1:])
		if p.detail != nil {
			name += fmt.Sprintf(" %d", len(d.Lists[kind]))
		}
		names = append(names, name)
	}
	out := []string{
		fmt.Sprintf(" %s  since %s  %s", m.styles.state(s).Paint(m.stateOf(s)), since(m.now, s.Since), line(s.ProtocolVersion)),
		m.tabs(append(names, "Timeline", "Log"), p.tab),
	}
	why := termtext.Wrap(line(s.Error), m.width-2)
	for _, l := range why[:min(len(why), maxErrorLines)] {
		out = append(out, "  "+m.styles.bad.Paint(l))
	}
	height -= len(out)
	switch p.tab {
	case tabLog:
		return append(out, p.viewLog(m, height)...)
	case tabTimeline:
		none := "Nothing happened to this server since the start."
		if m.filter != "" {
			none = "No event matches the filter."
		}
		p.events.update(m, d.Timeline, 0)
		out = append(out, m.heading(" TIME", position(p.events.list.cursor, len(p.events.rows))))
		return append(out, p.events.view(m, height-1, true, none)...)
	}
	return append(out, p.viewList(m, height-1)...)
}

// viewList returns the heading and the rows of what the tab lists.
func (p *serverPage) viewList(m *model, height int) []string {
	rows, what := p.rows(m), strings.TrimSuffix(string(kinds()[p.tab]), "s")
	from, to := p.list.window(len(rows), height)
	layout := p.itemLayout(m, what)
	if p.tab == tabResources {
		layout = p.resourceLayout(m, rows[from:to])
	}
	out := []string{m.heading(" "+pad(changedHeading(p.byChange), changedWidth)+" "+layout.heading, position(p.list.cursor, len(rows)))}
	if len(rows) == 0 {
		return append(out, "", "  "+p.empty(m, what))
	}
	for i := from; i < to; i++ {
		age := since(m.now, rows[i].Changed)
		if rows[i].Gone {
			age = "gone"
		}
		out = append(out, m.marked(m.styles.dim.Paint(pad(age, changedWidth))+" "+layout.row(rows[i]), i == p.list.cursor))
	}
	return out
}

// layout has the columns of a list after the time of the last change.
type layout struct {
	heading string
	row     func(Row) string
}

func (p *serverPage) itemLayout(m *model, what string) layout {
	return layout{pad(strings.ToUpper(what), 28) + " DESCRIPTION", func(r Row) string {
		return m.styles.bold.Paint(pad(line(r.Key), 28)) + " " + line(r.About)
	}}
}

func (p *serverPage) resourceLayout(m *model, visible []Row) layout {
	for _, r := range visible {
		p.uriWidth = max(p.uriWidth, ansi.StringWidth(line(r.Key)))
	}
	const others = 1 + changedWidth + 1 + 1 + typeWidth + 1 + sizeWidth
	width := min(max(p.uriWidth, 20), max(m.width-others, 20))
	heading := pad("URI", width) + " TYPE"
	if width+others+12 < m.width { // there is space for the position
		heading = pad(heading, width+1+typeWidth+1) + right("SIZE", sizeWidth)
	}
	return layout{heading, func(r Row) string {
		return middle(line(r.Key), width) + " " + pad(line(r.About), typeWidth) + " " + right(printable.Size(r.Size), sizeWidth)
	}}
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
	switch {
	case p.log == nil:
		return []string{"", "  loading…"}
	case p.log.err != nil:
		return []string{"", "  " + line(p.log.err.Error())}
	case len(p.log.lines) == 0:
		return []string{"", "  Nothing was logged about this server, and it wrote nothing to stderr."}
	}
	shown := p.text.view(m.width, height, m.filter)
	if len(shown) == 0 {
		return []string{"", "  No line matches the filter."}
	}
	return shown
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
			text = m.styles.selected.Paint("[" + text[1:len(text)-1] + "]")
		}
		b.WriteString(text)
	}
	return b.String()
}
