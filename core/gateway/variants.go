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
// addition is found out for each set of such capabilities, by a probe: a session with these
// capabilities that lists the server and is closed again, first when such a client connects, and
// then after every change of what the server lists.

const (
	maxVariants   = 64                     // sets of capabilities; keyOf makes fewer, so nobody finds them used up
	maxProbes     = 4                      // probes at the same time
	probePatience = 10 * time.Second       // how long a client's request waits for probes
	probePause    = 500 * time.Millisecond // at least, between the beginnings of two probes after changes
	probeBurst    = 20                     // probes that may follow one another so
	probeEvery    = 5 * time.Second        // how long it takes until one more may
	probeFailed   = time.Second            // the first pause after a failure
	probeLongest  = 10 * time.Minute       // the longest time until a probe that failed is repeated
	variantIdle   = time.Hour              // how long a set of capabilities is remembered after its last client
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

// await waits until the lists for clients with the capabilities, whose key is given, are known, at
// most for probePatience. Until then such clients see the common lists.
func (s *variants) await(ctx context.Context, key string, capabilities json.RawMessage) {
	if len(s.g.wanted()) == 0 {
		return
	}
	snap := s.g.tracker.Snapshot()
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
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	for _, tried := range waiting {
		select {
		case <-tried:
		case <-ctx.Done():
			return // the client is notified if the lists change later
		}
	}
	_ = s.g.flush(ctx) // on an error the items are listed a moment later
}

// begin starts the probes of a variant that are missing or outdated. s.mu must be held.
func (s *variants) begin(of *variant, snap *status.Snapshot) {
	for _, srv := range s.g.wanted() {
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
			if at := p.next; !p.woken.Equal(at) && s.g.clients.run(func(ending context.Context) {
				if backoff.Sleep(ending, at.Sub(now)) {
					s.g.kick()
				}
			}) {
				p.woken = at
			}
			continue
		}
		p.start(now)
		capabilities := of.capabilities
		if !s.g.clients.run(func(ending context.Context) { s.attempt(ending, p, capabilities) }) {
			p.running = false // the gateway ends
		}
	}
}

// lists returns the lists that differ from the common ones, by variant and server. It
// forgets variants that no client uses any more, and starts new probes of servers whose common
// lists have changed.
func (s *variants) lists(snap *status.Snapshot) map[string]map[string]map[catalog.Kind]catalog.List {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]map[string]map[catalog.Kind]catalog.List{}
	for key, of := range s.byKey {
		if time.Since(of.used) > variantIdle && !s.g.server.Subscriptions().Seen(key) {
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
			lists := p.lay(st.Lists)
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
