package tui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/output/termtext"
)

// serversPage lists the servers above the feed.
type serversPage struct {
	basePage
	list     list
	byChange bool // sorted by last change
	focused  bool // keys go to the feed
	events   eventList
}

func (p *serversPage) title() string { return "" }

func (p *serversPage) uri(*model) string {
	if e := p.events.selected(); p.focused && e != nil {
		return e.ResourceURI
	}
	return ""
}

func (p *serversPage) keys(m *model) []string {
	if p.focused {
		return []string{"enter diff", "tab servers", "e feed only", "/ filter", "p " + m.pauseWord(), "y copy URI", "g/G first/last"}
	}
	keys := []string{"enter open", "tab feed", "e feed only", "s sort", "/ filter"}
	if m.opts.Reconnect != nil {
		keys = append(keys, "r reconnect")
	}
	return append(keys, "L log", "p "+m.pauseWord())
}

func (p *serversPage) rows(m *model) []ServerRow {
	var rows []ServerRow
	for _, s := range m.servers {
		if fits(m.filter, s.ID, m.stateOf(s), s.Error) {
			rows = append(rows, s)
		}
	}
	if p.byChange {
		slices.SortStableFunc(rows, func(a, b ServerRow) int { return m.feed.last[b.ID].Compare(m.feed.last[a.ID]) })
	}
	p.list.follow(len(rows), func(i int) string { return rows[i].ID })
	return rows
}

func (p *serversPage) key(m *model, key string) tea.Cmd {
	rows := p.rows(m)
	height := p.height(m.height-2, len(rows))
	switch key {
	case "tab", "shift+tab":
		p.focused = !p.focused
		return nil
	case "e":
		return m.push(newFeedPage(""))
	}
	if p.focused {
		p.events.update(m, m.feed.events, m.feed.first)
		return p.events.key(m, key, m.height-4-height)
	}
	if key == "s" {
		p.byChange = !p.byChange
		m.notice = map[bool]string{true: "sorted by last change", false: "sorted by state: failing servers first"}[p.byChange]
		return nil
	}
	if len(rows) == 0 {
		return nil
	}
	moved := p.list.move(key, len(rows), height)
	p.list.key = rows[p.list.cursor].ID
	if moved {
		return nil
	}
	switch key {
	case "enter", "right", "l":
		return m.push(&serverPage{id: p.list.key})
	case "L":
		return m.openLog(p.list.key)
	case "r":
		return m.reconnect(p.list.key)
	}
	return nil
}

// point moves the focus to the list at a line of the screen.
func (p *serversPage) point(m *model, y int) {
	p.focused = y >= 2+p.height(m.height-2, len(p.rows(m)))
}

// height returns the number of visible servers: at most three fifths of the screen, because the
// feed needs the rest.
func (p *serversPage) height(height, rows int) int {
	return min(max(rows, 1), max(2, height*3/5-2))
}

func (p *serversPage) view(m *model, height int) []string {
	rows := p.rows(m)
	id := 12
	for _, s := range m.servers {
		id = max(id, min(ansi.StringWidth(line(s.ID)), 28))
	}
	spark := sparks
	if m.width < 110 {
		spark = sparks / 2
	}
	format := func(age, resources, tools, rate, sparks, last string) string {
		return fmt.Sprintf("%s %s %s %s %s  %s", pad(age, ageWidth), right(resources, 5), right(tools, 5), right(rate, 5), right(last, 8), sparks)
	}
	changed := "CHANGED"
	if p.byChange {
		changed += "↓"
	}
	out := []string{m.heading(" "+pad("STATE", stateWidth)+" "+pad("SERVER", id)+" "+format("SINCE", "RES", "TOOLS", "/MIN", "2 MINUTES", changed), position(p.list.cursor, len(rows)))}
	most := m.feed.most()
	from, to := p.list.window(len(rows), p.height(height, len(rows)))
	for i := from; i < to; i++ {
		s := rows[i]
		first, style := pad(m.stateOf(s), stateWidth), m.styles.state(s.State)
		name := termtext.Pad(termtext.Middle(line(s.ID), id), id)
		selected := i == p.list.cursor && !p.focused
		if rank(s.State) == 0 && s.Error != "" { // its numbers say nothing
			out = append(out, m.marked(style.Render(first)+" "+name+" "+pad(since(m.now, s.Since), ageWidth)+" "+line(s.Error), selected))
			continue
		}
		counts, perMinute := m.feed.of(s.ID)
		text := format(since(m.now, s.Since), fmt.Sprint(s.Resources), fmt.Sprint(s.Tools), fmt.Sprint(perMinute),
			m.styles.dim.Render(sparkline(counts[sparks-spark:], most)), since(m.now, m.feed.last[s.ID]))
		out = append(out, m.marked(style.Render(first)+" "+name+" "+text, selected))
	}
	switch {
	case len(m.servers) == 0:
		out = append(out, "  There are no servers to follow.")
	case len(rows) == 0:
		out = append(out, "  No server matches the filter.")
	}
	p.events.update(m, m.feed.events, m.feed.first)
	style := m.styles.dim
	if p.focused {
		style = m.styles.title
	}
	rule := m.spread("── FEED "+strings.Repeat("─", m.width), m.feedPosition(&p.events))
	out = append(out, style.Render(strings.Replace(rule, "…", "─", 1)))
	if len(p.events.rows) == 0 {
		return append(out, "  "+m.noEvents())
	}
	return append(out, p.events.view(m, height-len(out), p.focused)...)
}

// stateWidth is the width of the longest state.
const stateWidth = 14

func right(s string, width int) string {
	return strings.Repeat(" ", max(0, width-ansi.StringWidth(s))) + s
}

const (
	maxFeed    = 2000 // events kept
	sparks     = 24   // intervals of a sparkline
	sparkEvery = 5 * time.Second
)

// feed holds the newest events, and counts the recent updates of each server.
type feed struct {
	keep   func(*event.Event) bool // selects the events to show; nil selects all
	events []*event.Event          // oldest first
	first  int                     // number of events[0]: how many events were dropped before it
	last   map[string]time.Time    // time of the last change, by server
	all    rate                    // events of all servers
	held   []*event.Event          // arrived while the feed was paused
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
		f.all.count(e.Timestamp, time.Now())
		if e.Type() == event.TypeResourceUpdated {
			f.count(e.ServerID, e.Timestamp, time.Now())
		}
		switch e.Payload.(type) {
		case event.ResourceUpdated, event.ResourceAdded, event.ResourceRemoved, event.ResourceChanged, event.ListChanged, event.SkillMismatch:
			if f.last == nil || len(f.last) > maxFeed {
				f.last = map[string]time.Time{}
			}
			f.last[e.ServerID] = e.Timestamp
		}
		if f.keep == nil || f.keep(e) {
			f.held = append(f.held, e)
		}
	}
	f.held = f.held[max(0, len(f.held)-maxFeed):]
	if !paused {
		f.events = append(f.events, f.held...)
		dropped := max(0, len(f.events)-maxFeed)
		f.events, f.first = append([]*event.Event(nil), f.events[dropped:]...), f.first+dropped
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
	r.count(at, now)
}

func (r *rate) count(at, now time.Time) {
	if r.begun.IsZero() {
		r.begun = now
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

// most returns the largest number of updates of one server in an interval: all sparklines have the
// same scale.
func (f *feed) most() int {
	most := 1
	for _, r := range f.rates {
		most = max(most, slices.Max(r.counts[:]))
	}
	return most
}

// perSecond returns the number of events per second in the current interval and the previous one.
func (f *feed) perSecond(now time.Time) float64 {
	if f.all.begun.IsZero() {
		return 0
	}
	f.all.shift(now)
	return float64(f.all.counts[sparks-1]+f.all.counts[sparks-2]) / (sparkEvery + max(now.Sub(f.all.begun), 0)).Seconds()
}
