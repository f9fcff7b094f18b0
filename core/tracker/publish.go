package tracker

import (
	"context"
	"log/slog"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/core/tracker/internal/coalesce"
)

// publisher publishes and logs everything about one server. It is part of its worker.
type publisher struct {
	store     *store
	id        string
	log       *slog.Logger
	transport func() config.Transport
	counts    func() coalesce.Counts

	state    event.State       // as last published
	failures uint64            // connections and lists that failed
	missed   uint64            // changes that the server should have announced
	warned   map[string]bool   // the subjects of warnings that were logged
	needs    string            // the error of the last NeedsAuth state
	waits    event.ServerState // as last published, if that was Unapproved
	cursors  map[string]string // where to resume the subscriptions to events; replaced, never modified
}

// setState publishes a state, unless it is published already. Unconfigured is published again
// if the server lacks something else than before, and Unapproved if something else approves it or the
// server stops going on.
func (p *publisher) setState(st event.ServerState) {
	if st.State != p.state || st.State == event.Pending || st.State == event.Unconfigured || st.State == event.Unapproved && (st.Error != p.waits.Error || st.StillConnected != p.waits.StillConnected) {
		p.publishState(st, nil)
	}
}

// failure publishes a failed attempt or the end of a session. Missing credentials are published
// once, and again only if the reason changes.
func (p *publisher) failure(st event.ServerState) {
	p.failures++
	if st.State == event.NeedsAuth {
		if p.state == event.NeedsAuth && p.needs == st.Error {
			p.store.update(p.id, func(r *record) {
				r.status.Attempt, r.status.NextRetry = st.Attempt, time.Now().Add(time.Duration(st.RetryIn))
				p.sum(&r.status)
			})
			return
		}
		p.needs = st.Error
	}
	p.publishState(st, func(r *record) {
		r.status.NextRetry = time.Now().Add(time.Duration(st.RetryIn))
	})
}

// connected publishes that the server is connected and tracked from now on.
func (p *publisher) connected(state event.State, st event.ServerState, info session.Info) {
	st.State = state
	p.publishState(st, func(r *record) {
		r.status.Info, r.status.EventCursors, r.status.StillConnected = info, p.cursors, st.StillConnected
		r.status.Transport = info.Transport
	})
}

func (p *publisher) publishState(st event.ServerState, change func(*record)) {
	st.Previous = p.state
	p.state, p.waits = st.State, event.ServerState{}
	if st.State == event.Unapproved {
		p.waits = st
	}
	p.store.commit(event.Event{ServerID: p.id, Payload: st}, func(r *record) {
		now := time.Now()
		if r.status.State != st.State || r.status.Since.IsZero() {
			r.status.Since = now
		}
		r.status.State, r.status.Reason, r.status.Attempt, r.status.StillConnected = st.State, st.Reason, st.Attempt, false
		r.status.NextRetry = time.Time{}
		r.status.Transport = p.transport()
		if st.Error != "" {
			r.status.Error = st.Error
		}
		if st.State == event.Ready || st.State == event.Unsupported {
			r.status.Error = ""
		}
		p.sum(&r.status)
		if change != nil {
			change(r)
		}
	})
	p.logState(st)
}

func (p *publisher) logState(st event.ServerState) {
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
	p.log.Log(context.Background(), level, status.StateMessage, args...)
}

// sum copies the counts into the status.
func (p *publisher) sum(st *status.Server) {
	c := p.counts()
	st.Counts = status.Counts{
		Signals: c.Signals, Led: c.Led, Folded: c.Folded, Unknown: c.Unknown,
		Published: c.Published, Unchanged: c.Unchanged, Failed: c.Failed,
		Failures: p.failures, Missed: p.missed, Dropped: st.Counts.Dropped,
	}
}

// dropped adds the notifications that the session discarded.
func (p *publisher) dropped(by map[string]int) {
	if len(by) == 0 {
		return
	}
	p.store.update(p.id, func(r *record) {
		if r.status.Counts.Dropped == nil {
			r.status.Counts.Dropped = map[string]uint64{}
		}
		for reason, n := range by {
			r.status.Counts.Dropped[reason] += uint64(n)
		}
	})
}

// missedChanges counts changes that the server should have announced.
func (p *publisher) missedChanges(n int) {
	if n == 0 {
		return
	}
	p.missed += uint64(n)
	p.store.update(p.id, func(r *record) { p.sum(&r.status) })
}

// subscribed publishes how changes of resources are noticed.
func (p *publisher) subscribed(active event.SubscriptionActive) {
	p.store.commit(event.Event{ServerID: p.id, Payload: active}, func(r *record) {
		r.status.Mode, r.status.Missing = active.Mode, active.Missing
	})
}

// followed stores where to resume the subscriptions to events.
func (p *publisher) followed(cursors map[string]string) {
	p.cursors = cursors
	p.store.update(p.id, func(r *record) { r.status.EventCursors = cursors })
	p.store.remember(func(rec journal.Recorder) error {
		return rec.RememberList(journal.ListName{ServerID: p.id, Kind: journal.Cursors}, journal.CursorList(cursors))
	})
}

// unfollow records that no resources are tracked any more.
func (p *publisher) unfollow() {
	p.store.update(p.id, func(r *record) { r.status.Mode, r.status.Missing = "", nil })
}

// updated publishes an event of the coalescer.
func (p *publisher) updated(u coalesce.Update) {
	e := event.Event{ServerID: p.id, ResourceURI: u.URI, Cause: u.Cause, Received: u.Received}
	if u.Removed {
		e.Payload = event.ResourceRemoved{Descriptor: u.Descriptor, Missing: true}
	} else {
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
	}
	p.store.commit(e, func(r *record) {
		p.sum(&r.status)
		r.describe(u.Resource)
	})
}

// learned stores facts about a resource for which no event is published.
func (p *publisher) learned(res coalesce.Resource) {
	p.store.learn(p.id, res, func(r *record) { p.sum(&r.status) })
}

// forgotten removes resources that are no longer tracked from the published state.
func (p *publisher) forgotten(uris []string) {
	p.store.update(p.id, func(r *record) {
		for _, uri := range uris {
			delete(r.resources, uri)
		}
	})
}

// remembered remembers what was published of the content of a resource, zero: nothing any more.
func (p *publisher) remembered(uri string, d catalog.Digest) {
	p.store.remember(func(rec journal.Recorder) error {
		return rec.Remember(journal.ResourceID{ServerID: p.id, URI: uri}, journal.State{Digest: d, When: time.Now()})
	})
}

// settled remembers that the events that follow from a change of the list of resources are published.
func (p *publisher) settled() {
	p.store.remember(func(rec journal.Recorder) error {
		return rec.RememberList(journal.ListName{ServerID: p.id, Kind: journal.Owed}, nil)
	})
}

// listChanged publishes how a list changed. Events about the resources in follows have to follow.
func (p *publisher) listChanged(k catalog.Kind, old, list catalog.List, d catalog.Delta, cause event.Cause, follows []string) {
	p.store.commit(event.Event{ServerID: p.id, Cause: cause, Payload: event.ListChanged{
		List: k, Added: d.Added, Removed: d.Removed, Changed: d.Changed,
		Details: catalog.ItemChanges(old, list, d.Changed), Items: &list, Follows: follows,
	}}, func(r *record) { r.lists[k] = list })
}

// listDiffers records that a list differs from what the durable log says; see listChanged.
func (p *publisher) listDiffers(k catalog.Kind, list catalog.List, d catalog.Delta, follows []string) {
	p.store.record(event.Event{ServerID: p.id, Cause: event.CauseResync, Payload: event.ListChanged{
		List: k, Added: d.Added, Removed: d.Removed, Changed: d.Changed, Items: &list, Follows: follows,
	}})
}

// commit publishes an event that changes only the state of its resource.
func (p *publisher) commit(e event.Event) { p.store.commit(e, nil) }

// descriptors passes one event for each of the resources, with its descriptor from the list, to
// publish.
func (p *publisher) descriptors(publish func(event.Event), uris []string, list catalog.List, cause event.Cause, payload func(event.Descriptor) event.Payload) {
	for _, uri := range uris {
		it, _ := list.Get(uri)
		d := it.Describe()
		publish(event.Event{ServerID: p.id, ResourceURI: uri, Cause: cause,
			Payload: payload(event.Descriptor{Name: d.Name, MimeType: d.MimeType})})
	}
}

// listFailed publishes that a list could not be loaded; the old list is kept.
func (p *publisher) listFailed(k catalog.Kind, err error) {
	p.store.commit(event.Event{ServerID: p.id, Payload: event.ListChanged{List: k, Error: errorLine(err)}}, nil)
	p.log.Warn("cannot load a list of the server; the last known list stays in use", "list", string(k), "err", errorLine(err))
}

// warnOnce logs a warning at most once for each value of about, until the server's
// connection settings change in the config.
func (p *publisher) warnOnce(about, msg string, err error, args ...any) {
	if p.warned[about] {
		return
	}
	p.warned[about] = true
	if err != nil {
		args = append(args, "err", errorLine(err))
	}
	p.log.Warn(msg, args...)
}
