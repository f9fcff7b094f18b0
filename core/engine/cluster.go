package engine

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal/natslog"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// announceEvery is how often this process announces changed server states to the other processes.
const announceEvery = time.Second

// nobody is displayed as the reason for a server that no process follows.
const nobody = "no process follows it"

// cluster collects the states of the servers that are shared by several processes: every process
// announces the servers that it follows, and reads the announcements of the others.
type cluster struct {
	log     *natslog.Log
	tracker *tracker.Tracker
	sharing *sharing // nil if this process does not follow any servers
	serves  bool     // this process follows all servers

	sent map[string]announced // last announced states; used only by announce

	mu   sync.Mutex // mutex that guards seen
	seen map[string]status.Summary
}

type announced struct {
	status status.Summary
	at     time.Time
}

// watch processes the announcements of other processes until ctx ends.
func (c *cluster) watch(ctx context.Context) error {
	for a, err := range c.log.Announcements(ctx) {
		if err != nil {
			return err
		}
		var srv status.Summary
		gone := string(a.Status) == removed
		if !gone && json.Unmarshal(a.Status, &srv) != nil {
			continue // written by a newer version of mcptrack
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

// announce announces the states of the servers that this process follows, until ctx ends.
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

func (c *cluster) announceServer(st *status.ServerStatus) {
	srv, last := status.Summarize(st), c.sent[st.ID]
	held, holds := c.sharing.lease(st.ID)
	if !holds || srv == last.status && time.Since(last.at) < natslog.AnnouncementTTL/3 {
		return
	}
	data, err := json.Marshal(srv)
	if err == nil && held.lease.Announce(natslog.Announcement{ServerID: st.ID, Status: data}) == nil {
		c.sent[st.ID] = announced{srv, time.Now()}
	}
}

// removed is announced as the status of a server that was removed from the config.
const removed = "null"

// servers returns the states of the servers of all processes, sorted by id.
func (c *cluster) servers() []status.Summary {
	all, leases := c.known()
	for id, srv := range all {
		if srv.FollowedBy = leases[id]; srv.FollowedBy == "" && leases != nil {
			srv.Reason = nobody
		}
		all[id] = srv
	}
	snap := c.tracker.Snapshot()
	for i := range snap.Servers {
		srv := status.Summarize(&snap.Servers[i])
		srv.FollowedBy = c.log.Process()
		if c.serves { // every process follows the server, so show which one stores its events
			srv.FollowedBy = leases[srv.ID]
		}
		all[srv.ID] = srv
	}
	sorted := slices.Collect(maps.Values(all))
	sort.Slice(sorted, func(i, j int) bool { return sorted[i].ID < sorted[j].ID })
	return sorted
}

// known returns the servers that were announced or are in the config, and the process that follows
// each server; the second map is nil if that is unknown.
func (c *cluster) known() (map[string]status.Summary, map[string]string) {
	c.mu.Lock()
	all := maps.Clone(c.seen)
	c.mu.Unlock()
	for _, id := range c.sharing.wanted() {
		if _, ok := all[id]; !ok {
			all[id] = status.Summary{ID: id, State: event.Pending}
		}
	}
	leases, err := c.log.Leases()
	if err != nil {
		return all, nil
	}
	process, _ := holders(leases)
	return all, process
}

func (c *cluster) state() status.Cluster {
	out := status.Cluster{Process: c.log.Process()}
	leases, err := c.log.Leases()
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

// Servers returns the servers that this process follows, sorted by id. If several processes share
// servers, it includes the servers that other processes follow.
func (e *Engine) Servers() []status.Summary {
	if e.cluster != nil {
		return e.cluster.servers()
	}
	snap := e.tracker.Snapshot()
	out := make([]status.Summary, len(snap.Servers))
	for i := range snap.Servers {
		out[i] = status.Summarize(&snap.Servers[i])
	}
	return out
}

// Cluster returns the state of the processes that share the servers. ok is false if this process
// is the only one.
func (e *Engine) Cluster() (state status.Cluster, ok bool) {
	if e.cluster == nil {
		return status.Cluster{}, false
	}
	return e.cluster.state(), true
}
