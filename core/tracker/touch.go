package tracker

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/glob"
	"github.com/mcptrack/mcptrack/core/internal/wake"
	"github.com/mcptrack/mcptrack/core/tracker/internal/coalesce"
)

// Touch reports that the resources of a server whose URIs match one of the globs may have changed. The
// tracker reads those that it tracks, and publishes the ones whose content differs, with cause hook.
// It also requests the server's list of resources, at most every 5 s. Reports are merged: however many
// there are, each resource is read at most once per [Options.Window], and once more after the last
// report. A report about a server that is not connected is handled once it is; a server that is asleep
// is not woken. Touch never blocks. It ignores unknown servers and invalid globs.
func (t *Tracker) Touch(server string, globs ...string) {
	t.mu.Lock()
	w := t.workers[server]
	t.mu.Unlock()
	if w != nil {
		w.touched.add(globs)
	}
}

// touched collects the globs that Tracker.Touch reported for one server. Its size is limited by
// maxTouched. It is safe for concurrent use.
type touched struct {
	wake wake.Channel // received by the worker: there is something to take

	mu    sync.Mutex
	globs map[string]time.Time // time of the first report of each glob

	taken time.Time // when the worker last took the globs; used only by the worker
}

// maxTouched limits the globs that wait for one server. Beyond it, all resources count as touched.
const maxTouched = 1000

func (t *touched) add(globs []string) {
	now := time.Now()
	t.mu.Lock()
	for _, g := range globs {
		if !glob.Valid(g) {
			continue
		}
		if t.globs == nil {
			t.globs = map[string]time.Time{}
		}
		if len(t.globs) >= maxTouched {
			g = "**"
		}
		if _, waits := t.globs[g]; !waits {
			t.globs[g] = now
		}
	}
	t.mu.Unlock()
	t.wake.Send()
}

func (t *touched) any() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.globs) > 0
}

// take returns the globs that wait, and the time of the first report.
func (t *touched) take(now time.Time) (globs []string, first time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	globs, first = slices.Collect(maps.Keys(t.globs)), earliest(slices.Collect(maps.Values(t.globs))...)
	t.globs, t.taken = nil, now
	return globs, first
}

// touchesAt returns when dueTouches must next be called, or zero if never. Before the first sync of a
// session it waits, because that sync also reads resources.
func (f *sessionFollower) touchesAt() time.Time {
	if !f.ready || !f.w.touched.any() {
		return time.Time{}
	}
	return f.w.touched.taken.Add(f.w.opts.Window)
}

// dueTouches marks the touched resources to be read, once per window.
func (f *sessionFollower) dueTouches(now time.Time) {
	if at := f.touchesAt(); at.IsZero() || now.Before(at) {
		return
	}
	globs, first := f.w.touched.take(now)
	matches := func(uri string) bool {
		return slices.ContainsFunc(globs, func(g string) bool { return glob.MatchURI(g, uri) })
	}
	for _, uri := range f.conn.cache.URIs() {
		if matches(uri) {
			f.conn.cache.Updated(uri)
		}
	}
	for _, uri := range f.w.co.URIs() {
		if matches(uri) {
			f.touch(uri, first, now)
		}
	}
	if f.scope().wants(catalog.Resources) {
		f.events.unlisted = event.CauseHook // so that dueEvents requests the list
	}
}

// touch marks one tracked resource to be read.
func (f *sessionFollower) touch(uri string, first, now time.Time) {
	f.unannounced.announced(uri)
	if f.w.co.Digests() {
		f.w.co.Recheck(uri, coalesce.Hook)
		return
	}
	f.w.co.Signal(uri, coalesce.Signal{N: 1, Received: first, Cause: event.CauseHook}, now)
}
