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

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// Some servers list more for clients that can be asked something. What they list in
// addition is found out once for each set of such capabilities, by a probe: a session with
// these capabilities that lists the server and is closed again.

const (
	maxVariants   = 32               // sets of capabilities
	maxProbes     = 4                // probes at the same time
	probePatience = 10 * time.Second // how long a client's request waits for probes
	probeAgain    = 30 * time.Second // the least time between two probes of an unchanged config
	variantIdle   = time.Hour        // how long an unused set of capabilities is remembered
)

// variants finds the lists of servers that differ for clients with certain capabilities.
type variants struct {
	g *Gateway
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

// probe is the result of listing a server with certain capabilities.
type probe struct {
	srv   config.Server // as it was configured then
	began time.Time
	base  map[catalog.Kind]catalog.List // what the server listed in the shared session
	done  chan struct{}                 // closed once lists is set
	lists map[catalog.Kind]catalog.List // those that differ from base; nil: none
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

// view returns the key under which the lists for a client with the capabilities are, ""
// for the common ones. It waits until the lists are known, at most for probePatience.
func (s *variants) view(ctx context.Context, capabilities json.RawMessage) string {
	key := keyOf(capabilities)
	v := s.g.view.Load()
	if key == "" || len(v.asks) == 0 {
		return ""
	}
	snap := s.g.tracker.Snapshot()
	s.mu.Lock()
	of := s.byKey[key]
	if of == nil {
		if len(s.byKey) >= maxVariants {
			s.mu.Unlock()
			return ""
		}
		of = &variant{capabilities: declaredLegacy(capabilities), probes: map[string]*probe{}}
		s.byKey[key] = of
	}
	of.used = time.Now()
	s.begin(of, snap)
	var waiting []*probe
	for _, p := range of.probes {
		if !isClosed(p.done) {
			waiting = append(waiting, p)
		}
	}
	s.mu.Unlock()
	if len(waiting) == 0 {
		return key
	}
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	for _, p := range waiting {
		select {
		case <-p.done:
		case <-ctx.Done():
			return key // the client is notified if the lists change later
		}
	}
	_ = s.g.flush(ctx) // on an error the items are listed a moment later
	return key
}

// begin starts the probes of a variant that are missing or outdated. s.mu must be held.
func (s *variants) begin(of *variant, snap *tracker.Snapshot) {
	v := s.g.view.Load()
	for _, srv := range s.g.wanted() {
		st, _ := snap.Server(srv.ID)
		last := of.probes[srv.ID]
		if !v.asks[srv.ID] || last != nil && (!isClosed(last.done) || last.srv.Equal(srv) && (sameLists(last.base, st.Lists) || time.Since(last.began) < probeAgain)) {
			continue
		}
		p := &probe{srv: srv, began: time.Now(), base: maps.Clone(st.Lists), done: make(chan struct{})}
		if last != nil {
			p.lists = last.lists // the former ones, until the new ones are known
		}
		of.probes[srv.ID] = p
		capabilities := of.capabilities
		if !s.g.clients.run(func(ending context.Context) {
			defer close(p.done)
			lists := s.look(ending, p, capabilities)
			s.mu.Lock()
			p.lists = lists
			s.mu.Unlock()
			s.g.kick()
		}) {
			close(p.done)
		}
	}
}

// look lists a server in a session with the capabilities, and returns the lists that differ
// from p.base; nil: none.
func (s *variants) look(ctx context.Context, p *probe, capabilities json.RawMessage) map[catalog.Kind]catalog.List {
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return nil
	}
	defer func() { <-s.slots }()
	refuse := func(context.Context, string, json.RawMessage) (json.RawMessage, error) { return nil, notFound() }
	o := s.g.opts.Session
	o.Era, o.Logger, o.OneShot = session.EraLegacy, s.g.opts.Logger.With("server", printable.Line(p.srv.ID, 128)), true
	o.Client = &session.ClientSide{Capabilities: capabilities, Request: refuse}
	srv := p.srv
	srv.Protocol = config.ProtocolLegacy
	ctx, cancel := context.WithTimeout(ctx, max(ownTimeout, srv.ConnectTimeout))
	defer cancel()
	c, err := s.g.opts.Dial(ctx, srv, o)
	if err != nil {
		return nil
	}
	defer func() { _ = c.Close() }()
	var differ map[catalog.Kind]catalog.List
	for k, base := range p.base {
		list, err := c.List(ctx, k)
		if err != nil || equalLists(list, base) {
			continue
		}
		if differ == nil {
			differ = map[catalog.Kind]catalog.List{}
		}
		differ[k] = list
	}
	return differ
}

// sameLists reports whether a and b are the same lists in memory. As lists are immutable,
// their contents are equal then.
func sameLists(a, b map[catalog.Kind]catalog.List) bool {
	return maps.EqualFunc(a, b, func(a, b catalog.List) bool {
		return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
	})
}

func equalLists(a, b catalog.List) bool {
	return slices.EqualFunc(a, b, func(a, b catalog.Item) bool {
		return a.Key == b.Key && (a.Digest == b.Digest || bytes.Equal(a.Raw, b.Raw))
	})
}

// lists returns the lists that differ from the common ones, by variant and server. It
// forgets variants that are no longer used, and starts new probes of servers whose common
// lists have changed.
func (s *variants) lists(snap *tracker.Snapshot) map[string]map[string]map[catalog.Kind]catalog.List {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]map[string]map[catalog.Kind]catalog.List{}
	for key, of := range s.byKey {
		if time.Since(of.used) > variantIdle {
			delete(s.byKey, key)
			continue
		}
		s.begin(of, snap)
		for server, p := range of.probes {
			if p.lists == nil {
				continue
			}
			if out[key] == nil {
				out[key] = map[string]map[catalog.Kind]catalog.List{}
			}
			out[key][server] = p.lists
		}
	}
	return out
}

// merge builds one view for each variant in which a server has lists of its own, and adds
// the results of their checks to lists.
func (s *variants) merge(l *loop, snap *tracker.Snapshot, sources []source, lists map[string]map[catalog.Kind]checked) map[string]*view {
	views := map[string]*view{}
	for key, servers := range s.lists(snap) {
		others := slices.Clone(sources)
		for i, of := range others {
			differ := servers[of.id]
			if differ == nil || s.g.api(of.id) != nil {
				continue
			}
			others[i].lists = maps.Clone(of.lists)
			id := of.id + "\x00" + key // see checkAs
			lists[id] = map[catalog.Kind]checked{}
			for k, list := range differ {
				c := l.checkAs(id, of.id, k, list)
				lists[id][k] = c
				others[i].lists[k] = c.items
			}
		}
		views[key] = newView(l.g.local, others, l.g.filter, func(Refusal) {})
	}
	return views
}
