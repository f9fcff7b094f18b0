package filewatch

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestDebounceFires runs a debounce as Run does, under kicks at given times.
func TestDebounceFires(t *testing.T) {
	every := func(step, until time.Duration) (at []time.Duration) {
		for d := time.Duration(0); d <= until; d += step {
			at = append(at, d)
		}
		return at
	}
	const ms = time.Millisecond
	tests := map[string]struct{ kicks, fires []time.Duration }{
		"one event":                     {[]time.Duration{0}, []time.Duration{100 * ms}},
		"a burst is one":                {every(20*ms, 80*ms), []time.Duration{180 * ms}},
		"two bursts":                    {[]time.Duration{0, 50 * ms, 300 * ms}, []time.Duration{150 * ms, 400 * ms}},
		"a constant stream is no delay": {every(51*ms, 2550*ms), []time.Duration{1000 * ms, 2020 * ms, 2650 * ms}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				kicks := make(chan struct{})
				go func() {
					defer close(kicks)
					for _, at := range tt.kicks {
						time.Sleep(at - time.Since(began))
						kicks <- struct{}{}
					}
				}()
				d := debounce{quiet: 100 * ms, most: time.Second}
				var fires []time.Duration
				for open := true; open || d.pending(); {
					var timer <-chan time.Time
					if d.pending() {
						timer = time.After(time.Until(d.due()))
					}
					select {
					case _, open = <-kicks:
						if open {
							d.kick(time.Now())
						} else {
							kicks = nil
						}
					case <-timer:
						fires = append(fires, time.Since(began))
						d.reset()
					}
				}
				if !slices.Equal(fires, tt.fires) {
					t.Errorf("fired at %v, want %v", fires, tt.fires)
				}
			})
		})
	}
}
