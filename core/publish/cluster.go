package publish

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// announceEvery is how often changed states of servers are announced to the others.
const announceEvery = time.Second

// nobody is the reason shown for a server that no process follows.
const nobody = "no process follows it"

// Cluster is what a process knows of the processes that share the servers.
type Cluster struct {
	Process   string // this process
	Processes int    // number of processes that share the servers
	// Unfollowed are the servers that no process follows, in order.
	Unfollowed []string
	// Waiting is why leases cannot be acquired or read, so that the other processes are
	// unknown.
	Waiting string
}

// cluster knows all servers of the processes that share them: every process announces the
// servers that it follows, and reads the announcements of the others.
type cluster struct {
	journal *journal.Journal
	tracker *tracker.Tracker
	sharing *sharing // nil: this process follows none

	sent map[string]announced // used by announce

	mu   sync.Mutex // guards seen
	seen map[string]Server
}

type announced struct {
	status Server
	at     time.Time
}

func newCluster(j *journal.Journal, t *tracker.Tracker, s *sharing) *cluster {
	return &cluster{journal: j, tracker: t, sharing: s, seen: map[string]Server{}, sent: map[string]announced{}}
}

// watch reads announcements until ctx ends.
func (c *cluster) watch(ctx context.Context) error {
	for a, err := range c.journal.Announcements(ctx) {
		if err != nil {
			return err
		}
		var srv Server
		gone := string(a.Status) == removed
		if !gone && json.Unmarshal(a.Status, &srv) != nil {
			continue // of a newer version
		}
		srv.ID = a.ServerID
		c.mu.Lock()
		if gone {
			delete(c.seen, srv.ID)
		} else {
			c.seen[srv.ID] = srv
		}
		c.mu.Unlock()
	}
	return nil
}

// announce announces the servers that this process follows until ctx ends.
func (c *cluster) announce(ctx context.Context) error {
	for backoff.Sleep(ctx, announceEvery) {
		snap := c.tracker.Snapshot()
		for i := range snap.Servers {
			c.announceServer(&snap.Servers[i])
		}
		for id := range c.sent {
			if !c.sharing.wants(id) {
				delete(c.sent, id)
			}
		}
	}
	return nil
}

func (c *cluster) announceServer(st *tracker.ServerStatus) {
	srv, last := NewServer(st), c.sent[st.ID]
	lease := c.sharing.lease(st.ID)
	if lease == nil || srv == last.status && time.Since(last.at) < journal.AnnouncementTTL/3 {
		return
	}
	data, err := json.Marshal(srv)
	if err == nil && lease.Announce(journal.Announcement{ServerID: st.ID, Status: data}) == nil {
		c.sent[st.ID] = announced{srv, time.Now()}
	}
}

// removed is the announced status of a server that was removed from the config.
const removed = "null"

// servers returns the servers of all processes, sorted by id.
func (c *cluster) servers() []Server {
	all, leases := c.known()
	for id, srv := range all {
		if srv.FollowedBy = leases[id]; srv.FollowedBy == "" && leases != nil {
			srv.Reason = nobody
		}
		all[id] = srv
	}
	snap := c.tracker.Snapshot()
	for i := range snap.Servers {
		srv := NewServer(&snap.Servers[i])
		srv.FollowedBy = c.journal.Process()
		all[srv.ID] = srv
	}
	return slices.SortedFunc(maps.Values(all), func(a, b Server) int { return cmp.Compare(a.ID, b.ID) })
}

// known returns the servers that were announced or are in the config, and which process follows
// each; nil if that is unknown.
func (c *cluster) known() (map[string]Server, map[string]string) {
	c.mu.Lock()
	all := maps.Clone(c.seen)
	c.mu.Unlock()
	for _, id := range c.sharing.wanted() {
		if _, ok := all[id]; !ok {
			all[id] = Server{ID: id, State: event.Pending}
		}
	}
	leases, err := c.journal.Leases()
	if err != nil {
		return all, nil
	}
	process, _ := holders(leases)
	return all, process
}

func (c *cluster) state() Cluster {
	out := Cluster{Process: c.journal.Process()}
	leases, err := c.journal.Leases()
	if err != nil {
		out.Waiting = printable.Reason(err, 500)
		return out
	}
	process, processes := holders(leases)
	out.Processes = processes
	all, _ := c.known()
	for id := range all {
		if process[id] == "" {
			out.Unfollowed = append(out.Unfollowed, id)
		}
	}
	slices.Sort(out.Unfollowed)
	return out
}

// Servers returns the servers that this process follows and, where several processes
// share them, those of the others, sorted by id.
func (p *Publisher) Servers() []Server {
	if p.cluster != nil {
		return p.cluster.servers()
	}
	snap := p.tracker.Snapshot()
	out := make([]Server, len(snap.Servers))
	for i := range snap.Servers {
		out[i] = NewServer(&snap.Servers[i])
	}
	return out
}

// Cluster returns what is known of the processes that share the servers; ok is false if this
// process neither shares servers nor is a Replica.
func (p *Publisher) Cluster() (state Cluster, ok bool) {
	if p.cluster == nil {
		return Cluster{}, false
	}
	return p.cluster.state(), true
}
