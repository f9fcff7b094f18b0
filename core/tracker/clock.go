package tracker

import "time"

// clockTolerance is how much later than planned something may happen before it
// counts as a suspension of the process or the machine.
const clockTolerance = 5 * time.Second

// clock notices that this process did not run for a while: a timer that expires
// far too late (SIGSTOP), or wall time that ran ahead of the monotonic clock,
// which stands still while a machine sleeps.
type clock struct {
	last     time.Time // when jumped was called last
	expected time.Time // when it should be called again at the latest
}

// expect notes when the owner will wake up, and returns it; no time (zero) becomes an
// hour.
func (c *clock) expect(at time.Time) time.Time {
	if at.IsZero() {
		at = c.last.Add(time.Hour)
	}
	c.expected = at
	return at
}

// jumped reports whether the process was suspended since the last call.
func (c *clock) jumped(now time.Time) bool {
	last, expected := c.last, c.expected
	c.last = now
	if last.IsZero() {
		return false
	}
	late := now.Sub(expected) > clockTolerance
	asleep := now.Round(0).Sub(last.Round(0))-now.Sub(last) > clockTolerance
	return late || asleep
}
