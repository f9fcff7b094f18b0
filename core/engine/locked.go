package engine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/lock/guard"
	"github.com/mcptrack/mcptrack/core/status"
)

// Lock specifies what the followed servers are compared with.
type Lock struct {
	// Guard follows the lock file. The engine calls its Run, and receives its Changes.
	Guard *guard.Guard
	// Launch returns how a server is started or reached; nil means that this is not compared. It is
	// called when a server has connected, and may read files.
	Launch func(ctx context.Context, srv config.Server) json.RawMessage
}

const (
	// maxOpen limits the changes of one server that are published and remembered.
	maxOpen = 1000
	// maxItem limits the name of an item in an event, in bytes.
	maxItem = 2 << 10
)

// locked compares the servers of an engine with a lock file, and publishes what begins and ceases to
// differ. What it has published is stored with the log as a list of kind [journal.Drifts], after the
// events. So an event may be repeated only if the process was killed in between.
type locked struct {
	lock   Lock
	engine *Engine
	// dirty tells run that something to compare may have changed. Capacity 1, because one signal
	// covers any number of changes; never closed.
	dirty chan struct{}

	// Only run uses these:
	last map[string]compared     // by server
	own  map[string]catalog.List // what was published, by server, if the log does not store it

	mu   sync.Mutex                // guards the fields below
	cfg  *config.Config            // the servers to follow
	open map[string][]guard.Change // by server
}

// compared is what a server was last compared with, and as what.
type compared struct {
	version   any
	entry     config.Server
	connected time.Time
	offer     guard.Offer
}

func newLocked(e *Engine, l Lock) *locked {
	return &locked{lock: l, engine: e, dirty: make(chan struct{}, 1), last: map[string]compared{}, own: map[string]catalog.List{},
		cfg: &config.Config{}, open: map[string][]guard.Change{}}
}

// mark makes run compare the servers again. It never blocks.
func (l *locked) mark() {
	select {
	case l.dirty <- struct{}{}:
	default:
	}
}

// apply sets the servers to follow.
func (l *locked) apply(cfg *config.Config) {
	l.mu.Lock()
	l.cfg = cfg
	l.mu.Unlock()
	l.mark()
}

func (l *locked) changes() map[string][]guard.Change {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.open)
}

// run compares the servers whenever one of them, the config or the lock changes, until ctx ends.
func (l *locked) run(ctx context.Context) error {
	_, events := l.engine.tracker.Subscribe(ctx)
	var reading sync.WaitGroup
	defer reading.Wait()
	reading.Go(func() {
		for batch := events.Next(); batch != nil; batch = events.Next() {
			if slices.ContainsFunc(batch, concernsLock) {
				l.mark()
			}
		}
	})
	l.mark()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.lock.Guard.Changes():
		case <-l.dirty:
		}
		l.compareAll(ctx)
	}
}

// concernsLock reports whether what a server offers may have changed with an event.
func concernsLock(e *event.Event) bool {
	switch e.Payload.(type) {
	case event.ServerState, event.ListChanged, event.SubscriptionActive, event.Gap:
		return true
	}
	return false
}

func (l *locked) compareAll(ctx context.Context) {
	l.mu.Lock()
	cfg := l.cfg
	l.mu.Unlock()
	known := map[string]bool{}
	for _, st := range l.engine.tracker.Snapshot().Servers {
		if srv, ok := cfg.Server(st.ID); ok {
			known[st.ID] = true
			l.compare(ctx, srv, &st)
		}
	}
	gone := func(id string) bool { return !known[id] }
	maps.DeleteFunc(l.last, func(id string, _ compared) bool { return gone(id) })
	maps.DeleteFunc(l.own, func(id string, _ catalog.List) bool { return gone(id) })
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.open, func(id string, _ []guard.Change) bool { return gone(id) })
}

// compare compares a server with the lock, unless nothing has changed since that was last done.
func (l *locked) compare(ctx context.Context, srv config.Server, st *status.ServerStatus) {
	if r := l.engine.recorder; r != nil && r.to(st.ID) == nil { // another process compares it
		delete(l.last, st.ID)
		return
	}
	was, again := l.last[st.ID]
	if !st.Connected() && !again || ctx.Err() != nil {
		return
	}
	now := compared{version: l.lock.Guard.Version(), entry: srv, connected: st.Since, offer: guard.Offer{
		Variant: string(st.Info.Era), Capabilities: st.Info.RawCapabilities, Instructions: &st.Info.Instructions, Lists: map[catalog.Kind][]catalog.Item{},
	}}
	for k, list := range st.Lists {
		now.offer.Lists[k] = list
	}
	switch sameLaunch := again && was.connected.Equal(now.connected) && was.entry.Equal(now.entry); {
	case !st.Connected(): // the lock may have changed, and what the server last offered stays open until it is approved
		now.connected, now.offer = was.connected, was.offer
	case sameLaunch:
		now.offer.Launch = was.offer.Launch
	case l.lock.Launch != nil:
		now.offer.Launch = l.lock.Launch(ctx, srv)
	}
	if again && was.same(now) {
		return
	}
	l.last[st.ID] = now
	verdict := l.lock.Guard.Judge(st.ID, srv.Lock, now.offer)
	l.publish(st.ID, verdict.Changes())
	l.mu.Lock()
	defer l.mu.Unlock()
	if verdict == nil {
		delete(l.open, st.ID)
	} else {
		l.open[st.ID] = verdict.Changes()
	}
}

// same reports whether comparing gives the same result.
func (a compared) same(b compared) bool {
	return a.version == b.version && maps.Equal(a.entry.Lock, b.entry.Lock) && a.offer.Variant == b.offer.Variant &&
		bytes.Equal(a.offer.Launch, b.offer.Launch) && bytes.Equal(a.offer.Capabilities, b.offer.Capabilities) &&
		*a.offer.Instructions == *b.offer.Instructions && maps.EqualFunc(a.offer.Lists, b.offer.Lists, sameList)
}

// sameList compares lists by identity, because lists are replaced and never modified.
func sameList(a, b []catalog.Item) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// open is one change that was published. It is stored as a JSON array.
type open struct{ section, key, hash string }

func (o open) item() open { return open{section: o.section, key: o.key} }

func openOf(c guard.Change) open {
	o := open{string(c.Section), c.Key, c.Drift.New.Hash}
	if c.Drift.New.Problem != "" {
		o.hash = "problem: " + c.Drift.New.Problem
	}
	if c.Section == "" {
		o.hash = c.Reason
	}
	return o
}

// publish publishes the differences between the changes of a server and those that were published last.
func (l *locked) publish(server string, changes []guard.Change) {
	before := openIn(l.published(server))
	now, unknown := map[open]string{}, false
	var next []open
	var events []event.LockDrift
	for _, c := range changes {
		o := openOf(c)
		if _, again := now[o.item()]; again || len(now) == maxOpen {
			continue
		}
		now[o.item()] = o.hash
		next = append(next, o)
		unknown = unknown || c.Section == "" // the items cannot be compared
		if hash, published := before[o.item()]; !published || hash != o.hash {
			events = append(events, driftOf(changes, c))
		}
	}
	for _, it := range slices.SortedFunc(maps.Keys(before), compareOpen) {
		hash := before[it]
		switch _, still := now[it]; {
		case still:
		case unknown:
			next = append(next, open{it.section, it.key, hash})
		default:
			state := event.DriftResolved
			if it.section == "" {
				hash = ""
			}
			if l.lock.Guard.Approves(server, lock.Section(it.section), it.key, hash) {
				state = event.DriftApproved
			}
			events = append(events, event.LockDrift{Change: state, Section: it.section, Item: itemName(lock.Section(it.section), it.key)})
		}
	}
	if len(events) == 0 {
		return
	}
	for _, e := range events {
		l.engine.tracker.Publish(event.Event{ServerID: server, Payload: e})
	}
	l.remember(server, listOf(next))
}

func compareOpen(a, b open) int {
	return cmp.Or(cmp.Compare(a.section, b.section), cmp.Compare(a.key, b.key))
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
	severities := []lock.Severity{lock.Note, lock.Warning, lock.Error}
	worst := -1
	for _, class := range lock.Classes() {
		if slices.Contains(ids, class.ID) {
			e.Classes = append(e.Classes, event.DriftClass{ID: class.ID, Name: class.Name})
			worst = max(worst, slices.Index(severities, class.Severity))
		}
	}
	if worst >= 0 {
		e.Severity = string(severities[worst])
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

// published returns what was published about a server, as stored.
func (l *locked) published(server string) catalog.List {
	if l.engine.memory == nil {
		return l.own[server]
	}
	list, _ := l.engine.memory.baselineList(server, journal.Drifts)
	return list
}

func (l *locked) remember(server string, list catalog.List) {
	if l.engine.recorder == nil {
		l.own[server] = list
		return
	}
	_ = l.engine.recorder.RememberList(journal.ListName{ServerID: server, Kind: journal.Drifts}, list) // fails only once the log is closed
}

// listOf encodes what was published.
func listOf(all []open) catalog.List {
	var items []catalog.Item
	for _, o := range all {
		if key, err := json.Marshal([3]string{o.section, o.key, o.hash}); err == nil { // strings can always be encoded
			items = append(items, catalog.Item{Key: string(key)})
		}
	}
	return catalog.NewList(items)
}

// openIn decodes a list from listOf: the hash by item. It ignores malformed items.
func openIn(list catalog.List) map[open]string {
	all := map[open]string{}
	for _, it := range list {
		var o [3]string
		if json.Unmarshal([]byte(it.Key), &o) == nil {
			all[open{section: o[0], key: o[1]}] = o[2]
		}
	}
	return all
}
