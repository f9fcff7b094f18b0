// Package metrics exports the state of mcptrack as Prometheus metrics.
//
// Counters and gauges are read at each scrape from the component that maintains them; only the
// delivery latency and the calls of tools are recorded as they occur. Label values are ids from the
// config and constants. Values that a server chooses (URIs, names) never become labels, except the names
// of the first 100 tools of each of the first 1,000 servers that are called; all others are "other". So
// the number of time series is bounded.
//
// The text format is written here: prometheus/client_golang links protobuf, and every command would start it,
// also where nobody scrapes.
package metrics

import (
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/calls"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/hook"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/lock/guard"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/output/webhook"
)

// Clients contains client counts of the feeds; see package output/feed.
type Clients struct {
	Connected int    // currently connected
	Served    uint64 // streams opened since the start
	Slow      uint64 // clients disconnected because they were slow
	Refused   uint64 // clients refused at the connection limit
	Gaps      uint64 // gap events sent
}

// Options specifies the sources of the metrics. Metrics whose source is nil are omitted.
type Options struct {
	Version  string
	Snapshot func() *status.Snapshot
	Journal  func() journal.StoreStats
	Clients  func() Clients
	Reloads  func() status.Reloads
	// LockChanges returns what differs from the lock file, by server.
	LockChanges func() map[string][]guard.Change
	// Webhooks returns the delivery statistics of each source of webhooks.
	Webhooks func() map[webhook.Source]webhook.Stats
	// Deliveries returns which process of a cluster delivers to webhooks. If nil, this process
	// delivers.
	Deliveries func() []webhook.Deliverer
	// Hooks returns the state of the incoming webhooks.
	Hooks func() []hook.Status
	// Streams returns the number of open MCP Events streams.
	Streams func() int
	// StrayAnswers returns how many answers of MCP clients were dropped, because no question to the
	// client with their id was pending.
	StrayAnswers func() uint64
	// Cluster returns the state of the processes that share servers, or false if no servers are
	// shared.
	Cluster func() (status.Cluster, bool)
}

// Metrics is a set of metrics. It is safe for concurrent use.
type Metrics struct {
	opts    Options
	started time.Time

	mu      sync.Mutex // guards the fields below
	latency histogram
	calls   map[series]*histogram
	called  map[string]map[string]bool // tools that are labels, by server
}

// series contains the values of the labels outcome, server and tool.
type series [3]string

// New returns a new set of metrics.
func New(opts Options) *Metrics {
	return &Metrics{opts: opts, started: time.Now(), calls: map[series]*histogram{}, called: map[string]map[string]bool{}}
}

// Delivered records the time from a server's notification until its event reached the first
// client.
func (m *Metrics) Delivered(after time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.latency.observe(after.Seconds(), latencyBounds())
}

// Limits of the labels of calls; see the package documentation.
const (
	maxCalledServers = 1000
	maxCalledTools   = 100
	otherCalls       = "other"
)

// Called records a call. Tools that no server has are "other", because clients choose their names.
func (m *Metrics) Called(c calls.Call) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.called[c.ServerID] == nil {
		if len(m.called) < maxCalledServers {
			m.called[c.ServerID] = map[string]bool{}
		} else {
			c.ServerID, c.Tool = otherCalls, otherCalls
		}
	}
	if tools := m.called[c.ServerID]; c.ServerID == "" || !tools[c.Tool] && len(tools) >= maxCalledTools {
		c.Tool = otherCalls
	} else if tools != nil {
		tools[c.Tool] = true
	}
	key := series{string(c.Outcome), c.ServerID, c.Tool}
	if m.calls[key] == nil {
		m.calls[key] = &histogram{}
	}
	m.calls[key].observe(c.Duration.Seconds(), callBounds())
}

// observed adds what was recorded as it occurred.
func (m *Metrics) observed(s page) {
	m.mu.Lock()
	latency, all := m.latency, make(map[series]histogram, len(m.calls))
	for key, h := range m.calls {
		all[key] = *h
	}
	m.mu.Unlock()
	s.histogram("mcptrack_delivery_latency_seconds", "Time from a server's notification until its event is written to the first client.", latency, latencyBounds())
	for key, h := range all {
		s.histogram("mcptrack_call_seconds", "Time from a client's call of a tool until it is answered, by outcome.", h, callBounds(),
			"outcome", key[0], "server", key[1], "tool", key[2])
	}
}

func latencyBounds() []float64 {
	return []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
}

func callBounds() []float64 {
	return []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
}

// read adds the counts that others maintain.
func (c *Options) read(s page) {
	s.gauge("mcptrack_info", "The running version.", 1, "version", c.Version)
	if c.Snapshot != nil {
		snap := c.Snapshot()
		for i := range snap.Servers {
			s.server(&snap.Servers[i])
		}
	}
	if c.Journal != nil {
		j := c.Journal()
		s.counter("mcptrack_journal_stored_total", "Events that are durable.", j.Stored)
		s.gauge("mcptrack_journal_waiting", "Events waiting to be stored.", float64(j.Waiting))
		s.counter("mcptrack_journal_folded_total", "Events merged into a newer event of the same resource because storage was slow.", j.Folded)
		s.counter("mcptrack_journal_fenced_total", "Events dropped because another process now follows their server.", j.Fenced)
		s.counter("mcptrack_journal_failures_total", "Failed attempts to store events.", j.Failures)
		s.counter("mcptrack_journal_damages_total", "Stored events that could not be read.", j.Damages)
		s.counter("mcptrack_journal_syncs_total", "Groups of events stored in one transaction.", j.Syncs)
		s.add("mcptrack_journal_sync_seconds_total", "Time spent storing events.", "counter", j.SyncTime.Seconds())
		s.gauge("mcptrack_journal_slowest_sync_seconds", "The longest time taken to store one group of events.", j.SlowestSync.Seconds())
	}
	if c.Clients != nil {
		cl := c.Clients()
		s.gauge("mcptrack_clients", "Connected clients of the feeds.", float64(cl.Connected))
		s.counter("mcptrack_clients_total", "Clients of the feeds that have connected since the start.", cl.Served)
		s.counter("mcptrack_clients_closed_total", "Clients disconnected, by reason.", cl.Slow, "reason", "slow")
		s.counter("mcptrack_clients_closed_total", "Clients disconnected, by reason.", cl.Refused, "reason", "overload")
		s.counter("mcptrack_gaps_total", "Gap events sent.", cl.Gaps)
	}
	if c.Webhooks != nil {
		for source, st := range c.Webhooks() {
			s.webhooks(string(source), st)
		}
	}
	if c.Hooks != nil {
		s.hooks(c.Hooks())
	}
	if c.Streams != nil {
		s.gauge("mcptrack_event_streams", "Open streams of MCP Events.", float64(c.Streams()))
	}
	if c.StrayAnswers != nil {
		s.counter("mcptrack_stray_answers_total", "Answers of MCP clients that were dropped because they belong to no pending question.", c.StrayAnswers())
	}
	if c.Deliveries != nil {
		for _, d := range c.Deliveries() {
			s.gauge("mcptrack_webhook_lease", "1 if this process of the cluster delivers the webhooks.", truth(d.Own), "source", string(d.Source))
		}
	}
	if c.Cluster != nil {
		if cl, ok := c.Cluster(); ok {
			s.gauge("mcptrack_processes", "Processes that share the servers.", float64(cl.Processes))
			s.gauge("mcptrack_servers_unfollowed", "Servers that no process follows.", float64(len(cl.Unfollowed)))
			s.gauge("mcptrack_waiting_for_leases", "1 while this process cannot renew leases and will stop following servers.", truth(cl.Waiting != ""))
		}
	}
	if c.LockChanges != nil {
		for server, changes := range c.LockChanges() {
			s.gauge("mcptrack_lock_changes", "Items of a server that differ from the lock file.", float64(len(changes)), "server", server)
		}
	}
	if c.Reloads != nil {
		r := c.Reloads()
		s.counter("mcptrack_config_reloads_total", "Config reloads, by result.", r.Reloaded, "result", "reloaded")
		s.counter("mcptrack_config_reloads_total", "Config reloads, by result.", r.Rejected, "result", "rejected")
		s.gauge("mcptrack_config_last_reload_successful", "1 if the config on disk is in use.", truth(r.Good))
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (s page) server(st *status.ServerStatus) {
	for _, state := range event.States() { // all, so that states that the server has left drop to 0
		s.gauge("mcptrack_server_state", "1 for the current state of a server.", truth(st.State == state), "server", st.ID, "state", string(state))
	}
	s.gauge("mcptrack_server_resources", "Followed resources.", float64(len(st.Resources)), "server", st.ID)
	s.gauge("mcptrack_server_missing", "Followed resources whose changes the server does not push.", float64(len(st.Missing)), "server", st.ID)
	c := st.Counts
	s.counter("mcptrack_notifications_total", "Notifications about resources.", c.Signals, "server", st.ID)
	s.counter("mcptrack_coalesced_total", "Notifications merged with others.", c.Folded, "server", st.ID)
	s.counter("mcptrack_updates_total", "Events about the content of resources.", c.Published, "server", st.ID)
	s.counter("mcptrack_unchanged_reads_total", "Reads that found unchanged content.", c.Unchanged, "server", st.ID)
	s.counter("mcptrack_read_failures_total", "Reads that failed.", c.Failed, "server", st.ID)
	s.counter("mcptrack_tracker_errors_total", "Failed connections and lists.", c.Failures, "server", st.ID)
	s.counter("mcptrack_missed_changes_total", "Changes without a notification, although the server claims to push them, or with a notification lost on a dead stream.", c.Missed, "server", st.ID)
	for reason, n := range c.Dropped {
		s.counter("mcptrack_dropped_total", "Notifications dropped, by reason.", n, "reason", reason, "server", st.ID)
	}
	s.counter("mcptrack_dropped_total", "Notifications dropped, by reason.", c.Unknown, "reason", "not_followed", "server", st.ID)
}

func (s page) hooks(all []hook.Status) {
	for _, h := range all {
		for _, outcome := range hook.Outcomes() {
			s.counter("mcptrack_hook_messages_total", "Messages to an incoming webhook, by outcome; only accepted ones have an effect.", h.Messages[outcome], "hook", h.ID, "outcome", string(outcome))
		}
	}
}

func (s page) webhooks(source string, st webhook.Stats) {
	s.gauge("mcptrack_webhooks", "Webhooks, by source and state.", float64(st.Active), "source", source, "state", "active")
	s.gauge("mcptrack_webhooks", "Webhooks, by source and state.", float64(st.Suspended), "source", source, "state", "suspended")
	for outcome, n := range map[string]uint64{"taken": st.Taken, "dropped": st.Dropped, "failed": st.Failed} {
		s.counter("mcptrack_webhook_attempts_total", "Attempts to deliver an event to a webhook, by outcome.", n, "outcome", outcome, "source", source)
	}
	s.counter("mcptrack_webhook_given_up_total", "Events dead-lettered after the last attempt to deliver them to a webhook.", st.Abandoned, "source", source)
	s.counter("mcptrack_webhook_gaps_total", "Gap messages sent to a webhook.", st.Gaps, "source", source)
	s.gauge("mcptrack_webhook_lag_seconds", "Age of the oldest event not yet delivered to every webhook.", st.Lag.Seconds(), "source", source)
}
