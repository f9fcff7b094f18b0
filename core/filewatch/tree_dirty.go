package filewatch

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// dirtyPaths holds the paths that may have changed and were not delivered yet. Each
// has its own burst, so that a file that is written continuously delays no other.
// Zero times mean the same as in a debounce.
type dirtyPaths struct {
	quiet, most time.Duration // of each burst; see debounce
	limit       int           // of paths, and of bursts that begin within stormWindow; beyond it, all replaces the paths

	paths map[string]*debounce
	all   debounce // pending: anything may have changed, and paths is empty

	window time.Time // start of the current stormWindow
	begun  int       // bursts that began in it
}

const (
	stormWindow = time.Second
	// shortGap and longGap are the least time between two batches, at low and high
	// rates of change, so that bursts that end at almost the same time share a batch.
	shortGap = 40 * time.Millisecond
	longGap  = 250 * time.Millisecond
)

// kick records a possible change of one path.
func (d *dirtyPaths) kick(path string, now time.Time) {
	if d.all.pending() {
		d.all.kick(now)
		return
	}
	burst := d.paths[path]
	if burst == nil {
		if now.Sub(d.window) >= stormWindow {
			d.window, d.begun = now, 0
		}
		if d.begun++; d.begun > d.limit || len(d.paths) >= d.limit {
			d.kickAll(now)
			return
		}
		if d.paths == nil {
			d.paths = make(map[string]*debounce)
		}
		burst = &debounce{quiet: d.quiet, most: d.most}
		d.paths[path] = burst
	}
	burst.kick(now)
}

// kickAll records that anything may have changed. It replaces the bursts of single
// paths and inherits the earliest start, so that MaxWait still holds.
func (d *dirtyPaths) kickAll(now time.Time) {
	if !d.all.pending() {
		d.all = debounce{quiet: d.quiet, most: d.most}
		for _, burst := range d.paths {
			if d.all.first.IsZero() || burst.first.Before(d.all.first) {
				d.all.first = burst.first
			}
		}
		clear(d.paths)
	}
	d.all.kick(now)
}

// due returns when the next burst ends if nothing else happens; ok is false without
// one.
func (d *dirtyPaths) due() (at time.Time, ok bool) {
	if d.all.pending() {
		return d.all.due(), true
	}
	for _, burst := range d.paths {
		if t := burst.due(); !ok || t.Before(at) {
			at, ok = t, true
		}
	}
	return at, ok
}

// gap returns the least time between two batches at present.
func (d *dirtyPaths) gap() time.Duration {
	if d.begun > d.limit/10 {
		return longGap
	}
	return shortGap
}

// take removes the paths that are due at now and returns them as a batch, nil if there are
// none.
func (d *dirtyPaths) take(now time.Time) *Batch {
	if d.all.pending() {
		if d.all.due().After(now) {
			return nil
		}
		b := &Batch{All: true, SeenAt: d.all.first}
		d.all.reset()
		return b
	}
	b := &Batch{}
	for path, burst := range d.paths {
		if burst.due().After(now) {
			continue
		}
		if b.SeenAt.IsZero() || burst.first.Before(b.SeenAt) {
			b.SeenAt = burst.first
		}
		b.Paths = append(b.Paths, path)
		delete(d.paths, path)
	}
	if len(b.Paths) == 0 {
		return nil
	}
	slices.Sort(b.Paths)
	return b
}

// merge joins a batch that was not received yet with a newer one; either may be nil. More
// paths than limit become a batch for everything.
func merge(old, now *Batch, limit int) *Batch {
	if old == nil || now == nil {
		if old == nil {
			return now
		}
		return old
	}
	m := &Batch{All: old.All || now.All, SeenAt: old.SeenAt}
	if now.SeenAt.Before(m.SeenAt) {
		m.SeenAt = now.SeenAt
	}
	if !m.All {
		set := make(map[string]struct{}, len(old.Paths)+len(now.Paths))
		for _, path := range slices.Concat(old.Paths, now.Paths) {
			set[path] = struct{}{}
		}
		if m.All = len(set) > limit; !m.All {
			m.Paths = slices.Sorted(maps.Keys(set))
		}
	}
	return m
}

// within reports whether path is dir or below it; "." is the root.
func within(path, dir string) bool {
	return dir == "." || path == dir || strings.HasPrefix(path, dir) && path[len(dir)] == '/'
}
