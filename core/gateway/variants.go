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
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/status"
)

// Some servers list more items for clients that can be asked for input. For each set of such
// capabilities, a probe determines the difference: it opens a session with these capabilities,
// lists the server's items and closes the session. The first probe runs when such a client
// connects; further probes run after every change to the server's lists.

const (
	maxVariants    = 64                     // maximum number of capability sets; keyOf returns fewer different keys, so clients cannot reach the limit
	maxProbes      = 4                      // maximum number of probes in progress
	probeWait      = 10 * time.Second       // how long a client's request waits for probes
	probePause     = 500 * time.Millisecond // minimum interval between the starts of two probes after changes
	probeBurst     = 20                     // maximum number of consecutive probes at that interval
	probeEvery     = 5 * time.Second        // interval between further probes
	probeRetry     = time.Second            // delay after the first failure
	probeMaxRetry  = 10 * time.Minute       // maximum delay after failures
	maxIdleVariant = time.Hour              // how long a capability set is kept after its last client has left
)

// variants determines how the lists of servers differ for clients with certain capabilities.
type variants struct {
	*base
	// slots is a semaphore of capacity maxProbes: a probe sends to acquire a slot and receives to
	// release it; never closed.
	slots chan struct{}

	mu    sync.Mutex
	byKey map[string]*variant // keyed by the result of keyOf
}

// variant holds the probes for one set of capabilities.
type variant struct {
	capabilities json.RawMessage
	used         time.Time         // when a client with these capabilities last sent a request
	probes       map[string]*probe // keyed by server id
}

// keyOf returns a key for the client capabilities on which a server's lists may depend, or "" if
// the client has none of them.
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

// await waits, for at most probeWait, until the lists for clients with these capabilities are
// known; key is the result of keyOf for them. Until then, such clients receive the common lists.
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
			return // the client will be notified if the lists change later
		}
	}
	_ = s.flush(ctx) // after an error, the items are listed slightly later
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
			p.running = false // the gateway is stopping
		}
	}
}

// lists returns the lists that differ from the common lists, by variant and server. It removes
// variants that clients no longer use (see seen), and starts new probes of servers whose common
// lists have changed.
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

// mergeVariants builds one view for each variant in which a server has different lists, and adds
// the validation results to lists. It adds what is not approved to refused.
func (l *loop) mergeVariants(snap *status.Snapshot, parts []contribution, lists map[string]map[catalog.Kind]checkedList, refused map[Refusal]struct{}) map[string]*view {
	views := map[string]*view{}
	variants := l.variants.lists(snap, l.server.Subscriptions().Seen)
	for _, key := range slices.Sorted(maps.Keys(variants)) { // in an order that stays, for Options.Judged
		servers, others := variants[key], slices.Clone(parts)
		for i, c := range others {
			differ := servers[c.id]
			if differ == nil || l.httpCatalog(c.id) != nil {
				continue
			}
			others[i].lists = maps.Clone(c.lists)
			id := c.id + "\x00" + key // id under which checkAs and compare cache the result
			lists[id] = map[catalog.Kind]checkedList{}
			offered := map[catalog.Kind][]catalog.Item{}
			maps.Copy(offered, c.listed)
			for k, list := range differ {
				offered[k] = list
			}
			st, _ := snap.Server(c.id)
			others[i].compared = l.compare(id, c.entry, key, st, offered)
			unapproved(c.id, others[i].verdict, refused)
			if judged, known := l.locks.judged[c.id]; known {
				l.locks.judged[c.id] = append(judged, others[i].verdict)
			}
			for k, list := range others[i].approved {
				if _, differs := differ[k]; !differs && sameItems(list, c.approved[k]) {
					continue
				}
				checked := l.checkAs(id, c.id, k, list)
				lists[id][k] = checked
				others[i].lists[k] = checked.items
			}
		}
		views[key] = l.newView(others, func(Refusal) {})
	}
	return views
}

// probe determines and stores how the lists of a server for clients with certain capabilities
// differ from the lists in the shared session. The difference is applied to the current lists, so
// that a change becomes visible to all clients at the same time, and is determined again after each
// change. variants.mu guards all fields.
type probe struct {
	id      string
	tried   chan struct{} // closed when the first attempt has completed
	running bool          // an attempt is in progress

	srv      config.Server                           // config entry at the last attempt
	base     map[catalog.Kind]catalog.List           // lists in the shared session before the last attempt
	listed   map[catalog.Kind]catalog.List           // keys and digests that the last attempts found
	differ   map[catalog.Kind]map[string]variantItem // the difference, keyed by item key
	overlaid map[catalog.Kind]overlaidList           // cached results of overlay

	began  time.Time     // when the last attempt started
	pace   *rate.Limiter // limits the rate of attempts
	next   time.Time     // earliest start of the next attempt with the same config
	woken  time.Time     // time for which a wake-up is scheduled
	failed bool          // whether the last attempt failed
	retry  *backoff.Backoff
}

// variantItem is an item that differs for clients with certain capabilities.
type variantItem struct {
	item   catalog.Item // the item for these clients; if it has no key, they do not receive it
	common bool         // other clients receive an item with this key, too
}

func (d variantItem) equal(o variantItem) bool {
	return d.common == o.common && equalItems(d.item, o.item)
}

// overlaidList is a list to which a difference has been applied.
type overlaidList struct {
	base, list catalog.List
	differ     map[string]variantItem
}

func newProbe(id string) *probe {
	return &probe{id: id, tried: make(chan struct{}), pace: rate.NewLimiter(rate.Every(probeEvery), probeBurst), retry: backoff.New(probeRetry, probeMaxRetry),
		listed: map[catalog.Kind]catalog.List{}, differ: map[catalog.Kind]map[string]variantItem{}, overlaid: map[catalog.Kind]overlaidList{}}
}

// due reports whether the server must be listed again, because it was never listed, the last
// attempt failed, or the config or the server's lists have changed since then.
func (p *probe) due(srv config.Server, base map[catalog.Kind]catalog.List) bool {
	if p.running {
		return false
	}
	return p.began.IsZero() || p.failed || !p.srv.Equal(srv) || !maps.EqualFunc(p.base, base, sameList)
}

// start records the start of an attempt. A change is probed immediately or after probePause, unless
// many changes preceded it, because attempts may themselves cause changes.
func (p *probe) start(now time.Time) {
	p.pace.AllowN(now, 1)
	wait := probePause
	if missing := 1 - p.pace.TokensAt(now); missing > 0 {
		wait = max(wait, time.Duration(missing*float64(probeEvery)))
	}
	p.began, p.next, p.running = now, now.Add(wait), true
}

// take records the lists that an attempt found. base and now are the lists in the shared session
// before and after the attempt. An item is not treated as a difference if it equals the item in
// base or now, or if it has not changed since the last attempt although the item in the shared
// session has, because a server's lists can also depend on the session.
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

// overlay applies a difference to a list.
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

// attempt lists a server's items, unless they are no longer needed, and records the result.
func (s *variants) attempt(ctx context.Context, p *probe, capabilities json.RawMessage) {
	defer s.kick() // merges the result, and starts another attempt if one is due
	srv, wanted := s.entry(p.id)
	base := s.sharedLists(p.id)
	s.mu.Lock()
	if !p.srv.Equal(srv) {
		clear(p.listed) // it may be a different server
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
		s.opts.Logger.Warn("cannot list a server for clients with additional capabilities; they receive the common lists",
			"server", s.alias().line(p.id), "next", wait.Round(time.Second), "err", err)
	}
}

// relist returns the lists of a server in the shared session after an attempt. If the attempt found
// new items, they are requested again in the shared session, because that session may not have
// listed them since a change.
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

// sharedLists returns the lists of a server in the shared session.
func (s *variants) sharedLists(id string) map[catalog.Kind]catalog.List {
	st, _ := s.tracker.Snapshot().Server(id)
	return st.Lists
}

// listAs lists a server in a session with these capabilities. It requests the same kinds of lists
// that the shared session has. After an error, some of them may be missing.
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
	o.Era = st.Info.Era // the result is compared with the lists in the shared session
	o.Logger, o.OneShot = s.opts.Logger.With("server", s.alias().line(srv.ID)), true
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

// sameList reports whether a and b contain the same items.
func sameList(a, b catalog.List) bool {
	if sameItems(a, b) {
		return true
	}
	return slices.EqualFunc(a, b, equalItems)
}

func equalItems(a, b catalog.Item) bool {
	return a.Key == b.Key && (a.Digest == b.Digest || bytes.Equal(a.Raw, b.Raw))
}
