package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/output/webhook"
)

// collector reads all counts when it is scraped. It describes no metrics in advance (an
// unchecked collector), because which exist depends on its options.
type collector struct{ opts Options }

// Describe implements [prometheus.Collector].
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(out chan<- prometheus.Metric) {
	s := scrape{out}
	s.gauge("mcptrack_info", "The running version.", 1, "version", c.opts.Version)
	if c.opts.Snapshot != nil {
		snap := c.opts.Snapshot()
		for i := range snap.Servers {
			s.server(&snap.Servers[i])
		}
	}
	if c.opts.Journal != nil {
		j := c.opts.Journal()
		s.counter("mcptrack_journal_stored_total", "Events that are durable.", j.Stored)
		s.gauge("mcptrack_journal_waiting", "Events that wait to be stored.", float64(j.Waiting))
		s.counter("mcptrack_journal_folded_total", "Events that were merged into a newer one of the same resource because storing was too slow.", j.Folded)
		s.counter("mcptrack_journal_fenced_total", "Events that were dropped because another process follows their server now.", j.Fenced)
		s.counter("mcptrack_journal_failures_total", "Failed attempts to store events.", j.Failures)
		s.counter("mcptrack_journal_damages_total", "Events that the store could not read back.", j.Damages)
		s.counter("mcptrack_journal_syncs_total", "Groups of events that were stored as one step.", j.Syncs)
		s.emit("mcptrack_journal_sync_seconds_total", "Time spent storing events.", prometheus.CounterValue, j.SyncTime.Seconds())
		s.gauge("mcptrack_journal_slowest_sync_seconds", "The longest time that storing a group of events has taken so far.", j.SlowestSync.Seconds())
	}
	if c.opts.Clients != nil {
		cl := c.opts.Clients()
		s.gauge("mcptrack_clients", "Clients of the feeds that are connected.", float64(cl.Connected))
		s.counter("mcptrack_clients_total", "Clients of the feeds that have connected.", cl.Served)
		s.counter("mcptrack_clients_closed_total", "Clients that were closed, by reason.", cl.Slow, "reason", "slow")
		s.counter("mcptrack_clients_closed_total", "Clients that were closed, by reason.", cl.Refused, "reason", "overload")
		s.counter("mcptrack_gaps_total", "Gap events that were sent.", cl.Gaps)
	}
	if c.opts.Webhooks != nil {
		for source, st := range c.opts.Webhooks() {
			s.webhooks(string(source), st)
		}
	}
	if c.opts.Streams != nil {
		s.gauge("mcptrack_event_streams", "Streams of MCP Events that are open.", float64(c.opts.Streams()))
	}
	if c.opts.Deliveries != nil {
		for _, d := range c.opts.Deliveries() {
			own := 0.0
			if d.Own {
				own = 1
			}
			s.gauge("mcptrack_webhook_lease", "1 if this process, of those on the cluster, delivers the webhooks.", own, "source", string(d.Source))
		}
	}
	if c.opts.Cluster != nil {
		if cl, ok := c.opts.Cluster(); ok {
			s.gauge("mcptrack_processes", "Processes that share the servers.", float64(cl.Processes))
			s.gauge("mcptrack_servers_unfollowed", "Servers that no process follows.", float64(len(cl.Unfollowed)))
			s.gauge("mcptrack_waiting_for_leases", "1 while leases cannot be acquired, so that this process will stop following servers.", truth(cl.Waiting != ""))
		}
	}
	if c.opts.Reloads != nil {
		r := c.opts.Reloads()
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

// states returns all states of a server: each gets a sample, so that one that was left becomes
// 0.
func states() []event.State {
	return []event.State{event.Pending, event.Connecting, event.Ready, event.Backoff, event.Unsupported, event.NeedsAuth, event.Unconfigured, event.Unapproved, event.Disabled, event.Stopping}
}

// scrape sends the metrics of one scrape.
type scrape struct{ out chan<- prometheus.Metric }

func (s scrape) server(st *status.ServerStatus) {
	for _, state := range states() {
		s.gauge("mcptrack_server_state", "1 for the state that a server is in.", truth(st.State == state), "server", st.ID, "state", string(state))
	}
	s.gauge("mcptrack_server_resources", "Followed resources.", float64(len(st.Resources)), "server", st.ID)
	s.gauge("mcptrack_server_missing", "Followed resources that the server does not push.", float64(len(st.Missing)), "server", st.ID)
	c := st.Counts
	s.counter("mcptrack_notifications_total", "Notifications about resources.", c.Signals, "server", st.ID)
	s.counter("mcptrack_coalesced_total", "Notifications that were merged with others.", c.Folded, "server", st.ID)
	s.counter("mcptrack_updates_total", "Events about content of resources.", c.Published, "server", st.ID)
	s.counter("mcptrack_unchanged_reads_total", "Reads that found unchanged content.", c.Unchanged, "server", st.ID)
	s.counter("mcptrack_read_failures_total", "Reads that failed.", c.Failed, "server", st.ID)
	s.counter("mcptrack_tracker_errors_total", "Connections and lists that failed.", c.Failures, "server", st.ID)
	s.counter("mcptrack_missed_changes_total", "Changes that no notification announced although the server claims to push them, or whose notification was lost with a dead stream.", c.Missed, "server", st.ID)
	for reason, n := range c.Dropped {
		s.counter("mcptrack_dropped_total", "Notifications that were dropped, by reason.", n, "server", st.ID, "reason", reason)
	}
	s.counter("mcptrack_dropped_total", "Notifications that were dropped, by reason.", c.Unknown, "server", st.ID, "reason", "not_followed")
}

func (s scrape) webhooks(source string, st webhook.Stats) {
	s.gauge("mcptrack_webhooks", "Webhooks, by source and state.", float64(st.Active), "source", source, "state", "active")
	s.gauge("mcptrack_webhooks", "Webhooks, by source and state.", float64(st.Suspended), "source", source, "state", "suspended")
	for outcome, n := range map[string]uint64{"taken": st.Taken, "dropped": st.Dropped, "failed": st.Failed} {
		s.counter("mcptrack_webhook_attempts_total", "Attempts to deliver an event to a webhook, by outcome.", n, "source", source, "outcome", outcome)
	}
	s.counter("mcptrack_webhook_given_up_total", "Events that could not be delivered to a webhook in all attempts.", st.GaveUp, "source", source)
	s.counter("mcptrack_webhook_gaps_total", "Messages that told a webhook that events are missing.", st.Gaps, "source", source)
	s.gauge("mcptrack_webhook_lag_seconds", "Age of the oldest event that has not been delivered to some webhook yet.", st.Lag.Seconds(), "source", source)
}

func (s scrape) gauge(name, help string, value float64, labels ...string) {
	s.emit(name, help, prometheus.GaugeValue, value, labels...)
}

func (s scrape) counter(name, help string, value uint64, labels ...string) {
	s.emit(name, help, prometheus.CounterValue, float64(value), labels...)
}

// emit sends one metric; labels alternate names and values.
func (s scrape) emit(name, help string, kind prometheus.ValueType, value float64, labels ...string) {
	var names, values []string
	for i := 0; i+1 < len(labels); i += 2 {
		names, values = append(names, labels[i]), append(values, labels[i+1])
	}
	s.out <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, names, nil), kind, value, values...)
}
