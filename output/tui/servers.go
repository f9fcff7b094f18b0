package tui

import (
	"fmt"
	"maps"
	"sort"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/mcptrack/mcptrack/core/event"
)

// serversPage lists the servers above the feed.
type serversPage struct {
	basePage
	list     table
	byChange bool // sorted by last change
	focused  bool // keys go to the feed
	events   eventList
}

func (p *serversPage) title() string { return "" }

func (p *serversPage) uri(*model) string {
	if p.focused {
		return p.events.uri()
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
	return append(keys, "L log", "c calls", "p "+m.pauseWord())
}

func (p *serversPage) rows(m *model) []ServerRow {
	var rows []ServerRow
	for _, s := range m.servers {
		if fits(m.filter, s.ID, m.stateOf(s), s.Error) {
			rows = append(rows, s)
		}
	}
	if p.byChange {
		sort.SliceStable(rows, func(i, j int) bool { return m.feed.last[rows[i].ID].After(m.feed.last[rows[j].ID]) })
	}
	p.list.follow(ids(rows))
	return rows
}

func (p *serversPage) key(m *model, key string) tea.Cmd {
	rows := p.rows(m)
	switch key {
	case "tab", "shift+tab":
		p.focused = !p.focused
		return nil
	case "e":
		return m.push(newFeedPage(""))
	case "c":
		return m.push(&callsPage{})
	}
	if p.focused {
		return p.events.key(m, key, m.feed.events, m.feed.first)
	}
	if key == "s" {
		p.byChange = m.sort(p.byChange, "state: failing servers first")
		return nil
	}
	id := p.list.choose(key, ids(rows))
	switch {
	case id == "":
	case isOpen(key):
		return m.push(newServerPage(m, id))
	default:
		return m.ofServer(key, id)
	}
	return nil
}

// point moves the focus to the list at a line of the screen.
func (p *serversPage) point(m *model, y int) {
	p.focused = y >= 2+visibleServers(m.height-2, len(p.rows(m)))
}

// visibleServers returns how many servers are visible: at most three fifths of the screen, because the
// feed needs the rest.
func visibleServers(height, rows int) int {
	return min(max(rows, 1), max(2, height*3/5-2))
}

func (p *serversPage) view(m *model, height int) []string {
	rows := p.rows(m)
	spark := sparks
	if m.width < 110 {
		spark = sparks / 2
	}
	columns := []column{{head: "STATE"}, {head: "SERVER", kind: name}, {head: "SINCE", spare: 4}, {head: "RES", kind: right, spare: 3}, {head: "TOOLS", kind: right, spare: 3},
		{head: "/MIN", kind: right, spare: 2}, {head: changedHeading(p.byChange), kind: right, spare: 2}, {head: "2 MINUTES", spare: 1}}
	none := "No server matches the filter."
	if len(m.servers) == 0 {
		none = "There are no servers to follow."
	}
	most, selected := m.feed.most(), p.list.cursor
	if p.focused {
		selected = -1
	}
	out := p.list.view(m, columns, position(p.list.cursor, len(rows)), len(rows), visibleServers(height, len(rows))+1, selected, none, func(i int) []cell {
		s := rows[i]
		cells := []cell{{m.stateOf(s), m.styles.state(s)}, {text: line(s.ID)}, {text: since(m.now, s.Since)}}
		if rank(s.State) == 0 && s.Error != "" { // its numbers say nothing
			return append(cells, cell{text: line(s.Error)})
		}
		counts := m.feed.rates[s.ID].counts(m.now)
		return append(cells, cell{text: fmt.Sprint(s.Resources)}, cell{text: fmt.Sprint(s.Tools)}, cell{text: fmt.Sprint(sum(counts[sparks-int(time.Minute/sparkEvery):]))},
			cell{text: since(m.now, m.feed.last[s.ID])}, cell{sparkline(counts[sparks-spark:], most), m.styles.dim})
	})
	p.events.update(m, m.feed.events, m.feed.first)
	style := m.styles.dim
	if p.focused {
		style = m.styles.title
	}
	rule := m.spread("── FEED "+strings.Repeat("─", m.width), m.feedPosition(&p.events))
	out = append(out, style.Paint(strings.Replace(rule, "…", "─", 1)))
	return append(out, p.events.view(m, height-len(out), p.focused, m.noEvents())...)
}

func ids(rows []ServerRow) (ids []string) {
	for _, s := range rows {
		ids = append(ids, s.ID)
	}
	return ids
}

// changedHeading is the heading of the column with the time of the last change.
func changedHeading(sorted bool) string {
	if sorted {
		return "CHANGED↓"
	}
	return "CHANGED"
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
	held   []*event.Event          // arrived while the feed was paused
	last   map[string]time.Time    // time of the last change, by server
	rates  map[string]rate         // updates, by server
	all    rate                    // events of all servers
}

func newFeed(keep func(*event.Event) bool) feed {
	return feed{keep: keep, last: map[string]time.Time{}, rates: map[string]rate{}, all: rate{}}
}

// rate counts events by the number of the interval in which they happened.
type rate map[int64]int

func interval(t time.Time) int64 { return t.Unix() / int64(sparkEvery/time.Second) }

// counts returns the counts of the newest intervals, oldest first.
func (r rate) counts(now time.Time) []int {
	counts := make([]int, sparks)
	for i := range counts {
		counts[i] = r[interval(now)-sparks+1+int64(i)]
	}
	return counts
}

func sum(counts []int) (sum int) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

// add adds new events. While the feed is paused, add only buffers the newest of them.
func (f *feed) add(events []*event.Event, paused bool, now time.Time) {
	for _, e := range events {
		f.count(e, now)
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
	f.age(now)
}

// count counts an event in the interval of its timestamp, because the first events are minutes old.
func (f *feed) count(e *event.Event, now time.Time) {
	at := min(interval(e.Timestamp), interval(now))
	f.all[at]++
	switch e.Payload.(type) {
	case event.ResourceUpdated:
		if f.rates[e.ServerID] == nil {
			f.rates[e.ServerID] = rate{}
		}
		f.rates[e.ServerID][at]++
	case event.ResourceAdded, event.ResourceRemoved, event.ResourceChanged, event.ListChanged, event.SkillMismatch:
	default:
		return
	}
	if len(f.last) > maxFeed {
		clear(f.last)
	}
	f.last[e.ServerID] = e.Timestamp
}

// age drops the counts of intervals that are no longer shown.
func (f *feed) age(now time.Time) {
	drop := func(r rate) bool {
		maps.DeleteFunc(r, func(at int64, _ int) bool { return at <= interval(now)-sparks })
		return len(r) == 0
	}
	drop(f.all)
	maps.DeleteFunc(f.rates, func(_ string, r rate) bool { return drop(r) })
}

// most returns the largest number of updates of one server in an interval: all sparklines have the
// same scale.
func (f *feed) most() int {
	most := 1
	for _, r := range f.rates {
		for _, n := range r {
			most = max(most, n)
		}
	}
	return most
}

// perSecond returns the number of events per second in the current interval and the previous one.
func (f *feed) perSecond(now time.Time) float64 {
	begun := time.Unix(interval(now)*int64(sparkEvery/time.Second), 0)
	return float64(f.all[interval(now)]+f.all[interval(now)-1]) / (sparkEvery + now.Sub(begun)).Seconds()
}
