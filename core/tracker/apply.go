package tracker

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
)

// synced applies what a walk brought home, as one step for each list. An error
// means that the session is of no use.
func (f *follower) synced(a syncAnswer) error {
	f.syncing = false
	if f.stopped {
		f.stopped = false
		f.asks = append(a.job.asks, f.asks...)
		f.todo.merge(a.job.demand)
		f.todo.merge(demand{subscribe: true, compare: true}) // nobody knows how far it came
		f.nextWalk = time.Time{}
		return nil
	}
	failed := f.syncFailed(a)
	if a.deaf {
		return failed
	}
	var changed []string // resources with another descriptor
	for _, k := range slices.Sorted(maps.Keys(a.lists)) {
		if !f.w.wants(k) {
			continue // any more
		}
		delta := f.w.setList(k, a.lists[k], cmp.Or(a.job.lists[k], event.CauseResync))
		if k == catalog.Resources {
			changed = delta.Changed
		}
	}
	for _, k := range slices.Sorted(maps.Keys(a.listErrs)) {
		f.w.listFailed(k, a.listErrs[k])
	}
	f.retryLater(a, failed)
	if a.interrupted {
		a.job.compare = true
		if !sameSet(a.asked.URIs, setOf(a.job.target(f.w.lists[catalog.Resources]))) {
			f.todo.merge(everything(event.CauseResync))
		}
	}
	before := f.pushes()
	if a.made && f.adoptAck(a) {
		a.job.compare = true
	}
	f.adoptTarget(a, before)
	for _, uri := range changed {
		if k, ok := f.w.co.keys[uri]; ok {
			f.w.co.recheck(k, roleResync) // size or type may be all that tells of other content
		}
	}
	f.answer(a)
	f.becomeReady()
	if f.w.srv.TrackResources && f.s.Info().Capabilities.Resources {
		f.announce(a.made && a.job.subscribe)
	}
	f.warnOfMissing()
	now := time.Now()
	if a.job.compare {
		f.w.co.compare()
	}
	early := f.early
	f.early = nil
	for uri, sig := range early {
		f.signal(uri, sig, now)
	}
	f.planPolls(now)
	f.call()
	return nil
}

// syncFailed is what went wrong in the walk, nil if nothing did.
func (f *follower) syncFailed(a syncAnswer) error {
	errs := slices.Collect(maps.Values(a.listErrs))
	if a.subscribe != nil && !isUnsupported(a.subscribe) {
		errs = append(errs, a.subscribe)
	}
	return errors.Join(errs...)
}

// retryLater demands again what the walk failed to do.
func (f *follower) retryLater(a syncAnswer, failed error) {
	if failed == nil {
		f.failures = 0
		return
	}
	f.failures++
	f.w.counts.Failures++
	for k := range a.listErrs {
		f.todo.add([]catalog.Kind{k}, event.CauseResync)
	}
	if a.subscribe != nil {
		f.w.warnOnce("subscribe", "cannot subscribe; polling meanwhile", a.subscribe)
		f.todo.merge(demand{subscribe: true, compare: true})
		f.todo.add(f.kinds(), event.CauseResync)
	}
	wait := min(f.w.opts.Backoff<<min(f.failures-1, 10), f.w.opts.MaxBackoff)
	f.nextWalk = time.Now().Add(min(jitter(wait), f.w.opts.MaxBackoff))
}

// adoptTarget follows the resources that the list and the config name now. pushed
// tells which of them were pushed before the walk.
func (f *follower) adoptTarget(a syncAnswer, pushed func(uri string) bool) {
	co := f.w.co
	target := f.target()
	offered := f.s.Info().Capabilities.ResourcesSubscribe
	pushes := f.pushes()
	for uri, desc := range target {
		k, known := co.keys[uri]
		if _, subscribed := f.followed[uri]; !known && offered && !subscribed {
			continue // selected during the walk: another one is demanded, and subscribes first
		}
		if known {
			delete(f.w.former, uri) // it is followed on, listed or not
		}
		if !known {
			k = co.add(uri, f.w.baseline(uri))
			f.w.followKey(k)
		} else if k.parent != nil { // followed in its own right from here on
			k.parent.children--
			k.parent = nil
		}
		k.desc = desc
		switch _, listed := a.lists[catalog.Resources].Get(uri); {
		case a.job.compare: // reads everything
		case !known:
			k.seen = true
			co.check(k, roleResync) // a first look, unless something is known from before
		case pushes(uri) && !pushed(uri):
			co.doubt(k) // what changed meanwhile was announced to nobody
		case k.gone && listed:
			co.check(k, roleResync) // gone when it was read, and back since
		}
	}
	for uri, k := range co.keys {
		if _, ok := target[uri]; !ok && k.parent == nil {
			f.w.forget(uri)
		}
	}
}

// baseline is what was known of a resource before.
func (w *worker) baseline(uri string) content {
	if d := w.former.take(uri); !d.IsZero() {
		return content{digest: d}
	}
	if w.opts.Baseline == nil {
		return content{}
	}
	return content{digest: w.opts.Baseline(w.id, uri)}
}

// target is what the config and the known list say to follow.
func (f *follower) target() map[string]event.Descriptor {
	target := map[string]event.Descriptor{}
	if !f.s.Info().Capabilities.Resources {
		return target // also if an earlier session had some
	}
	resources := f.w.lists[catalog.Resources]
	for _, uri := range withWanted(followedURIs(&f.w.srv, resources), f.wanted) {
		var desc event.Descriptor
		if it, ok := resources.Get(uri); ok {
			d := it.Describe()
			desc = event.Descriptor{Name: d.Name, MimeType: d.MimeType}
		}
		target[uri] = desc
	}
	return target
}

// becomeReady publishes the state that the server's capabilities allow, the first
// time and when the config asks for something else.
func (f *follower) becomeReady() {
	info := f.s.Info()
	st := event.ServerState{ProtocolVersion: info.ProtocolVersion, Era: string(info.Era)}
	state := event.Ready
	if f.w.srv.TrackResources && !info.Capabilities.Resources {
		state, st.Reason = event.Unsupported, "the server does not offer resources"
		f.w.warnOnce("resources", st.Reason, nil)
	}
	if f.ready && state == f.w.state {
		return
	}
	f.ready = true
	f.w.connected(state, st, info)
}

// announce tells from where on which resources are followed, and how; again only
// if that changed or the server was subscribed to anew.
func (f *follower) announce(again bool) {
	active := event.SubscriptionActive{
		Resources: event.ResourceSet{Count: len(f.target())},
		Mode:      f.noticed(),
		Missing:   slices.Sorted(maps.Keys(f.missing)),
	}
	if !again && active.Mode == f.told.Mode && active.Resources.Count == f.told.Resources.Count &&
		slices.Equal(active.Missing, f.told.Missing) {
		return
	}
	switch active.Mode {
	case event.Poll:
		f.w.warnOnce("poll", "the server does not push changes of resources; polling every "+f.w.srv.PollInterval.String(), nil)
	case "":
		f.w.warnOnce("unnoticed", `the server does not push changes of resources, and with "read": "none" they are not noticed; set it to "digest"`, nil)
	}
	f.told = active
	f.w.subscribed(active)
}

// warnOfMissing names what the server was asked to push and does not: the first
// few of it.
func (f *follower) warnOfMissing() {
	uris := slices.Sorted(maps.Keys(f.missing))
	if f.mode == event.Poll {
		uris = nil // told as the mode
	}
	if len(uris)+len(f.unpushed) == 0 {
		return
	}
	msg := "the server does not push some changes; polling these"
	if len(uris) > 0 && f.w.srv.Read == config.ReadNone {
		msg = `the server does not push some changes, and with "read": "none" those of resources are not noticed; set it to "digest"`
	}
	f.w.warnOnce("missing", msg, nil,
		"resources", len(uris), "uris", printable.Line(strings.Join(uris[:min(len(uris), 10)], " "), 1000),
		"lists", fmt.Sprint(f.unpushed))
}

// call makes the calls of the config's onConnect, once in a session and after the
// subscription, one after the other.
func (f *follower) call() {
	if f.calls {
		return
	}
	f.calls = true
	calls := f.w.srv.OnConnect
	if len(calls) == 0 {
		return
	}
	f.jobs.Go(func() {
		for _, c := range calls {
			if err := callTool(f.ctx, f.conn, c); err != nil && f.ctx.Err() == nil {
				f.w.log.Warn("onConnect call failed", "tool", c.Tool, "err", errorLine(err))
			}
		}
	})
}

// planPolls sets the time of the next poll, if there is anything to poll.
func (f *follower) planPolls(now time.Time) {
	if !f.polled() {
		f.nextPoll = time.Time{}
		return
	}
	if f.nextPoll.IsZero() {
		f.nextPoll = now.Add(jitter(f.w.srv.PollInterval))
	}
}

// polled reports whether anything that is followed is not pushed.
func (f *follower) polled() bool {
	return f.mode == event.Poll || len(f.missing) > 0 || len(f.polledLists()) > 0
}

// polledLists are the wanted lists whose changes the server does not announce.
func (f *follower) polledLists() []catalog.Kind {
	info := f.s.Info()
	var kinds []catalog.Kind
	for _, k := range f.kinds() {
		if f.ignores(k) {
			continue
		}
		announced := map[catalog.Kind]bool{
			catalog.Resources: info.Capabilities.ResourcesListChanged,
			catalog.Templates: info.Capabilities.ResourcesListChanged,
			catalog.Tools:     info.Capabilities.ToolsListChanged,
			catalog.Prompts:   info.Capabilities.PromptsListChanged,
		}[k]
		if !announced || !info.Push || slices.Contains(f.unpushed, k) {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

func (f *follower) poll(now time.Time) {
	f.nextPoll = now.Add(jitter(f.w.srv.PollInterval))
	f.todo.add(f.polledLists(), event.CausePoll)
	if f.mode == event.Poll {
		f.w.co.checkAll(rolePoll)
		return
	}
	for uri := range f.missing {
		if k, ok := f.w.co.keys[uri]; ok {
			f.w.co.check(k, rolePoll)
		}
	}
}
