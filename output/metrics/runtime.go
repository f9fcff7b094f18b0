package metrics

import (
	"runtime"
	"runtime/debug"
	"time"
)

// runtime adds what dashboards for Go programs show of the runtime, under the names that all Go programs use.
func (s page) runtime(started time.Time) {
	s.gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds.", float64(started.UnixMilli())/1000)
	s.gauge("go_goroutines", "Number of goroutines that currently exist.", float64(runtime.NumGoroutine()))
	threads, _ := runtime.ThreadCreateProfile(nil)
	s.gauge("go_threads", "Number of OS threads created.", float64(threads))
	s.gauge("go_info", "Information about the Go environment.", 1, "version", runtime.Version())

	pauses := debug.GCStats{PauseQuantiles: make([]time.Duration, 5)}
	debug.ReadGCStats(&pauses)
	const name = "go_gc_duration_seconds"
	var samples []string
	for i, q := range []string{"0", "0.25", "0.5", "0.75", "1"} {
		samples = append(samples, sample(name, pauses.PauseQuantiles[i].Seconds(), `,quantile="`+q+`"`))
	}
	s.lines(name, "A summary of the wall-time pause (stop-the-world) duration in garbage collection cycles.", "summary",
		append(samples, sample(name+"_sum", pauses.PauseTotal.Seconds(), ""), sample(name+"_count", float64(pauses.NumGC), ""))...)

	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	s.counter("go_memstats_alloc_bytes_total", "Total number of bytes allocated in heap until now, even if released already.", mem.TotalAlloc)
	for _, g := range []struct {
		name  string
		value uint64
		help  string
	}{
		{"alloc_bytes", mem.Alloc, "Number of bytes allocated in heap and currently in use."},
		{"sys_bytes", mem.Sys, "Number of bytes obtained from system."},
		{"heap_alloc_bytes", mem.HeapAlloc, "Number of heap bytes allocated and currently in use, same as go_memstats_alloc_bytes."},
		{"heap_inuse_bytes", mem.HeapInuse, "Number of heap bytes that are in use."},
		{"heap_objects", mem.HeapObjects, "Number of currently allocated objects."},
		{"stack_inuse_bytes", mem.StackInuse, "Number of bytes obtained from system for stack allocator in non-CGO environments."},
		{"next_gc_bytes", mem.NextGC, "Number of heap bytes when next garbage collection will take place."},
	} {
		s.gauge("go_memstats_"+g.name, g.help, float64(g.value))
	}
}
