package tracker

import "time"

// clockTolerance is how much later than planned something may happen before it
// counts as a suspension of the process or the machine.
const clockTolerance = 5 * time.Second

// clock detects that this process did not run for a while: a timer expired far too late
// (SIGSTOP), or wall time ran ahead of the monotonic clock, which stops while a machine sleeps.
type clock struct {
	last     time.Time // when jumped was called last
	expected time.Time // when it should be called again at the latest
}

// expect records when the owner will wake up, and returns that time; zero (never) becomes one
// hour from now.
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
