package filewatch

import "time"

// A debounce decides when a burst of events is over: quiet after its last event,
// but at the latest most after its first, so that an endless writer cannot starve
// the reader. It holds no timer; the owner waits until due. The zero times mean
// that no burst is going on.
type debounce struct {
	quiet, most time.Duration

	first, last time.Time
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
