package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
)

// probe is what is known of the lists of a server for clients with certain capabilities: how
// they differ from those that the server lists in the shared session. The difference is laid over
// the current lists, so that a change is served to all clients in the same step, and is found out
// again after each change. variants.mu guards all.
type probe struct {
	id      string
	tried   chan struct{} // closed when the server was listed for the first time, or could not be
	running bool          // an attempt is in progress

	srv    config.Server                       // as it was configured at the last attempt
	base   map[catalog.Kind]catalog.List       // what the shared session listed before the last attempt
	listed map[catalog.Kind]catalog.List       // what the last attempts listed: keys and digests
	differ map[catalog.Kind]map[string]deviant // by key
	laid   map[catalog.Kind]laid               // what lay returned

	began  time.Time     // the last attempt
	pace   *rate.Limiter // of attempts
	next   time.Time     // the next attempt with the same config begins no sooner
	woken  time.Time     // a wake is scheduled for then
	failed bool          // the last attempt
	retry  *backoff.Backoff
}

// deviant is an item that differs for clients with certain capabilities.
type deviant struct {
	item   catalog.Item // as they get it; without a key: they do not get it
	common bool         // others get the item, too
}

// laid is a list with a difference laid over it.
type laid struct {
	base, list catalog.List
	differ     map[string]deviant
}

func newProbe(id string) *probe {
	return &probe{id: id, tried: make(chan struct{}), pace: rate.NewLimiter(rate.Every(probeEvery), probeBurst), retry: backoff.New(probeFailed, probeLongest),
		listed: map[catalog.Kind]catalog.List{}, differ: map[catalog.Kind]map[string]deviant{}, laid: map[catalog.Kind]laid{}}
}

// due reports whether the server has to be listed again: it was not yet, that failed, or the
// config or what the server lists has changed since.
func (p *probe) due(srv config.Server, base map[catalog.Kind]catalog.List) bool {
	if p.running {
		return false
	}
	return p.began.IsZero() || p.failed || !p.srv.Equal(srv) || !sameLists(p.base, base)
}

// start begins an attempt. A change is looked at immediately or after probePause, unless there were
// many before: attempts may cause them.
func (p *probe) start(now time.Time) {
	p.pace.AllowN(now, 1)
	wait := probePause
	if missing := 1 - p.pace.TokensAt(now); missing > 0 {
		wait = max(wait, time.Duration(missing*float64(probeEvery)))
	}
	p.began, p.next, p.running = now, now.Add(wait), true
}

// take takes over what an attempt listed, while the shared session listed base before and now
// after it. An item that is as in one of them, or that did not change since the last attempt while
// the shared session's did, is no difference: what a server lists can depend on the session, too.
func (p *probe) take(found, base, now map[catalog.Kind]catalog.List) {
	for k, list := range found {
		was, again := p.listed[k]
		keys := map[string]bool{}
		for _, all := range []catalog.List{list, base[k], now[k]} {
			for _, it := range all {
				keys[it.Key] = true
			}
		}
		differ := map[string]deviant{}
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
			differ[key] = deviant{it, common.Key != ""}
		}
		bare := make(catalog.List, len(list))
		for i, it := range list {
			bare[i] = catalog.Item{Key: it.Key, Digest: it.Digest}
		}
		p.listed[k], p.differ[k] = bare, differ
	}
}

// lay returns the lists that differ from the common ones.
func (p *probe) lay(base map[catalog.Kind]catalog.List) map[catalog.Kind]catalog.List {
	out := map[catalog.Kind]catalog.List{}
	for k, differ := range p.differ {
		if len(differ) == 0 {
			continue
		}
		if was := p.laid[k]; was.list == nil || !sameList(was.base, base[k]) || !maps.EqualFunc(was.differ, differ, deviant.equal) {
			p.laid[k] = laid{base[k], over(base[k], differ), differ}
		}
		out[k] = p.laid[k].list
	}
	return out
}

// over lays a difference over a list.
func over(base catalog.List, differ map[string]deviant) catalog.List {
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

func (d deviant) equal(o deviant) bool { return d.common == o.common && equalItems(d.item, o.item) }

// attempt lists a server, unless it is no longer wanted, and takes over what it finds.
func (s *variants) attempt(ctx context.Context, p *probe, capabilities json.RawMessage) {
	defer s.g.kick() // merges what was found, and begins another attempt if it is due
	srv, wanted := entryOf(s.g.wanted(), p.id)
	base := s.base(p.id)
	s.mu.Lock()
	if !p.srv.Equal(srv) {
		clear(p.listed) // another server, maybe
	}
	p.srv, p.base = srv, base
	s.mu.Unlock()
	var found map[catalog.Kind]catalog.List
	var err error
	if wanted {
		found, err = s.look(ctx, srv, base, capabilities)
	}
	now := s.after(ctx, p, found, base)
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
		s.g.opts.Logger.Warn("cannot list what a server offers to clients with more capabilities; they see what all clients see",
			"server", p.id, "next", wait.Round(time.Second), "err", err)
	}
}

// after returns what a server lists in the shared session after an attempt. Where the attempt found
// something new, that session lists the server again, as it may not have done so since a change.
func (s *variants) after(ctx context.Context, p *probe, found, base map[catalog.Kind]catalog.List) map[catalog.Kind]catalog.List {
	now := map[catalog.Kind]catalog.List{}
	maps.Copy(now, s.base(p.id))
	s.mu.Lock()
	differ := maps.Clone(p.differ)
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, ownTimeout)
	defer cancel()
	for k, list := range found {
		if sameList(list, over(base[k], differ[k])) {
			continue
		}
		if current, err := s.g.tracker.Client(p.id).CurrentList(ctx, k); err == nil {
			now[k] = current
		}
	}
	return now
}

// base returns what a server lists in the shared session.
func (s *variants) base(id string) map[catalog.Kind]catalog.List {
	st, _ := s.g.tracker.Snapshot().Server(id)
	return st.Lists
}

// look lists a server in a session with the capabilities: the kinds of lists that the shared
// session has. With an error some may be missing.
func (s *variants) look(ctx context.Context, srv config.Server, base map[catalog.Kind]catalog.List, capabilities json.RawMessage) (found map[catalog.Kind]catalog.List, err error) {
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-s.slots }()
	refuse := func(context.Context, string, json.RawMessage) (json.RawMessage, error) { return nil, notFound() }
	o := s.g.opts.Session
	st, _ := s.g.tracker.Snapshot().Server(srv.ID)
	o.Era = st.Info.Era // as what it is compared with
	o.Logger, o.OneShot = s.g.opts.Logger.With("server", printable.Line(srv.ID, 128)), true
	o.Client = &session.ClientSide{Capabilities: capabilities, Request: refuse}
	srv.Protocol = config.Protocol(o.Era)
	ctx, cancel := context.WithTimeout(ctx, max(ownTimeout, srv.ConnectTimeout))
	defer cancel()
	c, err := s.g.opts.Dial(ctx, srv, o)
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

// sameLists reports whether a and b have the same items.
func sameLists(a, b map[catalog.Kind]catalog.List) bool { return maps.EqualFunc(a, b, sameList) }

func sameList(a, b catalog.List) bool {
	if len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) {
		return true // lists are immutable
	}
	return slices.EqualFunc(a, b, equalItems)
}

func equalItems(a, b catalog.Item) bool {
	return a.Key == b.Key && (a.Digest == b.Digest || bytes.Equal(a.Raw, b.Raw))
}
