// Package backoff computes how long to wait before the next attempt. The only package that does not
// use it is core/filewatch, which checks several times, after fixed delays, whether a file that
// another program is writing is complete.
//
// A [Backoff] computes the waits of one retried operation: New(first, longest), Next
// after each failure, Reset after a success. Waits double up to the longest and are
// spread by 20 %, so that the clients of one server do not retry simultaneously. No
// wait exceeds the longest. If a server requests a wait (Retry-After, the retry field of
// an event stream), use [Backoff.NextAfter].
//
//	retry := backoff.New(time.Second, 30*time.Second)
//	for backoff.Sleep(ctx, wait) {
//		if err := try(); err == nil {
//			retry.Reset()
//		}
//		wait = retry.Next()
//	}
//
// Periodic work uses [Spread]. [Poll] waits for a condition that cannot be signalled.
//
// cenkalti/backoff (MIT, maintained, no dependencies) computes the intervals. Its Retry
// loop is not used, because the loops here keep state between attempts.
package backoff

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// randomization is the fraction by which waits vary randomly in either direction.
const randomization = 0.2

// A Backoff computes the waits between attempts of one retried operation. It is not safe for
// concurrent use.
type Backoff struct {
	intervals backoff.ExponentialBackOff
	longest   time.Duration
	failures  int
}

// New returns a Backoff whose first wait is about first. Later waits double up to longest. Both
// must be positive.
func New(first, longest time.Duration) *Backoff {
	b := &Backoff{longest: longest, intervals: backoff.ExponentialBackOff{
		InitialInterval: first, RandomizationFactor: randomization, Multiplier: 2,
		MaxInterval: time.Duration(float64(longest) / (1 + randomization)), // leaves room to randomize the longest waits
	}}
	b.Reset()
	return b
}

// Next records a failure and returns how long to wait before the next attempt.
func (b *Backoff) Next() time.Duration {
	b.failures++
	return min(b.intervals.NextBackOff(), b.longest)
}

// NextAfter is like Next, for a server that requested a minimum wait. It returns at least that wait
// plus a random 0 to 20 %, but never more than the longest wait.
func (b *Backoff) NextAfter(least time.Duration) time.Duration {
	return min(max(b.Next(), least+rand.N(least/5+1)), b.longest)
}

// Failures returns the number of calls to Next or NextAfter since the last Reset.
func (b *Backoff) Failures() int { return b.failures }

// Reset restarts with the first wait, after a success.
func (b *Backoff) Reset() {
	b.failures = 0
	b.intervals.Reset()
}

// Spread varies d randomly by up to 20 %. It prevents periodic work on many objects, or in many
// processes, from running simultaneously.
func Spread(d time.Duration) time.Duration { return d - d/5 + rand.N(d*2/5+1) }

// Sleep waits for d or until ctx is done. It reports false if ctx is done.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Poll calls done repeatedly until it returns true, first after a millisecond and then at growing
// intervals up to longest. It returns false if ctx is done first.
func Poll(ctx context.Context, longest time.Duration, done func() bool) bool {
	pause := New(time.Millisecond, longest)
	for !done() {
		if !Sleep(ctx, pause.Next()) {
			return done()
		}
	}
	return true
}

// RetryAfter returns the wait that the Retry-After header of an [net/http.Header] requests, either in
// seconds or as a date (RFC 9110, section 10.2.3). It returns 0 if the header is missing or invalid.
// This package does not import net/http, whose initialization would take a third of the memory of
// cmd/mcptrack-attach.
func RetryAfter(header map[string][]string) time.Duration {
	values := header["Retry-After"]
	if len(values) == 0 {
		return 0
	}
	if n, err := strconv.ParseUint(values[0], 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	for _, layout := range []string{"Mon, 02 Jan 2006 15:04:05 GMT", time.RFC850, time.ANSIC} { // section 5.6.7
		if t, err := time.Parse(layout, values[0]); err == nil {
			return max(time.Until(t), 0)
		}
	}
	return 0
}
