package tracker

import (
	"context"
	"log/slog"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
)

// setState publishes a state, unless it is the one already told.
func (w *worker) setState(state event.State, st event.ServerState) {
	if state == w.state && state != event.Pending {
		return
	}
	w.publishState(state, st, nil)
}

// failure publishes a failed attempt or the end of a session.
func (w *worker) failure(state event.State, st event.ServerState) {
	w.counts.Failures++
	w.publishState(state, st, func(r *record) {
		r.status.NextRetry = time.Now().Add(time.Duration(st.RetryIn))
	})
}

// connected publishes that the server is followed from here on.
func (w *worker) connected(state event.State, st event.ServerState, info session.Info) {
	w.publishState(state, st, func(r *record) {
		r.status.Info = info
		r.status.Transport = info.Transport
	})
	w.attempt = 0
}

func (w *worker) publishState(state event.State, st event.ServerState, change func(*record)) {
	st.State, st.Previous = state, w.state
	w.state = state
	w.t.store.commit(event.Event{ServerID: w.id, Payload: st}, func(r *record) {
		now := time.Now()
		if r.status.State != state || r.status.Since.IsZero() {
			r.status.Since = now
		}
		r.status.State, r.status.Reason, r.status.Attempt = state, st.Reason, st.Attempt
		r.status.NextRetry = time.Time{}
		r.status.Transport = w.srv.Transport
		if st.Error != "" {
			r.status.Error = st.Error
		}
		if state == event.Ready || state == event.Unsupported {
			r.status.Error = ""
		}
		w.sum(&r.status)
		if change != nil {
			change(r)
		}
	})
	args := []any{"state", string(state)}
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
	w.log.Log(context.Background(), level, "server", args...)
}

// sum brings the published counts up to date.
func (w *worker) sum(st *ServerStatus) {
	dropped := st.Counts.Dropped
	st.Counts = w.co.counts.addTo(w.counts)
	st.Counts.Dropped = dropped
}

// addTo adds what was counted to the sums.
func (c coalescerCounts) addTo(sums Counts) Counts {
	sums.Signals += c.signals
	sums.Led += c.led
	sums.Folded += c.folded
	sums.Unknown += c.unknown
	sums.Told += c.told
	sums.Unchanged += c.unchanged
	sums.Failed += c.failed
	return sums
}

// dropped adds what the session set aside.
func (w *worker) dropped(by map[string]int) {
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

// subscribed publishes how resources are followed.
func (w *worker) subscribed(active event.SubscriptionActive) {
	w.t.store.commit(event.Event{ServerID: w.id, Payload: active}, func(r *record) {
		r.status.Mode, r.status.Missing = active.Mode, active.Missing
	})
}

// unfollow publishes that resources are not followed any more.
func (w *worker) unfollow() {
	w.t.store.update(w.id, func(r *record) { r.status.Mode, r.status.Missing = "", nil })
}

// tell publishes what the coalescer found.
func (w *worker) tell(k *key, v verdict) {
	e := event.Event{ServerID: w.id, ResourceURI: k.uri, Cause: v.cause, Received: v.received}
	if v.gone {
		e.Payload = event.ResourceRemoved{Descriptor: k.desc}
	} else {
		u := event.ResourceUpdated{Name: k.desc.Name, MimeType: k.desc.MimeType}
		if v.read {
			u.Digest, u.PreviousDigest = v.now.digest, v.was.digest
			u.Size = &v.now.size
			u.MimeType = v.now.mimeType
			u.Text, u.PreviousText = v.now.text, v.was.text
			if v.was.known() {
				changed := v.now.digest != v.was.digest
				u.Changed = &changed
			}
		}
		e.Payload = u
	}
	w.t.store.commit(e, func(r *record) {
		w.sum(&r.status)
		w.describe(r, k)
	})
	if f := w.following; f != nil && !w.co.digests && !v.gone {
		f.reload(k.uri, v.cause)
	}
}

// followKey makes the resource known as followed.
func (w *worker) followKey(k *key) {
	w.t.store.update(w.id, func(r *record) { w.describe(r, k) })
}

// learned publishes what a read found that no event tells.
func (w *worker) learned(k *key) {
	w.t.store.update(w.id, func(r *record) {
		w.sum(&r.status)
		w.describe(r, k)
	})
}

func (w *worker) describe(r *record, k *key) {
	res, ok := r.resources[k.uri]
	if !ok {
		res = &ResourceStatus{URI: k.uri}
		r.resources[k.uri] = res
	}
	res.Digest, res.Size, res.MimeType, res.Text, res.Gone = k.told.digest, k.told.size, k.told.mimeType, k.told.text, k.gone
}

// forget stops following a resource, and what is below it.
func (w *worker) forget(uri string) {
	k, ok := w.co.keys[uri]
	if !ok {
		return
	}
	gone := []string{uri}
	if k.parent != nil {
		k.parent.children--
	}
	if k.children > 0 {
		for below, child := range w.co.keys {
			if child.parent == k {
				gone = append(gone, below)
			}
		}
	}
	for _, u := range gone {
		w.co.remove(u)
	}
	w.t.store.update(w.id, func(r *record) {
		for _, u := range gone {
			delete(r.resources, u)
		}
	})
}

// setList replaces a list as one step and publishes how it changed. The first
// list is a baseline and no change.
func (w *worker) setList(k catalog.Kind, list catalog.List, cause event.Cause) catalog.Delta {
	old, had := w.lists[k]
	delta := catalog.Diff(old, list)
	w.lists[k] = list
	if !had || delta.Empty() {
		w.t.store.update(w.id, func(r *record) { r.lists[k] = list })
		return catalog.Delta{}
	}
	if w.following != nil {
		w.following.conn.shelf.Remove(k, delta.Removed)
	}
	w.t.store.commit(event.Event{ServerID: w.id, Cause: cause, Payload: event.ListChanged{
		List: k, Added: delta.Added, Removed: delta.Removed, Changed: delta.Changed,
		Details: itemChanges(old, list, delta.Changed),
	}}, func(r *record) { r.lists[k] = list })
	if k != catalog.Resources {
		return delta
	}
	for _, uri := range delta.Removed {
		if known, ok := w.co.keys[uri]; ok {
			w.former.keep(uri, known.told.digest)
		}
	}
	publish := func(uris []string, from catalog.List, payload func(event.Descriptor) event.Payload) {
		for _, uri := range uris {
			if !follows(&w.srv, uri) {
				continue
			}
			it, _ := from.Get(uri)
			d := it.Describe()
			p := payload(event.Descriptor{Name: d.Name, MimeType: d.MimeType})
			if known, ok := w.co.keys[uri]; ok && known.missed && p.Type() == event.TypeResourceRemoved {
				continue // told already, when a read found it gone
			}
			w.t.store.commit(event.Event{ServerID: w.id, ResourceURI: uri, Cause: cause, Payload: p}, nil)
		}
	}
	publish(delta.Added, list, func(d event.Descriptor) event.Payload { return event.ResourceAdded{Descriptor: d} })
	publish(delta.Removed, old, func(d event.Descriptor) event.Payload { return event.ResourceRemoved{Descriptor: d} })
	publish(delta.Changed, list, func(d event.Descriptor) event.Payload { return event.ResourceChanged{Descriptor: d} })
	return delta
}

// listFailed publishes that a list could not be loaded; the old one stays.
func (w *worker) listFailed(k catalog.Kind, err error) {
	w.t.store.commit(event.Event{ServerID: w.id, Payload: event.ListChanged{List: k, Error: errorLine(err)}}, nil)
	w.log.Warn("cannot load a list; what is known of it stays", "list", string(k), "err", errorLine(err))
}

// warnOnce logs something a user should look into, once for every config.
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
