package backoff

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

func TestWaitsDoubleWithinBounds(t *testing.T) {
	for range 100 {
		b := New(time.Second, 30*time.Second)
		for round := range 2 {
			for n, base := range []time.Duration{1, 2, 4, 8, 16, 25, 25, 25} {
				base *= time.Second
				wait := b.Next()
				if low, high := base*79/100, min(base*121/100, 30*time.Second); wait < low || wait > high {
					t.Fatalf("round %d: wait %d is %v, want %v to %v", round, n, wait, low, high)
				}
				if b.Failures() != n+1 {
					t.Fatalf("%d failures after %d waits", b.Failures(), n+1)
				}
			}
			b.Reset()
		}
	}
}

func TestWaitsDiffer(t *testing.T) {
	seen := map[time.Duration]bool{}
	b := New(time.Millisecond, time.Second)
	for range 50 {
		seen[b.Next()] = true
	}
	if len(seen) < 30 {
		t.Errorf("50 waits have %d values", len(seen))
	}
}

func TestNextAfterObeysTheServerWithinTheLongestWait(t *testing.T) {
	b := New(time.Second, 30*time.Second)
	if got := b.NextAfter(10 * time.Second); got < 10*time.Second || got > 12*time.Second+1 {
		t.Errorf("asked for 10 s: %v", got)
	}
	if got := b.NextAfter(0); got < time.Second || got > 3*time.Second {
		t.Errorf("asked for nothing: %v", got)
	}
	if got := b.NextAfter(time.Hour); got != 30*time.Second {
		t.Errorf("asked for an hour: %v", got)
	}
}

func TestSpread(t *testing.T) {
	for range 1000 {
		if d := Spread(time.Minute); d < 48*time.Second || d > 72*time.Second+1 {
			t.Fatalf("%v", d)
		}
	}
	if d := Spread(0); d != 0 {
		t.Errorf("of nothing: %v", d)
	}
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if !Sleep(t.Context(), time.Hour) || time.Since(began) != time.Hour {
			t.Errorf("slept %v", time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if began = time.Now(); Sleep(ctx, time.Hour) || time.Since(began) != time.Minute {
			t.Errorf("slept %v after the end", time.Since(began))
		}
		if Sleep(ctx, 0) {
			t.Error("an ended context is alive")
		}
	})
}

func TestPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, calls := time.Now(), 0
		after := func(d time.Duration) func() bool {
			return func() bool { calls++; return time.Since(began) >= d }
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if !Poll(ctx, 50*time.Millisecond, after(time.Second)) || calls < 20 || calls > 40 {
			t.Errorf("%d calls in %v", calls, time.Since(began))
		}
		if Poll(ctx, 50*time.Millisecond, after(time.Minute)) || time.Since(began) != 10*time.Second {
			t.Errorf("polled for %v", time.Since(began))
		}
		if !Poll(ctx, time.Second, after(10*time.Second)) {
			t.Error("the last look is not made")
		}
	})
}

func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for value, want := range map[string]time.Duration{
			"": 0, "7": 7 * time.Second, "-1": 0, "soon": 0, "99999999999999999999": 0,
			time.Now().Add(time.Minute).UTC().Format(http.TimeFormat):  time.Minute,
			time.Now().Add(-time.Minute).UTC().Format(http.TimeFormat): 0,
		} {
			if got := RetryAfter(http.Header{"Retry-After": {value}}); got != want {
				t.Errorf("%q: %v, want %v", value, got, want)
			}
		}
	})
}
