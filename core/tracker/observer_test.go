package tracker

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/status"
)

// observer consumes all events, relies only on them, and checks the resulting state.
type observer struct {
	c        *chaos
	begin    *status.Snapshot
	baseline map[string]catalog.Digest // the digests at begin
	view     map[string]known
	stopped  bool // changes that were not announced in time may be missing
}

// known is what the events report about one resource.
type known struct {
	digest    catalog.Digest
	published bool // an event reported it
	owed      bool // the last event was without its digest
	gone      bool
	at        time.Time
}

// check compares what the events report with the truth.
func (o *observer) check() {
	w := o.c.w
	o.replay()
	truth := trueDigests(o.c.docs)
	st, _ := w.tracker.Snapshot().Server("docs")
	status := digests(w)
	wrong := 0
	complain := func(uri, what string) {
		wrong++
		w.Errorf("%s: %s; truth %s, known %s, view %+v", uri, what, truth[uri], status[uri], o.view[uri])
	}
	for _, uri := range slices.Sorted(maps.Keys(truth)) {
		want, v := truth[uri], o.view[uri]
		_, follows := status[uri]
		switch {
		case want.IsZero() && v.published && !v.gone:
			complain(uri, "it is gone, but no event reported it")
		case want.IsZero() && follows:
			complain(uri, "it is gone and still followed")
		case want.IsZero():
		case !follows && !o.stopped:
			complain(uri, "it is not followed")
		case v.published && v.gone && !o.stopped:
			complain(uri, "it is there and was published as gone")
		case !o.c.read:
			o.checkUnread(uri, v, complain)
		case follows && status[uri] != want:
			complain(uri, "its change was lost")
		case v.published && v.owed:
			complain(uri, "the last event owes its digest")
		case v.published && !v.gone && !v.digest.IsZero() && v.digest != want:
			complain(uri, "its last event has another digest")
		}
	}
	if wrong > 0 {
		w.Errorf("keys whose last event differs from the truth: %d", wrong)
	}
	if n := st.Counts; n.Signals < n.Folded+n.Unknown {
		w.Errorf("signals are not conserved: %+v", n)
	}
	if !o.stopped {
		o.checkLists(st)
	}
}

// checkUnread checks that without reads, every change is followed by an event.
func (o *observer) checkUnread(uri string, v known, complain func(uri, what string)) {
	var last time.Time
	for _, ch := range o.c.docs.Truth() {
		if ch.URI == uri {
			last = ch.Time
		}
	}
	if base, there := o.begin.Server("docs"); there && !v.published && slices.ContainsFunc(base.Resources, func(r status.ResourceStatus) bool { return r.URI == uri }) {
		if last.After(base.Since) {
			complain(uri, "nothing was published of its change")
		}
		return
	}
	if v.at.Before(last) {
		complain(uri, "nothing was published after its last change at "+last.Format("04:05.000"))
	}
}

// checkLists checks that the lists equal the server's.
func (o *observer) checkLists(st status.ServerStatus) {
	if !o.c.noTools {
		if got, want := st.Lists[catalog.Tools].Keys(), slices.Sorted(slices.Values(o.c.tools)); !slices.Equal(got, want) {
			o.c.w.Errorf("known tools %q, true tools %q", got, want)
		}
	}
	var want []string
	for uri, there := range o.c.exist {
		if there {
			want = append(want, uri)
		}
	}
	slices.Sort(want)
	if got := st.Lists[catalog.Resources].Keys(); !slices.Equal(got, want) {
		o.c.w.Errorf("known resources %q, true resources %q", got, want)
	}
	if st.State != event.Ready {
		o.c.w.Errorf("the server is %s (%s %s)", st.State, st.Reason, st.Error)
	}
}

// replay applies the events. Their numbers must have no holes, each must name the previous content
// correctly, and only the answer to an announcement may repeat the content.
func (o *observer) replay() {
	w := o.c.w
	o.view = map[string]known{}
	for uri, d := range o.baseline {
		o.view[uri] = known{digest: d}
	}
	var seq uint64
	for _, e := range w.published() {
		if seq != 0 && e.Seq != seq+1 {
			w.Errorf("event %d after %d", e.Seq, seq)
		}
		for _, a := range o.c.anew {
			if a.after == seq {
				o.unlearn(a.uri)
			}
		}
		seq = e.Seq
		if e.ServerID != "docs" {
			continue
		}
		uri := e.ResourceURI
		v := o.view[uri]
		switch p := e.Payload.(type) {
		case event.ResourceUpdated:
			if o.c.read && e.Seq > o.begin.Seq {
				o.checkUpdate(e, p, v)
			}
			v = known{digest: cmpOr(p.Digest, v.digest), published: true, owed: p.Digest.IsZero(), at: e.Timestamp}
		case event.ResourceRemoved:
			if v.published && v.gone && e.Cause != event.CauseNotify {
				w.Errorf("event %d: %s is published as gone twice", e.Seq, uri)
			}
			v = known{published: true, gone: true, at: e.Timestamp}
		case event.ServerState:
			if p.State == event.Pending {
				o.unlearn("") // added to the config
			}
			continue
		case event.ResourceAdded:
			v = known{published: true, at: e.Timestamp}
		default:
			continue
		}
		o.view[uri] = v
	}
	for _, a := range o.c.anew {
		if a.after == seq {
			o.unlearn(a.uri)
		}
	}
}

// unlearn forgets a resource, or all for "".
func (o *observer) unlearn(uri string) {
	if uri == "" {
		clear(o.view)
	}
	delete(o.view, uri)
}

func (o *observer) checkUpdate(e *event.Event, p event.ResourceUpdated, v known) {
	w := o.c.w
	if !v.digest.IsZero() && !p.Digest.IsZero() && !p.PreviousDigest.IsZero() && p.PreviousDigest != v.digest {
		w.Errorf("event %d: %s follows %s, published was %s", e.Seq, e.ResourceURI, p.PreviousDigest, v.digest)
	}
	if e.Cause != event.CauseNotify && !v.owed && v.published && p.Digest == v.digest && !p.Digest.IsZero() {
		w.Errorf("event %d: %s without a change of %s", e.Seq, e.Cause, e.ResourceURI)
	}
	if p.Changed != nil && *p.Changed == (p.Digest == p.PreviousDigest) {
		w.Errorf("event %d: changed is %t from %s to %s", e.Seq, *p.Changed, p.PreviousDigest, p.Digest)
	}
}

// log returns the events of docs in a short form.
func (o *observer) log() string {
	var b strings.Builder
	for _, e := range o.c.w.published() {
		if e.ServerID != "docs" {
			continue
		}
		fmt.Fprintf(&b, "%s %d %s %s %s", e.Timestamp.Format("04:05.000"), e.Seq, e.Type(), e.ResourceURI, e.Cause)
		switch p := e.Payload.(type) {
		case event.ResourceUpdated:
			fmt.Fprintf(&b, " %.12s -> %.12s", strings.TrimPrefix(p.PreviousDigest.String(), "sha256:"), strings.TrimPrefix(p.Digest.String(), "sha256:"))
		case event.ServerState:
			fmt.Fprintf(&b, " %s %s %s", p.State, p.Reason, p.Error)
		case event.ListChanged:
			fmt.Fprintf(&b, " +%q -%q %s", p.Added, p.Removed, p.Error)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func cmpOr(d, otherwise catalog.Digest) catalog.Digest {
	if d.IsZero() {
		return otherwise
	}
	return d
}
