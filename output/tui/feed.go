package tui

import (
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/output/lines"
)

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

// add adds new events. While the feed is paused, the newest of them are held back.
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

// count counts an update in the interval of its time: what --url shows at first are events of
// earlier minutes.
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

// age moves the counts of all servers to the current time: intervals that have passed since are
// added as empty, old ones are dropped, and so are servers whose counts are all zero.
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

// of returns how many updates a server had in each interval, oldest first, and in the last
// minute.
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

// lines returns at most most lines, oldest first, of the newest events for which keep is true.
// Some events have no line, such as a state that leads to another one.
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

// eventLines returns the lines of the events; with verbose every event has one.
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
