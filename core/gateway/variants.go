package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/status"
)

// Some servers list more for clients that can be asked something. For each set of such
// capabilities, a probe finds the difference: a session with these capabilities that lists
// the server and is closed again. The first probe runs when such a client connects, further
// probes after every change of the server's lists.

const (
	maxVariants    = 64                     // sets of capabilities; keyOf makes fewer, so no client reaches the limit
	maxProbes      = 4                      // probes in progress
	probeWait      = 10 * time.Second       // how long a client's request waits for probes
	probePause     = 500 * time.Millisecond // at least, between the beginnings of two probes after changes
	probeBurst     = 20                     // consecutive probes with that pause
	probeEvery     = 5 * time.Second        // between further probes
	probeRetry     = time.Second            // the first pause after a failure
	probeMaxRetry  = 10 * time.Minute       // the longest pause after a failure
	maxIdleVariant = time.Hour              // how long a set of capabilities is remembered after its last client
)

// variants finds the lists of servers that differ for clients with certain capabilities.
type variants struct {
	*base
	// slots is a semaphore of capacity maxProbes: probes send to acquire and receive to
	// release; never closed.
	slots chan struct{}

	mu    sync.Mutex
	byKey map[string]*variant // see keyOf
}

// variant holds what is known for a set of capabilities.
type variant struct {
	capabilities json.RawMessage
	used         time.Time         // when a client with them last made a request
	probes       map[string]*probe // by server id
}

// keyOf names the client capabilities on which a server's lists may depend; "" if the
// client has none of them.
func keyOf(capabilities json.RawMessage) string {
	all := fields(declaredLegacy(capabilities))
	names := slices.Collect(maps.Keys(all))
	for _, mode := range []struct{ capability, name string }{{"elicitation", "form"}, {"elicitation", "url"}, {"sampling", "tools"}} {
		if isObject(fields(all[mode.capability])[mode.name]) {
			names = append(names, mode.capability+"."+mode.name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// await waits until the lists for clients with the capabilities, whose key is given, are
// known, at most for probeWait. Until then such clients see the common lists.
func (s *variants) await(ctx context.Context, key string, capabilities json.RawMessage) {
	if len(s.servers()) == 0 {
		return
	}
	snap := s.tracker.Snapshot()
	s.mu.Lock()
	of := s.byKey[key]
	if of == nil {
		if len(s.byKey) >= maxVariants {
			s.mu.Unlock()
			return
		}
		of = &variant{capabilities: declaredLegacy(capabilities), probes: map[string]*probe{}}
		s.byKey[key] = of
	}
	of.used = time.Now()
	s.begin(of, snap)
	var waiting []<-chan struct{}
	for _, p := range of.probes {
		if p.running && !isClosed(p.tried) {
			waiting = append(waiting, p.tried)
		}
	}
	s.mu.Unlock()
	if len(waiting) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	for _, tried := range waiting {
		select {
		case <-tried:
		case <-ctx.Done():
			return // the client is notified if the lists change later
		}
	}
	_ = s.flush(ctx) // on an error the items are listed a moment later
}

// begin starts the probes of a variant that are missing or outdated. s.mu must be held.
func (s *variants) begin(of *variant, snap *status.Snapshot) {
	for _, srv := range s.servers() {
		st, _ := snap.Server(srv.ID)
		p := of.probes[srv.ID]
		if !st.Connected() || p != nil && !p.due(srv, st.Lists) {
			continue
		}
		if p == nil {
			p = newProbe(srv.ID)
			of.probes[srv.ID] = p
		}
		now := time.Now()
		if now.Before(p.next) && p.srv.Equal(srv) {
			if at := p.next; !p.woken.Equal(at) && s.run(func(ending context.Context) {
				if backoff.Sleep(ending, at.Sub(now)) {
					s.kick()
				}
			}) {
				p.woken = at
			}
			continue
		}
		p.start(now)
		capabilities := of.capabilities
		if !s.run(func(ending context.Context) { s.attempt(ending, p, capabilities) }) {
			p.running = false // the gateway is ending
		}
	}
}

// lists returns the lists that differ from the common lists, by variant and server. It
// forgets variants that no client uses any more (see seen), and starts new probes of servers
// whose common lists have changed.
func (s *variants) lists(snap *status.Snapshot, seen func(key string) bool) map[string]map[string]map[catalog.Kind]catalog.List {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]map[string]map[catalog.Kind]catalog.List{}
	for key, of := range s.byKey {
		if time.Since(of.used) > maxIdleVariant && !seen(key) {
			delete(s.byKey, key)
			continue
		}
		s.begin(of, snap)
		for server, p := range of.probes {
			st, known := snap.Server(server)
			if !known {
				delete(of.probes, server)
				continue
			}
			lists := p.overlay(st.Lists)
			if len(lists) == 0 {
				continue
			}
			if out[key] == nil {
				out[key] = map[string]map[catalog.Kind]catalog.List{}
			}
			out[key][server] = lists
		}
	}
	return out
}

// mergeVariants builds one view for each variant in which a server has different lists, and
// adds the results of their checks to lists.
func (l *loop) mergeVariants(snap *status.Snapshot, parts []contribution, lists map[string]map[catalog.Kind]checkedList) map[string]*view {
	views := map[string]*view{}
	for key, servers := range l.variants.lists(snap, l.server.Subscriptions().Seen) {
		others := slices.Clone(parts)
		for i, c := range others {
			differ := servers[c.id]
			if differ == nil || l.httpCatalog(c.id) != nil {
				continue
			}
			others[i].lists = maps.Clone(c.lists)
			id := c.id + "\x00" + key // see checkAs
			lists[id] = map[catalog.Kind]checkedList{}
			for k, list := range differ {
				checked := l.checkAs(id, c.id, k, list)
				lists[id][k] = checked
				others[i].lists[k] = checked.items
			}
		}
		views[key] = newView(l.local, others, l.filter, func(Refusal) {})
	}
	return views
}

// probe is what is known of the lists of a server for clients with certain capabilities: how
// they differ from the lists in the shared session. The difference is laid over the current
// lists, so that a change is served to all clients in the same step, and is determined again
// after each change. variants.mu guards all.
type probe struct {
	id      string
	tried   chan struct{} // closed when the first attempt has ended
	running bool          // an attempt is in progress

	srv      config.Server                           // as it was configured at the last attempt
	base     map[catalog.Kind]catalog.List           // what the shared session listed before the last attempt
	listed   map[catalog.Kind]catalog.List           // what the last attempts listed: keys and digests
	differ   map[catalog.Kind]map[string]variantItem // by key
	overlaid map[catalog.Kind]overlaidList           // the last results of overlay

	began  time.Time     // the last attempt
	pace   *rate.Limiter // of attempts
	next   time.Time     // the next attempt with the same config begins no sooner
	woken  time.Time     // a wake-up is scheduled for then
	failed bool          // the last attempt failed
	retry  *backoff.Backoff
}

// variantItem is an item that differs for clients with certain capabilities.
type variantItem struct {
	item   catalog.Item // as they get it; without a key: they do not get it
	common bool         // other clients also get the item
}

func (d variantItem) equal(o variantItem) bool {
	return d.common == o.common && equalItems(d.item, o.item)
}

// overlaidList is a list with a difference laid over it.
type overlaidList struct {
	base, list catalog.List
	differ     map[string]variantItem
}

func newProbe(id string) *probe {
	return &probe{id: id, tried: make(chan struct{}), pace: rate.NewLimiter(rate.Every(probeEvery), probeBurst), retry: backoff.New(probeRetry, probeMaxRetry),
		listed: map[catalog.Kind]catalog.List{}, differ: map[catalog.Kind]map[string]variantItem{}, overlaid: map[catalog.Kind]overlaidList{}}
}

// due reports whether the server has to be listed again: it was never listed, the last attempt
// failed, or the config or the server's lists have changed since.
func (p *probe) due(srv config.Server, base map[catalog.Kind]catalog.List) bool {
	if p.running {
		return false
	}
	return p.began.IsZero() || p.failed || !p.srv.Equal(srv) || !maps.EqualFunc(p.base, base, sameList)
}

// start begins an attempt. A change is probed immediately or after probePause, unless many
// changes preceded it: attempts may cause changes.
func (p *probe) start(now time.Time) {
	p.pace.AllowN(now, 1)
	wait := probePause
	if missing := 1 - p.pace.TokensAt(now); missing > 0 {
		wait = max(wait, time.Duration(missing*float64(probeEvery)))
	}
	p.began, p.next, p.running = now, now.Add(wait), true
}

// take records what an attempt listed, while the shared session listed base before and now
// after it. An item is no difference if it equals the item in either of these lists, or if it
// did not change since the last attempt while the shared session's item did: a server's lists
// can also depend on the session.
func (p *probe) take(found, base, now map[catalog.Kind]catalog.List) {
	for k, list := range found {
		was, again := p.listed[k]
		keys := map[string]bool{}
		for _, all := range []catalog.List{list, base[k], now[k]} {
			for _, it := range all {
				keys[it.Key] = true
			}
		}
		differ := map[string]variantItem{}
		for key := range keys {
			it, _ := list.Get(key)
			common, _ := now[k].Get(key)
			before, _ := base[k].Get(key)
			if equalItems(it, common) || equalItems(it, before) {
				continue
			}
			if again {
				last, _ := was.Get(key)
				if _, differed := p.differ[k][key]; !differed && equalItems(it, last) {
					continue
				}
			}
			differ[key] = variantItem{it, common.Key != ""}
		}
		bare := make(catalog.List, len(list))
		for i, it := range list {
			bare[i] = catalog.Item{Key: it.Key, Digest: it.Digest}
		}
		p.listed[k], p.differ[k] = bare, differ
	}
}

// overlay returns the lists that differ from the common lists.
func (p *probe) overlay(base map[catalog.Kind]catalog.List) map[catalog.Kind]catalog.List {
	out := map[catalog.Kind]catalog.List{}
	for k, differ := range p.differ {
		if len(differ) == 0 {
			continue
		}
		if was := p.overlaid[k]; was.list == nil || !sameList(was.base, base[k]) || !maps.EqualFunc(was.differ, differ, variantItem.equal) {
			p.overlaid[k] = overlaidList{base[k], overlay(base[k], differ), differ}
		}
		out[k] = p.overlaid[k].list
	}
	return out
}

// overlay lays a difference over a list.
func overlay(base catalog.List, differ map[string]variantItem) catalog.List {
	list := make(catalog.List, 0, len(base)+len(differ))
	for _, it := range base {
		if _, differs := differ[it.Key]; !differs {
			list = append(list, it)
		}
	}
	for key, d := range differ {
		if _, there := base.Get(key); d.item.Key != "" && (there || !d.common) {
			list = append(list, d.item)
		}
	}
	return catalog.NewList(list)
}

// attempt lists a server, unless it is no longer wanted, and records what it finds.
func (s *variants) attempt(ctx context.Context, p *probe, capabilities json.RawMessage) {
	defer s.kick() // merges what was found, and begins another attempt if it is due
	srv, wanted := s.entry(p.id)
	base := s.sharedLists(p.id)
	s.mu.Lock()
	if !p.srv.Equal(srv) {
		clear(p.listed) // it may be another server
	}
	p.srv, p.base = srv, base
	s.mu.Unlock()
	var found map[catalog.Kind]catalog.List
	var err error
	if wanted {
		found, err = s.listAs(ctx, srv, base, capabilities)
	}
	now := s.relist(ctx, p, found, base)
	s.mu.Lock()
	defer s.mu.Unlock()
	p.take(found, base, now)
	p.running, p.failed = false, err != nil
	if !isClosed(p.tried) {
		close(p.tried)
	}
	if err == nil {
		p.retry.Reset()
		return
	}
	wait := p.retry.Next()
	p.next = time.Now().Add(wait)
	if ctx.Err() == nil {
		s.opts.Logger.Warn("cannot list a server for clients with more capabilities; they get the common lists",
			"server", p.id, "next", wait.Round(time.Second), "err", err)
	}
}

// relist returns what a server lists in the shared session after an attempt. If the attempt
// found something new, that session lists the server again: it may not have listed it since a
// change.
func (s *variants) relist(ctx context.Context, p *probe, found, base map[catalog.Kind]catalog.List) map[catalog.Kind]catalog.List {
	now := map[catalog.Kind]catalog.List{}
	maps.Copy(now, s.sharedLists(p.id))
	s.mu.Lock()
	differ := maps.Clone(p.differ)
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	for k, list := range found {
		if sameList(list, overlay(base[k], differ[k])) {
			continue
		}
		if current, err := s.tracker.Client(p.id).CurrentList(ctx, k); err == nil {
			now[k] = current
		}
	}
	return now
}

// sharedLists returns what a server lists in the shared session.
func (s *variants) sharedLists(id string) map[catalog.Kind]catalog.List {
	st, _ := s.tracker.Snapshot().Server(id)
	return st.Lists
}

// listAs lists a server in a session with the capabilities: the kinds of lists that the shared
// session has. On an error some may be missing.
func (s *variants) listAs(ctx context.Context, srv config.Server, base map[catalog.Kind]catalog.List, capabilities json.RawMessage) (found map[catalog.Kind]catalog.List, err error) {
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-s.slots }()
	refuse := func(context.Context, string, json.RawMessage) (json.RawMessage, error) { return nil, notFound() }
	o := s.opts.Session
	st, _ := s.tracker.Snapshot().Server(srv.ID)
	o.Era = st.Info.Era // the lists are compared with the shared session's
	o.Logger, o.OneShot = s.opts.Logger.With("server", printable.Line(srv.ID, 128)), true
	o.Client = &session.ClientSide{Capabilities: capabilities, Request: refuse}
	srv.Protocol = config.Protocol(o.Era)
	ctx, cancel := context.WithTimeout(ctx, max(dialTimeout, srv.ConnectTimeout))
	defer cancel()
	c, err := s.opts.Dial(ctx, srv, o)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	found = map[catalog.Kind]catalog.List{}
	for k := range base {
		if list, failed := c.List(ctx, k); failed != nil {
			err = failed
		} else {
			found[k] = list
		}
	}
	return found, err
}

// sameList reports whether a and b have the same items.
func sameList(a, b catalog.List) bool {
	if len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) {
		return true // lists are immutable
	}
	return slices.EqualFunc(a, b, equalItems)
}

func equalItems(a, b catalog.Item) bool {
	return a.Key == b.Key && (a.Digest == b.Digest || bytes.Equal(a.Raw, b.Raw))
}
