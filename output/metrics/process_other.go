//go:build !unix

package metrics

import "time"

// process adds the metrics of this process that the system reveals easily.
func (s page) process(started time.Time) {
	s.gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds.", float64(started.UnixMilli())/1000)
}
