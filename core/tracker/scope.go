package tracker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/tracker/internal/coalesce"
)

// scope determines what to track on a server, based on the server's config entry and on what the
// server offers.
type scope struct {
	srv        config.Server
	opts       *Options
	info       session.Info
	unreliable bool                  // the server failed to push updates that it claims to push
	left       map[catalog.Kind]bool // lists that the server does not survive
}

func (f *sessionFollower) scope() scope {
	return scope{f.w.srv, &f.w.opts, f.s.Info(), f.w.unreliable, f.w.eras.left}
}

// targets returns the resources to track, with their descriptors if they are listed.
func (f *sessionFollower) targets() map[string]event.Descriptor {
	uris, list := f.offered(), f.w.list(catalog.Resources)
	targets := make(map[string]event.Descriptor, len(uris))
	for _, uri := range uris {
		var desc event.Descriptor
		if it, ok := list.Get(uri); ok {
			desc = descriptor(it)
		}
		targets[uri] = desc
	}
	return targets
}

// offered returns the sorted URIs of targets without building the descriptors. It returns none if
// the server does not support resources, even if it did in an earlier session.
func (f *sessionFollower) offered() []string {
	sc := f.scope()
	if !sc.info.Capabilities.Resources {
		return nil
	}
	return sc.resources(f.w.list(catalog.Resources), f.clients.uris())
}

func (s scope) wants(k catalog.Kind) bool { return s.opts.AllLists || s.srv.Tracks(k) }

// kinds returns the lists that are wanted and offered by the server, and that it survives.
func (s scope) kinds() []catalog.Kind {
	var kinds []catalog.Kind
	for _, k := range catalog.Kinds() {
		if s.wants(k) && s.info.Capabilities.Has(k) && !s.left[k] {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// kindsOf returns k, and also templates if k is resources, but only kinds that are wanted and
// offered by the server.
func (s scope) kindsOf(k catalog.Kind) []catalog.Kind {
	return slices.DeleteFunc(s.kinds(), func(o catalog.Kind) bool {
		return o != k && !(k == catalog.Resources && o == catalog.Templates)
	})
}

// filter returns what to ask the server to push, limited to what it declares to support.
func (s scope) filter(uris []string) session.Filter {
	caps := s.info.Capabilities
	follow := func(k catalog.Kind) bool { return announces(caps, k) && s.wants(k) }
	want := session.Filter{
		Tools:     follow(catalog.Tools),
		Prompts:   follow(catalog.Prompts),
		Resources: follow(catalog.Resources) || caps.ResourcesListChanged && caps.Skills && s.wants(catalog.Skills), // files of skills are resources
		Events:    caps.EventsListChanged && !s.srv.Events.Off,
	}
	if s.subscribes() {
		want.URIs = uris
	}
	return want
}

// announces reports whether a server with the given capabilities announces changes to the list. The
// Skills extension has no notification.
func announces(caps session.Capabilities, k catalog.Kind) bool {
	switch k {
	case catalog.Tools:
		return caps.ToolsListChanged
	case catalog.Prompts:
		return caps.PromptsListChanged
	case catalog.Skills:
		return false
	}
	return caps.ResourcesListChanged
}

// subscribes reports whether the tracker subscribes to resources.
func (s scope) subscribes() bool {
	return s.info.Capabilities.ResourcesSubscribe && s.srv.Mode != config.ModePoll
}

// pushes reports whether the server can be relied on to push updates of subscribed resources.
func (s scope) pushes() bool { return s.subscribes() && s.info.Push && !s.unreliable }

// resources returns the sorted URIs to track, given the server's list and the URIs that clients
// subscribed to. From the list, it selects the resources that the config entry includes and does
// not exclude. Resources that the entry includes by their full URI are selected even if they are
// not listed, because resources of a template are not listed.
func (s scope) resources(list catalog.List, clients []string) []string {
	uris := slices.Clone(clients)
	for _, it := range list {
		if s.selects(it.Key) {
			uris = append(uris, it.Key)
		}
	}
	for _, uri := range s.srv.Include {
		if _, listed := list.Get(uri); !listed && !isGlob(uri) && s.selects(uri) {
			uris = append(uris, uri)
		}
	}
	slices.Sort(uris)
	return slices.Compact(uris)
}

// selects reports whether the config entry selects the resource.
func (s scope) selects(uri string) bool { return s.srv.TrackResources && s.srv.Selects(uri) }

// polledLists returns the wanted lists whose changes the server does not announce. missing contains
// the lists that the server was asked to announce but does not. Skills have their own schedule; see
// [skillSchedule].
func (s scope) polledLists(missing []catalog.Kind) []catalog.Kind {
	var kinds []catalog.Kind
	for _, k := range s.kinds() {
		if k != catalog.Skills && (!announces(s.info.Capabilities, k) || !s.info.Push || slices.Contains(missing, k)) {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

func isGlob(s string) bool { return strings.ContainsAny(s, "*[{") }

// coverage describes which changes the server pushes. It is used as a value: update replaces its
// maps, so a copy preserves the earlier state.
type coverage struct {
	mode    event.UpdateMode
	asked   map[string]struct{} // resources whose updates the server was asked to push
	missing map[string]struct{} // resources in asked whose updates the server does not push
	lists   []catalog.Kind      // lists whose changes the server was asked to push, but does not
}

// update records what the server agreed to push, if the sync with result r subscribed. If the
// server did not agree to push anything, all resources are polled.
func (c *coverage) update(r syncResult, sc scope) {
	if !r.made {
		return
	}
	c.asked, c.lists = setOf(r.asked.URIs), r.ack.MissingLists
	c.mode, c.missing = event.Push, setOf(r.ack.MissingURIs)
	if r.subscribe != nil || !sc.pushes() {
		c.mode, c.missing = event.Poll, nil
	}
}

// poll marks all resources as polled until the next subscription.
func (c *coverage) poll() { c.mode, c.missing = event.Poll, nil }

// partial reports whether the server pushes less than requested. The server may have refused the
// rest only temporarily.
func (c *coverage) partial(sc scope) bool {
	return sc.pushes() && len(c.asked) > 0 && (c.mode != event.Push || len(c.missing) > 0)
}

// pushes reports whether the server pushes updates of the resource.
func (c *coverage) pushes(uri string) bool {
	return c.mode == event.Push && has(c.asked, uri) && !has(c.missing, uri)
}

// warn logs the first few items whose changes the server was asked to push and does not.
func (c *coverage) warn(w *worker) {
	uris := sortedKeys(c.missing)
	if len(uris)+len(c.lists) == 0 {
		return
	}
	msg := "the server does not push some changes; polling for them"
	if len(uris) > 0 && w.srv.Read == config.ReadNone {
		msg = `the server does not push some changes, and with "read": "none" changes of resources are not detected; set "read": "digest"`
	}
	w.warnOnce("missing", msg, nil,
		"resources", len(uris), "uris", printable.Line(strings.Join(uris[:min(len(uris), 10)], " "), 1000),
		"lists", fmt.Sprint(c.lists))
}

// announceActive publishes what is followed and how changes of resources are detected: once per
// session, and again whenever the set of resources or the mode changes, or when the tools, prompts
// or skills become known.
func (f *sessionFollower) announceActive() {
	sc := f.scope()
	if len(sc.kinds()) == 0 {
		f.lastActive = nil
		return
	}
	active := event.SubscriptionActive{Tools: f.followed(sc, catalog.Tools), Prompts: f.followed(sc, catalog.Prompts), Skills: f.followed(sc, catalog.Skills)}
	if sc.srv.TrackResources && sc.info.Capabilities.Resources {
		f.describeResources(&active)
	}
	if last := f.lastActive; last != nil && active.Mode == last.Mode && active.Resources == last.Resources &&
		slices.Equal(active.URIs, last.URIs) && slices.Equal(active.Missing, last.Missing) &&
		(active.Tools > 0) == (last.Tools > 0) && (active.Prompts > 0) == (last.Prompts > 0) && (active.Skills > 0) == (last.Skills > 0) {
		return
	}
	f.lastActive = &active
	f.w.publishActive(active)
}

// followed returns the number of items in a list whose changes are followed, or 0.
func (f *sessionFollower) followed(sc scope, k catalog.Kind) int {
	if !sc.wants(k) || !sc.info.Capabilities.Has(k) {
		return 0
	}
	return len(f.w.list(k))
}

// describeResources adds which resources are followed and how their changes are detected, and warns
// once if the server does not push them.
func (f *sessionFollower) describeResources(active *event.SubscriptionActive) {
	offered := f.offered()
	active.Resources, active.Mode, active.Missing = len(offered), f.coverage.mode, sortedKeys(f.coverage.missing)
	if len(offered) <= event.MaxActiveURIs {
		active.URIs = offered
	}
	if f.events.coverage.Resources {
		active.Mode = event.Push
	}
	if f.w.srv.Read == config.ReadNone && active.Mode == event.Poll {
		active.Mode = "" // polling requires reads, which are disabled
	}
	switch {
	case active.Mode == event.Poll && f.w.srv.Mode == config.ModePoll: // polling was requested in the config
	case active.Mode == event.Poll:
		f.w.warnOnce("poll", "the server does not push changes of resources; polling for them every "+f.w.srv.PollInterval.String(), nil)
	case active.Mode == "":
		f.w.warnOnce("unnoticed", `the server does not push changes of resources, and with "read": "none" they are not detected; set "read": "digest"`, nil)
	}
}

// planPolls schedules the next poll if the changes of any tracked item are not pushed.
func (f *sessionFollower) planPolls(now time.Time) {
	switch {
	case f.coverage.mode != event.Poll && len(f.coverage.missing) == 0 && len(f.scope().polledLists(f.coverage.lists)) == 0:
		f.nextPoll = time.Time{}
	case f.nextPoll.IsZero():
		f.nextPoll = now.Add(backoff.Spread(f.pollInterval()))
	}
}

// poll requests the lists and reads the resources whose changes are not pushed.
func (f *sessionFollower) poll(now time.Time) {
	f.nextPoll = now.Add(backoff.Spread(f.pollInterval()))
	f.syncs.pending.list(f.scope().polledLists(f.coverage.lists), event.CausePoll)
	if f.coverage.mode == event.Poll {
		f.w.co.CheckAll(coalesce.Poll)
		return
	}
	for uri := range f.coverage.missing {
		f.w.co.Check(uri, coalesce.Poll)
	}
}

func (f *sessionFollower) pollInterval() time.Duration {
	if f.events.coverage.Resources {
		return coveredPolls * f.w.srv.PollInterval
	}
	return f.w.srv.PollInterval
}

// contains reports whether a sorted list of URIs contains uri.
func contains(sorted []string, uri string) bool {
	_, ok := slices.BinarySearch(sorted, uri)
	return ok
}

func setOf(uris []string) map[string]struct{} {
	set := make(map[string]struct{}, len(uris))
	for _, u := range uris {
		set[u] = struct{}{}
	}
	return set
}

func has[K comparable, V any](m map[K]V, key K) bool {
	_, ok := m[key]
	return ok
}

// sameSet reports whether the set contains exactly the given distinct URIs.
func sameSet(uris []string, set map[string]struct{}) bool {
	return len(uris) == len(set) && !slices.ContainsFunc(uris, func(u string) bool { return !has(set, u) })
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
