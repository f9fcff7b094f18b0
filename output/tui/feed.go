package tui

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/lines"
)

// eventList shows events with one row each, oldest first, as watch prints them.
type eventList struct {
	keep    func(*event.Event) bool // nil keeps all
	verbose bool                    // show a row for every event

	rows   []eventRow
	next   int // number of the first event without a row
	width  int
	filter string
	writer *lines.Writer
	buf    strings.Builder
	list   list
}

// eventRow is the row of one event. number counts all events since the start; event is nil in a
// row with a date.
type eventRow struct {
	event  *event.Event
	number int
	text   string
}

// update makes rows for the new events. first is the number of the first event in all.
func (l *eventList) update(m *model, all []*event.Event, first int) {
	if l.writer == nil || l.width != m.width || l.filter != m.filter {
		selected := l.selected()
		*l = eventList{keep: l.keep, verbose: l.verbose, list: l.list, width: m.width, filter: m.filter}
		l.list.tail = true
		l.writer = &lines.Writer{W: &l.buf, Colour: m.opts.Colour, Zone: time.Local, Verbose: l.verbose, Columns: func() int { return l.width - 1 }}
		l.writer.Servers(slices.Sorted(slices.Values(ids(m.servers)))...)
		l.add(m, all, first)
		if i := slices.IndexFunc(l.rows, func(r eventRow) bool { return r.event != nil && r.event == selected }); i >= 0 {
			l.list.cursor = i
		}
	}
	dropped := 0
	for dropped < len(l.rows) && l.rows[dropped].number < first {
		dropped++
	}
	l.rows = slices.Delete(l.rows, 0, dropped)
	l.list.cursor, l.list.top = max(0, l.list.cursor-dropped), max(0, l.list.top-dropped)
	l.add(m, all[min(max(l.next-first, 0), len(all)):], max(l.next, first))
	l.list.place(len(l.rows))
}

func (l *eventList) add(m *model, events []*event.Event, number int) {
	for _, e := range events {
		if (l.keep == nil || l.keep(e)) && fits(m.filter, e.ServerID, e.ResourceURI, string(e.Type())) {
			l.buf.Reset()
			_ = l.writer.Write(e) // a strings.Builder does not fail
			text := strings.Split(strings.TrimSuffix(l.buf.String(), "\n"), "\n")
			if date := e.Timestamp.Local().Format("Monday, 2 January 2006"); ansi.Strip(text[0]) == date {
				l.rows = append(l.rows, eventRow{number: number, text: text[0]})
				text = text[1:]
			}
			if len(text) > 1 {
				text[0] = cut(text[0]+" …", m.width-1)
			}
			if len(text) > 0 && text[0] != "" {
				l.rows = append(l.rows, eventRow{e, number, text[0]})
			}
		}
		number++
	}
	l.next = number
}

func (l *eventList) selected() *event.Event {
	if l.list.cursor < len(l.rows) {
		return l.rows[l.list.cursor].event
	}
	return nil
}

// uri returns the URI of the selected event's resource; empty if there is none.
func (l *eventList) uri() string {
	if e := l.selected(); e != nil {
		return e.ResourceURI
	}
	return ""
}

// key moves the cursor, or opens the selected event. See update.
func (l *eventList) key(m *model, key string, all []*event.Event, first int) tea.Cmd {
	l.update(m, all, first)
	if l.list.move(key, len(l.rows)) {
		return nil
	}
	switch e := l.selected(); {
	case e == nil:
	case isOpen(key), key == "d":
		return m.openEvent(e)
	default:
		return m.ofServer(key, e.ServerID)
	}
	return nil
}

// view returns at most height rows, or none if there are no events. A list without the focus shows its
// newest rows.
func (l *eventList) view(m *model, height int, focused bool, none string) (out []string) {
	if height <= 0 {
		return nil
	}
	if len(l.rows) == 0 {
		return indented(none, m.width)
	}
	from, to := max(0, len(l.rows)-height), len(l.rows)
	if focused {
		from, to = l.list.window(len(l.rows), height)
	}
	for i := from; i < to; i++ {
		out = append(out, m.marked(l.rows[i].text, focused && i == l.list.cursor))
	}
	return out
}

// feedPage shows the feed alone.
type feedPage struct {
	basePage
	server string // only events of this server; empty selects all
	events eventList
}

func newFeedPage(server string) *feedPage {
	p := &feedPage{server: server}
	if server != "" {
		p.events.keep = func(e *event.Event) bool { return e.ServerID == server }
	}
	return p
}

func (p *feedPage) title() string {
	if p.server != "" {
		return line(p.server) + " events"
	}
	return "events"
}

func (p *feedPage) keys(m *model) []string {
	return []string{"enter diff", "/ filter", "p " + m.pauseWord(), "y copy URI", "g/G first/last"}
}

func (p *feedPage) key(m *model, key string) tea.Cmd {
	if key == "e" {
		return m.back("q")
	}
	return p.events.key(m, key, m.feed.events, m.feed.first)
}

func (p *feedPage) uri(*model) string { return p.events.uri() }

func (p *feedPage) view(m *model, height int) []string {
	p.events.update(m, m.feed.events, m.feed.first)
	out := []string{m.heading(" EVENTS", m.feedPosition(&p.events))}
	return append(out, p.events.view(m, height-1, true, m.noEvents())...)
}

func (m *model) noEvents() string {
	if m.filter != "" {
		return "No event matches the filter."
	}
	return "Nothing has happened yet; changes appear here."
}

// feedPosition returns the position of the cursor, and how many events wait while the feed is
// paused.
func (m *model) feedPosition(l *eventList) string {
	text := position(l.list.cursor, len(l.rows))
	if m.paused {
		text = fmt.Sprintf("PAUSED, %d more  %s", len(m.feed.held), text)
	}
	return text
}

// openEvent shows the difference that an event announces, or otherwise everything that is known about
// the event.
func (m *model) openEvent(e *event.Event) tea.Cmd {
	switch e.Payload.(type) {
	case event.ResourceUpdated, event.ResourceRemoved:
		return m.push(&resourcePage{server: e.ServerID, of: e.ResourceURI, tab: tabDiff, event: e})
	case event.ResourceAdded:
		return m.push(&resourcePage{server: e.ServerID, of: e.ResourceURI})
	}
	return m.push(&textPage{name: string(e.Type()), text: textView{lines: describe(m, e)}, resource: e.ResourceURI})
}

// describe returns the whole line of an event, and below it the event's JSON.
func describe(m *model, e *event.Event) []textLine {
	var b strings.Builder
	w := lines.Writer{W: &b, Zone: time.Local, Wide: true, Verbose: true}
	_ = w.Write(e) // a strings.Builder does not fail
	var out []textLine
	for _, l := range split(strings.TrimSpace(b.String())) {
		out = append(out, textLine{text: l, indent: 2})
	}
	out = append(out, textLine{})
	raw, err := e.AppendJSON(nil)
	if err != nil {
		return out
	}
	return append(out, pretty(m, raw)...)
}

// pretty returns indented JSON.
func pretty(m *model, raw json.RawMessage) (out []textLine) {
	v := raw
	if indented, err := json.MarshalIndent(raw, "", "  "); err == nil {
		v = indented
	}
	for _, l := range split(string(printable.JSON(v))) {
		out = append(out, textLine{text: l, style: m.styles.dim, indent: len(l) - len(strings.TrimLeft(l, " ")) + 2})
	}
	return out
}

// textPage shows a text.
type textPage struct {
	basePage
	name     string
	resource string // URI that can be copied; may be empty
	server   string // events of this server reload the page
	text     textView
	load     func(context.Context) ([]textLine, error) // nil if the text does not change
}

func (p *textPage) title() string     { return line(p.name) }
func (p *textPage) uri(*model) string { return p.resource }
func (p *textPage) keys(*model) []string {
	return []string{"up/down scroll", "pgup/pgdn", "g/G start/end"}
}
func (p *textPage) concerns(e *event.Event) bool { return p.load != nil && e.ServerID == p.server }

func (p *textPage) open(m *model) tea.Cmd {
	if p.load == nil {
		return nil
	}
	return m.ask(p, func(ctx context.Context) (any, error) { return p.load(ctx) })
}

func (p *textPage) loaded(_ *model, v any) {
	if lines, ok := v.([]textLine); ok {
		p.text.set(lines)
	}
}

func (p *textPage) key(_ *model, key string) tea.Cmd {
	p.text.move(key)
	return nil
}

func (p *textPage) view(m *model, height int) []string {
	body := p.text.view(m.width, height-1, "")
	out := []string{m.heading(" "+p.title(), p.text.position())}
	if p.text.lines == nil {
		return append(out, "", "  loading…")
	}
	return append(out, body...)
}
