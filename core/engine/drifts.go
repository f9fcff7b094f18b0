package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sort"
	"sync"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/internal/wake"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/lock/guard"
)

const (
	// maxOpen limits the changes of one server that are published for one lock.
	maxOpen = 1000
	// maxRemembered limits the published changes of one server that are stored for all locks.
	maxRemembered = 4 * maxOpen
	// maxItem limits the name of an item in an event, in bytes.
	maxItem = 2 << 10
)

// drifts publishes which items of servers differ from a lock, and which no longer do, according to verdicts.
// What it has published is stored with the log as a list of kind [journal.Drifts], after the events. So
// an event may be repeated only if the process was killed in between.
type drifts struct {
	engine *Engine
	wake   wake.Channel // received by run: there is something in pending

	mu      sync.Mutex // guards the fields below and the fields of all Verdicts
	all     []*Verdicts
	changes uint64 // counts changed verdicts
	pending map[subject]struct{}
	open    map[subject][]guard.Change // what differs; absent if there is no lock
}

// subject is what events are published about: a server as compared with a lock.
type subject struct{ server, lock string }

// Verdicts are the latest verdicts of somebody who compares servers of an engine with a lock: the
// engine, or a gateway. The engine publishes each change of what differs once for each lock, even
// if several compare a server with it. Its methods are safe for concurrent use.
type Verdicts struct {
	drifts *drifts
	lock   string
	of     map[string]latest // by server
}

// latest contains the latest verdict about a server.
type latest struct {
	verdict *guard.Verdict
	changed uint64 // value of drifts.changes when it last changed; 0 if it never did
}

// Verdicts returns new Verdicts. The caller closes them when it compares no longer. lock is empty, or
// names the lock in the events if the servers of the engine are compared with several locks.
func (e *Engine) Verdicts(lock string) *Verdicts {
	v := &Verdicts{drifts: e.drifts, lock: lock, of: map[string]latest{}}
	e.drifts.mu.Lock()
	defer e.drifts.mu.Unlock()
	e.drifts.all = append(e.drifts.all, v)
	return v
}

// Set replaces the verdicts of all servers. A nil verdict means that there is no lock. Servers of which
// nothing is known are absent. Set never blocks. The engine does not modify the map.
func (v *Verdicts) Set(verdicts map[string]*guard.Verdict) {
	d := v.drifts
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(v.of, func(server string, _ latest) bool {
		_, known := verdicts[server]
		if !known {
			d.markLocked(subject{server, v.lock})
		}
		return !known
	})
	for server, now := range verdicts {
		was, known := v.of[server]
		if known && was.verdict == now {
			continue
		}
		next := latest{verdict: now}
		if known {
			d.changes++
			next.changed = d.changes
		}
		v.of[server] = next
		d.markLocked(subject{server, v.lock})
	}
}

// latest returns the verdict about a server, or false if nothing is known of it.
func (v *Verdicts) latest(server string) (*guard.Verdict, bool) {
	v.drifts.mu.Lock()
	defer v.drifts.mu.Unlock()
	l, known := v.of[server]
	return l.verdict, known
}

// Close discards the verdicts. What was published stays published.
func (v *Verdicts) Close() {
	v.Set(nil)
	v.drifts.mu.Lock()
	defer v.drifts.mu.Unlock()
	v.drifts.all = slices.DeleteFunc(v.drifts.all, func(o *Verdicts) bool { return o == v })
}

func newDrifts(e *Engine) *drifts {
	return &drifts{engine: e, wake: wake.New(), pending: map[subject]struct{}{}, open: map[subject][]guard.Change{}}
}

func (d *drifts) markLocked(s subject) {
	d.pending[s] = struct{}{}
	d.wake.Send()
}

// mark makes run compare a server with what was published about it. It never blocks.
func (d *drifts) mark(server string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, v := range d.all {
		d.markLocked(subject{server, v.lock})
	}
}

func (d *drifts) changesNow() map[string][]guard.Change {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[string][]guard.Change{}
	for s, changes := range d.open {
		out[s.server] = append(slices.Clip(out[s.server]), changes...)
	}
	return out
}

// run publishes until ctx ends, and then what is pending.
func (d *drifts) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			d.publishPending()
			return context.Cause(ctx)
		case <-d.wake:
		}
		d.publishPending()
	}
}

func (d *drifts) publishPending() {
	d.mu.Lock()
	pending := slices.Collect(maps.Keys(d.pending))
	sort.Slice(pending, func(i, j int) bool {
		return cmp.Or(cmp.Compare(pending[i].server, pending[j].server), cmp.Compare(pending[i].lock, pending[j].lock)) < 0
	})
	clear(d.pending)
	d.mu.Unlock()
	for _, s := range pending {
		d.publish(s)
	}
}

// verdicts returns the verdicts about a subject: of those who compare it, first the one whose verdicts
// changed last. It is empty if nobody knows anything.
func (d *drifts) verdicts(s subject) (of []*guard.Verdict) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []latest
	for _, v := range d.all {
		if j, known := v.of[s.server]; known && v.lock == s.lock {
			all = append(all, j)
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].changed > all[j].changed })
	for _, j := range all {
		of = append(of, j.verdict)
	}
	return of
}

// item identifies what differs.
type item struct{ lock, section, key string }

// publish publishes how what differs now is different from what was published last.
func (d *drifts) publish(s subject) {
	if _, to := d.engine.duty(s.server); to == nil {
		return // another process publishes it; sharing marks the server when that changes
	}
	verdicts := d.verdicts(s)
	// What is stored of each published change: the hash of the new definition, or what else tells two
	// changes of an item apart.
	now, next := map[item]string{}, map[item]string{}
	var open []guard.Change
	var events []event.LockDrift
	stored, _ := d.engine.tracker.Stored(s.server, journal.Drifts)
	before := differencesIn(stored)
	none := true                       // there is no lock
	found := map[item]*guard.Verdict{} // the first verdict that has a change of an item
	for _, v := range verdicts {
		none = none && v == nil
		for _, c := range v.Changes() {
			it := item{s.lock, string(c.Section), c.Key}
			if by, again := found[it]; !again {
				found[it] = v
			} else if by != v {
				continue
			}
			open = append(open, c)
			if _, again := now[it]; again || len(now) == maxOpen {
				continue
			}
			is := identity(c)
			now[it], next[it] = is, is
			if was, published := before[it]; !published || was != is {
				events = append(events, driftOf(v.Changes(), c))
			}
		}
	}
	d.setOpen(s, open, none)
	if len(verdicts) == 0 {
		return
	}
	known := slices.Collect(maps.Keys(before))
	sort.Slice(known, func(i, j int) bool {
		a, b := known[i], known[j]
		return cmp.Or(cmp.Compare(a.lock, b.lock), cmp.Compare(a.section, b.section), cmp.Compare(a.key, b.key)) < 0
	})
	for _, it := range known {
		_, still := now[it]
		switch {
		case still:
		case it.lock == s.lock && isOver(verdicts, it, before[it]):
			events = append(events, overOf(verdicts[0], it, before[it]))
		case len(next) < maxRemembered:
			next[it] = before[it]
		}
	}
	for _, e := range events {
		e.Lock = s.lock
		d.engine.tracker.Publish(event.Event{ServerID: s.server, Payload: e})
	}
	if list := listOf(next); !slices.EqualFunc(list, stored, func(a, b catalog.Item) bool { return a.Key == b.Key }) {
		d.engine.tracker.Remember(s.server, journal.Drifts, list)
	}
}

func (d *drifts) setOpen(s subject, changes []guard.Change, none bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if none {
		delete(d.open, s)
	} else {
		d.open[s] = changes
	}
}

// isOver reports whether a published change, which nobody finds any longer, is over: it was approved, or
// somebody has looked for it.
func isOver(verdicts []*guard.Verdict, it item, hash string) bool {
	section := lock.Section(it.section)
	return slices.ContainsFunc(verdicts, func(v *guard.Verdict) bool {
		return v == nil || section == "" || v.Approves(section, it.key, hash) || v.Compared(section)
	})
}

// overOf returns the event for a published change that is over.
func overOf(v *guard.Verdict, it item, hash string) event.LockDrift {
	section := lock.Section(it.section)
	e := event.LockDrift{Change: event.DriftResolved, Section: it.section, Item: itemName(section, it.key)}
	if it.section == "" {
		hash = ""
	}
	if v.Approves(section, it.key, hash) {
		e.Change = event.DriftApproved
	}
	e.OldHash = v.ApprovedHash(section, it.key)
	return e
}

// identity returns what tells two changes of an item apart.
func identity(c guard.Change) string {
	switch {
	case c.Section == "":
		return c.Reason
	case c.Drift.New.Problem != "":
		return "problem: " + c.Drift.New.Problem
	}
	return c.Drift.New.Hash
}

// driftOf returns the event for a change. An item may have several changes; the event has the classes of
// all of them.
func driftOf(changes []guard.Change, c guard.Change) event.LockDrift {
	e := event.LockDrift{Change: event.DriftChanged, Section: string(c.Section), Item: itemName(c.Section, c.Key), Action: string(c.Action),
		OldHash: c.Drift.Old.Hash, NewHash: c.Drift.New.Hash}
	if c.Section == "" {
		e.Reason = c.Reason
		return e
	}
	var ids []string
	for _, other := range changes {
		if other.Section == c.Section && other.Key == c.Key {
			ids = append(ids, other.Drift.Classes...)
		}
	}
	for _, class := range lock.Classes() {
		if slices.Contains(ids, class.ID) {
			e.Classes = append(e.Classes, event.DriftClass{ID: class.ID, Name: class.Name})
			if e.Severity == "" || class.Severity.Rank() < lock.Severity(e.Severity).Rank() {
				e.Severity = string(class.Severity)
			}
		}
	}
	return e
}

func itemName(section lock.Section, key string) string {
	if section == "" {
		return ""
	}
	name := lock.Name(section, key)
	return name[:min(len(name), maxItem)]
}

// listOf encodes what was published, each change as a JSON array of texts.
func listOf(all map[item]string) catalog.List {
	var items []catalog.Item
	for it, hash := range all {
		texts := []string{it.section, it.key, hash}
		if it.lock != "" {
			texts = append(texts, it.lock)
		}
		if key, err := json.Marshal(texts); err == nil { // strings can always be encoded
			items = append(items, catalog.Item{Key: string(key)})
		}
	}
	return catalog.NewList(items)
}

// differencesIn decodes a list from listOf. It ignores malformed items.
func differencesIn(list catalog.List) map[item]string {
	all := map[item]string{}
	for _, it := range list {
		var texts [4]string
		if json.Unmarshal([]byte(it.Key), &texts) == nil {
			all[item{lock: texts[3], section: texts[0], key: texts[1]}] = texts[2]
		}
	}
	return all
}
