package filewatch

import "time"

// A debounce decides when a burst of events is over, so that one report stands for all of
// it. It has no timer: its owner waits until due.
type debounce struct {
	quiet time.Duration // a burst is over when no event has come for this long
	most  time.Duration // or when it has lasted this long: an endless writer cannot starve the reader

	first, last time.Time // events of the current burst; zero: there is none
}

// kick records an event.
func (d *debounce) kick(now time.Time) {
	if d.first.IsZero() {
		d.first = now
	}
	d.last = now
}

// pending reports whether a burst is going on.
func (d *debounce) pending() bool { return !d.first.IsZero() }

// due is when the burst will be over if nothing else happens. It is meaningless
// unless pending.
func (d *debounce) due() time.Time {
	quiet, most := d.last.Add(d.quiet), d.first.Add(d.most)
	if quiet.Before(most) {
		return quiet
	}
	return most
}

// starved reports whether the burst is due because it went on for too long and
// not because it is over.
func (d *debounce) starved() bool { return d.first.Add(d.most).Before(d.last.Add(d.quiet)) }

// reset ends the burst.
func (d *debounce) reset() { d.first, d.last = time.Time{}, time.Time{} }
