package tui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/output/lines"
)

// serversPage lists the servers above the feed.
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

func (p *serversPage) rows(m *model) []ServerRow {
	var rows []ServerRow
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

// height returns the number of visible servers: at most three fifths of the screen, because the
// feed needs the rest.
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

// row returns a line of a list. The first column has a style; the selected row has a marker.
func (m *model) row(style lipgloss.Style, first, rest string, selected bool) string {
	if selected {
		return m.styles.selected.Render(pad("▸"+first+" "+rest, m.width))
	}
	return " " + style.Render(first) + " " + rest
}

func right(s string, width int) string {
	return strings.Repeat(" ", max(0, width-len(s))) + s
}

const (
	maxFeed    = 2000 // events kept
	sparks     = 24   // intervals of a sparkline
	sparkEvery = 5 * time.Second
)

// feed holds the newest events, and counts the recent updates of each server.
type feed struct {
	colour bool
	events []*event.Event // oldest first
	held   []*event.Event // arrived while the feed was paused
	rates  map[string]*rate
}

// rate counts the updates of one server per interval, the newest interval last.
type rate struct {
	counts [sparks]int
	begun  time.Time // start of the newest interval
}

// add adds new events. While the feed is paused, add only buffers the newest of them.
func (f *feed) add(events []*event.Event, paused bool) {
	for _, e := range events {
		if e.Type() == event.TypeResourceUpdated {
			f.count(e.ServerID, e.Timestamp, time.Now())
		}
	}
	f.held = append(f.held, events...)
	f.held = f.held[max(0, len(f.held)-maxFeed):]
	if !paused {
		f.events = append(f.events, f.held...)
		f.events = append([]*event.Event(nil), f.events[max(0, len(f.events)-maxFeed):]...)
		f.held = nil
	}
}

// count counts an update in the interval of its timestamp, because the events that --url shows
// first are minutes old.
func (f *feed) count(server string, at, now time.Time) {
	if f.rates == nil {
		f.rates = map[string]*rate{}
	}
	r := f.rates[server]
	if r == nil {
		r = &rate{begun: now}
		f.rates[server] = r
	}
	r.shift(now)
	switch before := r.begun.Sub(at); {
	case before <= 0:
		r.counts[sparks-1]++
	case before <= (sparks-1)*sparkEvery:
		r.counts[sparks-1-int((before+sparkEvery-1)/sparkEvery)]++
	}
}

// age moves the counts of all servers to the current time: it adds empty intervals for the elapsed
// time, drops old intervals, and drops servers whose counts are all zero.
func (f *feed) age(now time.Time) {
	for id, r := range f.rates {
		if r.shift(now); r.total() == 0 {
			delete(f.rates, id)
		}
	}
}

func (r *rate) shift(now time.Time) {
	n := int(now.Sub(r.begun) / sparkEvery)
	if n <= 0 {
		return
	}
	r.begun = r.begun.Add(time.Duration(n) * sparkEvery)
	n = min(n, sparks)
	copy(r.counts[:], r.counts[n:])
	clear(r.counts[sparks-n:])
}

func (r *rate) total() (sum int) {
	for _, n := range r.counts {
		sum += n
	}
	return sum
}

// of returns a server's number of updates per interval, oldest first, and in the last minute.
func (f *feed) of(server string) (counts []int, perMinute int) {
	r := f.rates[server]
	if r == nil {
		return make([]int, sparks), 0
	}
	for _, n := range r.counts[sparks-int(time.Minute/sparkEvery):] {
		perMinute += n
	}
	return r.counts[:], perMinute
}

// lines returns at most most lines, oldest first, for the newest events for which keep returns
// true. Some events have no line, such as transient states.
func (f *feed) lines(most int, keep func(*event.Event) bool) []string {
	most = max(most, 0)
	for n := most + 5; ; n *= 4 {
		var chosen []*event.Event
		for i := len(f.events) - 1; i >= 0 && len(chosen) < n; i-- {
			if keep(f.events[i]) {
				chosen = append(chosen, f.events[i])
			}
		}
		slices.Reverse(chosen)
		out := eventLines(chosen, f.colour, false)
		if len(out) >= most || len(chosen) < n {
			return out[max(0, len(out)-most):]
		}
	}
}

// eventLines formats events as lines. If verbose is set, every event has a line.
func eventLines(events []*event.Event, colour, verbose bool) []string {
	var b strings.Builder
	w := lines.Writer{W: &b, Colour: colour, Zone: time.Local, Verbose: verbose}
	out := make([]string, 0, len(events))
	for _, e := range events {
		b.Reset()
		if w.Write(e) == nil && b.Len() > 0 {
			first, _, _ := strings.Cut(b.String(), "\n")
			out = append(out, first)
		}
	}
	return out
}
