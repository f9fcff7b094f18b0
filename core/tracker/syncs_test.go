package tracker

import (
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
)

// Gaps that keep coming, as of a stream that a proxy cuts again and again, do not
// postpone the sync that makes up for them without end.
func TestRepeatedGapsDoNotPostponeTheSync(t *testing.T) {
	var (
		y     syncs
		began = time.Now()
		begun []time.Duration
	)
	for second := range 300 {
		now := began.Add(time.Duration(second) * time.Second)
		if y.due(now) {
			begun = append(begun, now.Sub(began))
			y.pending = syncRequest{}
		}
		y.gap(now, true, 30*time.Second)
	}
	if len(begun) < 9 || len(begun) > 20 {
		t.Errorf("syncs at %v, want one about every 30 s", begun)
	}
}

// After a gap during a sync that takes long, the next sync does not follow at once.
func TestGapDuringASyncDelaysTheNextOne(t *testing.T) {
	y, now := syncs{running: true}, time.Now()
	y.gap(now, false, 30*time.Second)
	now = now.Add(5 * time.Second)
	y.gap(now, false, 30*time.Second)
	if wait := y.next.Sub(now); wait < time.Second {
		t.Errorf("the next sync is in %v", wait)
	}
}

// After a subscription that stood longer than the last wait, the next one begins at once;
// after short-lived ones, ever later.
func TestWaitAfterAGapDependsOnHowLongTheSubscriptionStood(t *testing.T) {
	for _, eager := range []bool{true, false} {
		g, now := gaps{retry: backoff.New(time.Second, 30*time.Second)}, time.Now()
		after := func(stood time.Duration) time.Duration {
			g.subscribed = now
			now = now.Add(stood)
			wait := g.next(now, eager)
			now = now.Add(wait)
			return wait
		}
		for range 50 {
			if wait := after(25 * time.Second); wait != 0 {
				t.Fatalf("a wait of %v after 25 s", wait)
			}
		}
		var wait time.Duration
		for range 10 {
			wait = after(500 * time.Millisecond)
		}
		if wait < 20*time.Second {
			t.Errorf("a wait of %v after ten subscriptions of half a second", wait)
		}
		if wait = after(10 * time.Second); wait < 20*time.Second {
			t.Errorf("a wait of %v after one that stood shorter than the last wait", wait)
		}
		if wait = after(40 * time.Second); wait != 0 {
			t.Errorf("a wait of %v after one that stood longer", wait)
		}
	}
}
