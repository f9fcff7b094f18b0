package gateway

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/status"
)

// Some servers list more for clients that can be asked something. What they list in
// addition is found out once for each set of such capabilities, by a probe: a session with
// these capabilities that lists the server and is closed again.

const (
	maxVariants   = 64               // sets of capabilities; keyOf makes fewer, so nobody finds them used up
	maxProbes     = 4                // probes at the same time
	probePatience = 10 * time.Second // how long a client's request waits for probes
	probeAgain    = 30 * time.Second // the least time between two probes of an unchanged config
	probeLongest  = 10 * time.Minute // the longest time until a probe that failed is repeated
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
func (s *variants) begin(of *variant, snap *status.Snapshot) {
	v := s.g.view.Load()
	for _, srv := range s.g.wanted() {
		st, _ := snap.Server(srv.ID)
		last := of.probes[srv.ID]
		if !v.asks[srv.ID] || last != nil && !(isClosed(last.done) && last.outdated(srv, st.Lists)) {
			continue
		}
		p := &probe{srv: srv, began: time.Now(), base: maps.Clone(st.Lists), done: make(chan struct{}), retry: backoff.New(probeAgain, probeLongest)}
		if last != nil {
			p.lists, p.retry = last.lists, last.retry // the former lists, until the new ones are known
		}
		of.probes[srv.ID] = p
		capabilities := of.capabilities
		if !s.g.clients.run(func(ending context.Context) {
			if wait := s.run(ending, p, capabilities); wait > 0 && backoff.Sleep(ending, wait) {
				s.g.kick() // begins the next probe, if it is still wanted
			}
		}) {
			close(p.done)
		}
	}
}

// lists returns the lists that differ from the common ones, by variant and server. It
// forgets variants that are no longer used, and starts new probes of servers whose common
// lists have changed.
func (s *variants) lists(snap *status.Snapshot) map[string]map[string]map[catalog.Kind]catalog.List {
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
func (s *variants) merge(l *loop, snap *status.Snapshot, sources []source, lists map[string]map[catalog.Kind]checked) map[string]*view {
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
