package tracker

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/core/tracker/internal/coalesce"
)

// setState publishes a new state of the server, unless it was already published. Unconfigured is
// published again if something else is missing than before, and Unapproved if its hint changes or
// the server is no longer connected.
func (w *worker) setState(st event.ServerState) {
	if st.State != w.state || st.State == event.Pending || st.State == event.Unconfigured || st.State == event.Unapproved && (st.Error != w.waits.Error || st.StillConnected != w.waits.StillConnected) {
		w.publishState(st, nil)
	}
}

// publishFailure publishes a failed connection attempt or the failure of a session. Missing
// credentials are published only once, and again if the reason changes.
func (w *worker) publishFailure(st event.ServerState) {
	w.failures++
	if st.State == event.NeedsAuth {
		if w.state == event.NeedsAuth && w.needs == st.Error {
			w.t.store.update(w.id, func(r *record) {
				r.status.Attempt, r.status.NextRetry = st.Attempt, time.Now().Add(time.Duration(st.RetryIn))
				w.count(&r.status)
			})
			return
		}
		w.needs = st.Error
	}
	w.publishState(st, func(r *record) {
		r.status.NextRetry = time.Now().Add(time.Duration(st.RetryIn))
	})
}

// publishConnected publishes that the server is now connected and tracked.
func (w *worker) publishConnected(st event.ServerState, info session.Info) {
	w.publishState(st, func(r *record) {
		r.status.Info, r.status.StillConnected = info, st.StillConnected
		r.status.Transport = info.Transport
	})
	w.rememberHandshake(info)
}

func (w *worker) publishState(st event.ServerState, change func(*record)) {
	st.Previous = w.state
	w.state, w.waits = st.State, event.ServerState{}
	if st.State == event.Unapproved {
		w.waits = st
	}
	w.t.store.commit(event.Event{ServerID: w.id, Payload: st}, func(r *record) {
		now := time.Now()
		if r.status.State != st.State || r.status.Since.IsZero() {
			r.status.Since = now
		}
		r.status.State, r.status.Reason, r.status.Attempt, r.status.StillConnected = st.State, st.Reason, st.Attempt, false
		r.status.NextRetry = time.Time{}
		r.status.Transport = w.srv.Transport
		if st.Error != "" {
			r.status.Error = st.Error
		}
		if st.State == event.Ready || st.State == event.Unsupported {
			r.status.Error = ""
		}
		w.count(&r.status)
		if change != nil {
			change(r)
		}
	})
	w.logState(st)
}

func (w *worker) logState(st event.ServerState) {
	args := []any{"state", string(st.State)}
	for _, a := range []struct{ key, value string }{{"reason", st.Reason}, {"err", st.Error}} {
		if a.value != "" {
			args = append(args, a.key, a.value)
		}
	}
	if st.RetryIn > 0 {
		args = append(args, "retryIn", time.Duration(st.RetryIn).Round(time.Millisecond).String())
	}
	level := slog.LevelInfo
	if st.Error != "" && st.Attempt <= 1 || st.Reason == "crashloop" {
		level = slog.LevelWarn
	}
	w.log.Log(context.Background(), level, status.StateMessage, args...)
}

// warnOnce logs a warning at most once for each value of about. The record of logged warnings is
// reset when the server's connection settings change in the config.
func (w *worker) warnOnce(about, msg string, err error, args ...any) {
	if w.warned[about] {
		return
	}
	w.warned[about] = true
	if err != nil {
		args = append(args, "err", errorLine(err))
	}
	w.log.Warn(msg, args...)
}

func (w *worker) count(st *status.ServerStatus) {
	c := w.co.Counts()
	st.Counts = status.Counts{
		Signals: c.Signals, Folded: c.Folded, Unknown: c.Unknown,
		Published: c.Published, Unchanged: c.Unchanged, Failed: c.Failed,
		Failures: w.failures, Missed: w.missedTotal, Dropped: st.Counts.Dropped,
	}
}

// addDropped adds to the counts of notifications that the session discarded, by reason.
func (w *worker) addDropped(by map[string]int) {
	if len(by) == 0 {
		return
	}
	w.t.store.update(w.id, func(r *record) {
		if r.status.Counts.Dropped == nil {
			r.status.Counts.Dropped = map[string]uint64{}
		}
		for reason, n := range by {
			r.status.Counts.Dropped[reason] += uint64(n)
		}
	})
}

// addMissed adds to the count of changes that the server failed to announce.
func (w *worker) addMissed(n int) {
	if n == 0 {
		return
	}
	w.missedTotal += uint64(n)
	w.t.store.update(w.id, func(r *record) { w.count(&r.status) })
}

// publishActive publishes what is followed and how resource changes are detected.
func (w *worker) publishActive(active event.SubscriptionActive) {
	w.t.store.commit(event.Event{ServerID: w.id, Payload: active}, func(r *record) {
		r.status.Mode, r.status.Missing = active.Mode, active.Missing
	})
}

// clearMode records that resources are no longer tracked.
func (w *worker) clearMode() {
	w.t.store.update(w.id, func(r *record) { r.status.Mode, r.status.Missing = "", nil })
}

// storeCursors stores the positions from which to resume the event subscriptions.
func (w *worker) storeCursors(cursors map[string]string) {
	w.cursors = cursors
	w.t.store.rememberList(w.id, journal.Cursors, journal.CursorList(cursors))
}

// baseline returns the digest that was published for a resource before it was tracked.
func (w *worker) baseline(uri string) (d catalog.Digest) {
	w.t.store.update(w.id, func(r *record) { d = r.storedResources[uri] })
	return d
}

// updated publishes an update reported by the coalescer.
func (w *worker) updated(u coalesce.Update) {
	w.t.store.commit(updateOf(w.id, u), func(r *record) {
		w.count(&r.status)
		r.describe(u.Known)
	})
	if !u.Read && !u.Removed && w.co.Digests() {
		w.t.store.remember(w.id, u.URI, journal.State{Digest: catalog.Unread()})
	}
	f := w.following
	switch {
	case f == nil:
	case !w.co.Digests() && !u.Removed:
		f.reload(u.URI, u.Cause)
	case f.coverage.pushes(u.URI):
		w.addMissed(f.unannounced.found(u, time.Now()))
	}
}

func updateOf(server string, u coalesce.Update) event.Event {
	e := event.Event{ServerID: server, ResourceURI: u.URI, Cause: u.Cause, Received: u.Received}
	if u.Removed {
		e.Payload = event.ResourceRemoved{Descriptor: u.Descriptor, Missing: true}
		return e
	}
	up := event.ResourceUpdated{Name: u.Descriptor.Name, MimeType: u.Descriptor.MimeType}
	if u.Read {
		size := u.Content.Size
		up.Digest, up.PreviousDigest = u.Content.Digest, u.Previous.Digest
		up.Size, up.MimeType = &size, u.Content.MimeType
		up.Text, up.PreviousText = u.Content.Text, u.Previous.Text
		if !u.Previous.Digest.IsZero() {
			changed := u.Content.Digest != u.Previous.Digest
			up.Changed = &changed
		}
	}
	e.Payload = up
	return e
}

// learned updates the state of a resource without publishing an event.
func (w *worker) learned(res coalesce.Known) {
	w.t.store.learn(w.id, res, func(r *record) { w.count(&r.status) })
}

// forgotten removes resources that are no longer tracked from the published state. One that the server
// lists, and that is no longer selected, is new if it is selected again.
func (w *worker) forgotten(all []coalesce.Known) {
	w.t.store.update(w.id, func(r *record) {
		for _, res := range all {
			if _, listed := r.lists[catalog.Resources].Get(res.URI); listed {
				delete(r.resources, res.URI)
			} else {
				r.leave(res.URI, res.Told())
			}
		}
	})
}

// list returns a list of the server, as it was last loaded.
func (w *worker) list(k catalog.Kind) catalog.List { return w.t.store.list(w.id, k) }

// setList replaces a list atomically, publishes how it changed, and returns that. It is compared with what
// was published, also by an earlier tracker; the first list of all is not published.
func (w *worker) setList(k catalog.Kind, list catalog.List, cause event.Cause) catalog.Delta {
	old, stored, known, another, takeovers := w.t.store.versions(w.id, k)
	if another {
		cause = event.CauseResync
		if !known || !catalog.Diff(stored, list).Empty() {
			old, known = stored, true
		}
	}
	var delta catalog.Delta
	if known {
		delta = catalog.Diff(old, list)
	}
	resources := w.selected(k, delta, list)
	if delta.Empty() {
		if !w.t.store.learnList(w.id, k, list, !known || !defined(old), takeovers) {
			return w.setList(k, list, cause)
		}
	} else {
		if w.following != nil {
			w.following.conn.cache.Remove(k, delta.Removed)
		}
		before := old
		if !defined(old) {
			before = nil
		}
		if !w.t.store.commitList(event.Event{ServerID: w.id, Cause: cause, Payload: event.ListChanged{
			List: k, Added: delta.Added, Removed: delta.Removed, Changed: delta.Changed,
			Details: catalog.ItemChanges(old, list, delta.Changed), Versions: catalog.ItemVersions(old, list, delta), Items: &list, Before: before, Follows: keys(resources),
		}}, takeovers) {
			return w.setList(k, list, cause)
		}
	}
	switch {
	case k == catalog.Resources && !resources.Empty():
		w.publishDelta(old, list, resources, cause)
	case k == catalog.Skills:
		w.publishSkills(old, list, delta, cause)
	}
	return delta
}

// defined reports whether a list has the definitions of its items. A list that was stored has none.
func defined(list catalog.List) bool { return len(list) == 0 || list[0].Raw != nil }

// selected returns the selected resources that were added to or removed from a list or whose
// descriptor changed, and the resources that are [journal.Pending], whose events may not have been
// published yet.
func (w *worker) selected(k catalog.Kind, delta catalog.Delta, list catalog.List) (out catalog.Delta) {
	if k != catalog.Resources || !w.srv.TrackResources {
		return out
	}
	pending, _ := w.t.store.stored(w.id, journal.Pending)
	pick := func(uris []string) (picked []string) {
		for _, uri := range uris {
			if _, again := pending.Get(uri); !again && w.srv.Selects(uri) {
				picked = append(picked, uri)
			}
		}
		return picked
	}
	out = catalog.Delta{Added: pick(delta.Added), Removed: pick(delta.Removed), Changed: pick(delta.Changed)}
	for _, it := range pending {
		if _, there := list.Get(it.Key); !w.srv.Selects(it.Key) {
			continue
		} else if there {
			out.Added = append(out.Added, it.Key)
		} else {
			out.Removed = append(out.Removed, it.Key)
		}
	}
	return out
}

func keys(d catalog.Delta) []string { return slices.Concat(d.Added, d.Removed, d.Changed) }

// publishDelta publishes an event for every resource in the delta, including its descriptor from the
// list. It then records that these events have been published.
func (w *worker) publishDelta(old, list catalog.List, delta catalog.Delta, cause event.Cause) {
	each := func(uris []string, from catalog.List, payload func(event.Descriptor) event.Payload) {
		for _, uri := range uris {
			it, _ := from.Get(uri)
			w.t.store.commit(event.Event{ServerID: w.id, ResourceURI: uri, Cause: cause, Payload: payload(descriptor(it))}, nil)
		}
	}
	each(delta.Added, list, func(d event.Descriptor) event.Payload { return event.ResourceAdded{Descriptor: d} })
	var removed []string
	for _, uri := range delta.Removed {
		if known, _ := w.co.Lookup(uri); known.Reported { // already published, because a read did not find the resource
			w.t.store.remember(w.id, uri, journal.State{})
		} else {
			removed = append(removed, uri)
		}
	}
	each(removed, old, func(d event.Descriptor) event.Payload { return event.ResourceRemoved{Descriptor: d} })
	each(delta.Changed, list, func(d event.Descriptor) event.Payload { return event.ResourceChanged{Descriptor: d} })
	w.t.store.rememberList(w.id, journal.Pending, nil)
}

// descriptor returns the parts of an item's descriptor that are included in events.
func descriptor(it catalog.Item) event.Descriptor {
	d := it.Describe()
	return event.Descriptor{Name: d.Name, MimeType: d.MimeType}
}

// listFailed publishes that a list could not be loaded, once until it is; the previous list is kept.
func (w *worker) listFailed(k catalog.Kind, err error) {
	if w.unloaded[k] {
		return
	}
	w.unloaded[k] = true
	w.t.store.commit(event.Event{ServerID: w.id, Payload: event.ListChanged{List: k, Error: errorLine(err)}}, nil)
	w.log.Warn("cannot load a list from the server; the last known list stays in use", "list", string(k), "err", errorLine(err))
}
