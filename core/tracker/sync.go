package tracker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
)

// demand is what the next walk has to do. Demands that come while a walk is
// under way merge into one more walk.
type demand struct {
	lists     map[catalog.Kind]event.Cause
	all       bool // every list that is wanted
	subscribe bool // also if the set of resources stays the same
	compare   bool // read everything afterwards
}

func everything(cause event.Cause) demand {
	d := demand{all: true, subscribe: true, compare: true}
	d.add(nil, cause)
	return d
}

func (d *demand) empty() bool { return len(d.lists) == 0 && !d.all && !d.subscribe && !d.compare }

// add demands lists; an announced change is not relabelled by a routine look.
func (d *demand) add(kinds []catalog.Kind, cause event.Cause) {
	if d.lists == nil {
		d.lists = map[catalog.Kind]event.Cause{}
	}
	for _, k := range kinds {
		if d.lists[k] != event.CauseNotify {
			d.lists[k] = cause
		}
	}
}

func (d *demand) merge(o demand) {
	for k, cause := range o.lists {
		d.add([]catalog.Kind{k}, cause)
	}
	d.all = d.all || o.all
	d.subscribe = d.subscribe || o.subscribe
	d.compare = d.compare || o.compare
}

// syncJob is one walk: what to list, and what is followed so far.
type syncJob struct {
	demand
	old    map[catalog.Kind]catalog.List
	filter session.Filter // what is subscribed before listing, when demanded
	target func(catalog.List) []string
	asks   []*ask // that are answered by it
}

// syncAnswer is what a walk brought home.
type syncAnswer struct {
	job       syncJob
	lists     map[catalog.Kind]catalog.List
	listErrs  map[catalog.Kind]error
	asked     session.Filter // the last subscription that was made, or would be if there were any; zero without one
	ack       session.Ack
	made      bool
	subscribe error
	// interrupted: for a moment nothing was subscribed.
	interrupted bool
	deaf        bool // the server gave no answer to anything
}

// walk begins the demanded walk in a job of its own.
func (f *follower) walk(now time.Time) {
	job := syncJob{demand: f.todo, old: map[catalog.Kind]catalog.List{}}
	f.todo = demand{}
	for _, k := range f.kinds() {
		if job.all {
			job.add([]catalog.Kind{k}, event.CauseResync)
		}
		job.old[k] = f.w.lists[k]
	}
	for k := range job.lists {
		if _, wanted := job.old[k]; !wanted {
			delete(job.lists, k)
		}
	}
	srv := f.w.srv
	wanted := maps.Clone(f.wanted)
	job.target = func(resources catalog.List) []string { return withWanted(followedURIs(&srv, resources), wanted) }
	job.asks, f.asks = f.asks, nil
	job.filter = f.filter(job.target(f.w.lists[catalog.Resources]))
	f.syncing = true
	f.nextWalk = now.Add(minWalk)
	subscribed := f.followed
	first := !f.ready
	ctx, cancel := context.WithCancel(f.ctx)
	f.stopWalk = cancel
	f.jobs.Go(func() {
		defer cancel()
		a := f.sync(ctx, job, subscribed)
		if first && len(a.lists) == 0 && (len(a.listErrs) > 0 || a.subscribe != nil) {
			a.deaf = f.isDeaf(ctx)
		}
		f.syncs <- a
	})
}

// isDeaf reports whether a server of which nothing could be learned gives no sign
// of life either: one that refuses, or answers what makes no sense, is kept.
func (f *follower) isDeaf(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	return f.s.Ping(ctx) != nil
}

// filter is what the server should push, as far as it says that it can.
func (f *follower) filter(uris []string) session.Filter {
	caps := f.s.Info().Capabilities
	want := session.Filter{
		Tools:     f.w.wants(catalog.Tools) && !f.ignores(catalog.Tools) && caps.ToolsListChanged,
		Prompts:   f.w.wants(catalog.Prompts) && !f.ignores(catalog.Prompts) && caps.PromptsListChanged,
		Resources: f.w.wants(catalog.Resources) && !f.ignores(catalog.Resources) && caps.ResourcesListChanged,
	}
	if caps.ResourcesSubscribe {
		want.URIs = uris
	}
	return want
}

// sync subscribes to what is known, lists, and subscribes to what the list
// changed: in this order, so that no change falls between. It runs in a job.
func (f *follower) sync(ctx context.Context, job syncJob, subscribed map[string]struct{}) syncAnswer {
	a := syncAnswer{job: job, lists: map[catalog.Kind]catalog.List{}, listErrs: map[catalog.Kind]error{}}
	subscribe := func(filter session.Filter) {
		a.asked, a.made = filter, true
		a.ack, a.subscribe = f.s.Subscribe(ctx, filter)
	}
	if job.subscribe && mutant != mutantReadFirst {
		if subscribe(job.filter); a.subscribe != nil && !isUnsupported(a.subscribe) {
			return a
		}
		subscribed = setOf(job.filter.URIs)
		if a.ack.Interrupted {
			a.interrupted = true
			for k := range job.old {
				job.add([]catalog.Kind{k}, event.CauseResync)
			}
			a.job = job
		}
	}
	f.listAll(ctx, job.lists, job.old, &a)
	for again := 0; ; again++ {
		resources, ok := a.lists[catalog.Resources]
		if !ok {
			return a
		}
		filter := job.filter
		if f.s.Info().Capabilities.ResourcesSubscribe {
			filter.URIs = job.target(resources)
		}
		if isUnsupported(a.subscribe) {
			a.asked.URIs = filter.URIs // there is no asking for them: they are polled
		}
		if a.subscribe != nil || sameSet(filter.URIs, subscribed) && (!job.subscribe || a.made) {
			return a
		}
		subscribe(filter)
		subscribed = setOf(filter.URIs)
		if a.subscribe != nil || !a.ack.Interrupted {
			return a
		}
		// There was a moment without a subscription: look at everything again.
		a.interrupted = true
		if again == maxInterruptions {
			return a
		}
		every := map[catalog.Kind]event.Cause{}
		for k := range job.old {
			every[k] = event.CauseResync
		}
		f.listAll(ctx, every, job.old, &a)
	}
}

// maxInterruptions is how often one walk follows a set of resources that changes
// whenever it is looked at; the next walk goes on.
const maxInterruptions = 3

// listAll walks lists side by side.
func (f *follower) listAll(ctx context.Context, lists map[catalog.Kind]event.Cause, old map[catalog.Kind]catalog.List, a *syncAnswer) {
	var (
		mu    sync.Mutex // guards the maps of a
		walks sync.WaitGroup
	)
	for k := range lists {
		walks.Go(func() {
			list, err := f.list(ctx, k, len(old[k]) > 0)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				a.listErrs[k] = err
			} else {
				a.lists[k] = list
				delete(a.listErrs, k)
			}
		})
	}
	walks.Wait()
}

// confirmEmpty is how long a list that turned empty is given to fill again: some
// servers replace a list by clearing it first.
const confirmEmpty = 250 * time.Millisecond

func (f *follower) list(ctx context.Context, k catalog.Kind, had bool) (catalog.List, error) {
	list, err := f.s.List(ctx, k)
	if isUnsupported(err) {
		return nil, nil // declared with the others, but there is no such list
	}
	if err != nil || len(list) > 0 || !had {
		return list, err
	}
	wait, cancel := context.WithTimeout(ctx, confirmEmpty)
	defer cancel()
	<-wait.Done()
	return f.s.List(ctx, k)
}

// isUnsupported reports whether the server lacks what was asked.
func isUnsupported(err error) bool { return errors.Is(err, session.ErrUnsupported) }

func setOf(uris []string) map[string]struct{} {
	set := make(map[string]struct{}, len(uris))
	for _, u := range uris {
		set[u] = struct{}{}
	}
	return set
}

func sameSet(uris []string, set map[string]struct{}) bool {
	return len(uris) == len(set) && !slices.ContainsFunc(uris, func(u string) bool { _, ok := set[u]; return !ok })
}
