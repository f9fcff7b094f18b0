package metrics

import (
	"runtime"
	"runtime/debug"
	"time"
)

// runtime adds the metrics of the Go runtime, under the names that all Go programs use.
func (s page) runtime(started time.Time) {
	s.gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds.", float64(started.UnixMilli())/1000)
	s.gauge("go_goroutines", "Number of goroutines that currently exist.", float64(runtime.NumGoroutine()))
	threads, _ := runtime.ThreadCreateProfile(nil)
	s.gauge("go_threads", "Number of OS threads created.", float64(threads))
	s.gauge("go_info", "Information about the Go environment.", 1, "version", runtime.Version())
	s.gauge("go_sched_gomaxprocs_threads", "The current runtime.GOMAXPROCS setting.", float64(runtime.GOMAXPROCS(0)))
	s.gauge("go_gc_gomemlimit_bytes", "Go runtime memory limit configured by the user, otherwise math.MaxInt64.", float64(debug.SetMemoryLimit(-1)))

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
	s.counter("go_memstats_mallocs_total", "Total number of heap objects allocated, both live and gc-ed.", mem.Mallocs)
	s.counter("go_memstats_frees_total", "Total number of heap objects frees.", mem.Frees)
	s.gauge("go_memstats_last_gc_time_seconds", "Number of seconds since 1970 of last garbage collection.", float64(mem.LastGC)/1e9)
	for _, g := range []struct {
		name  string
		value uint64
		help  string
	}{
		{"alloc_bytes", mem.Alloc, "Number of bytes allocated in heap and currently in use."},
		{"sys_bytes", mem.Sys, "Number of bytes obtained from system."},
		{"heap_alloc_bytes", mem.HeapAlloc, "Number of heap bytes allocated and currently in use, same as go_memstats_alloc_bytes."},
		{"heap_sys_bytes", mem.HeapSys, "Number of heap bytes obtained from system."},
		{"heap_idle_bytes", mem.HeapIdle, "Number of heap bytes waiting to be used."},
		{"heap_inuse_bytes", mem.HeapInuse, "Number of heap bytes that are in use."},
		{"heap_released_bytes", mem.HeapReleased, "Number of heap bytes released to OS."},
		{"heap_objects", mem.HeapObjects, "Number of currently allocated objects."},
		{"stack_inuse_bytes", mem.StackInuse, "Number of bytes obtained from system for stack allocator in non-CGO environments."},
		{"stack_sys_bytes", mem.StackSys, "Number of bytes obtained from system for stack allocator."},
		{"mspan_inuse_bytes", mem.MSpanInuse, "Number of bytes in use by mspan structures."},
		{"mspan_sys_bytes", mem.MSpanSys, "Number of bytes used for mspan structures obtained from system."},
		{"mcache_inuse_bytes", mem.MCacheInuse, "Number of bytes in use by mcache structures."},
		{"mcache_sys_bytes", mem.MCacheSys, "Number of bytes used for mcache structures obtained from system."},
		{"buck_hash_sys_bytes", mem.BuckHashSys, "Number of bytes used by the profiling bucket hash table."},
		{"gc_sys_bytes", mem.GCSys, "Number of bytes used for garbage collection system metadata."},
		{"other_sys_bytes", mem.OtherSys, "Number of bytes used for other system allocations."},
		{"next_gc_bytes", mem.NextGC, "Number of heap bytes when next garbage collection will take place."},
	} {
		s.gauge("go_memstats_"+g.name, g.help, float64(g.value))
	}
}
