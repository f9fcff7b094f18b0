// Package metrics exports the state of mcptrack as Prometheus metrics.
//
// Counters and gauges are read when they are scraped, from the one place that
// counts them; only the delivery latency is observed as it happens. Labels are ids
// of the config and fixed words: what a server chose (URIs, names) never becomes a
// label, so the number of series is bounded by the config.
//
// Library: prometheus/client_golang, the reference implementation (Apache 2.0).
package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/output/webhook"
)

// Clients are the numbers of clients of the feeds; see package output/feed.
type Clients struct {
	Connected int    // now
	Served    uint64 // streams opened
	Slow      uint64 // closed for being too slow
	Refused   uint64 // refused because too many were connected
	Gaps      uint64 // gap events that were sent
}

// Options are where the numbers come from. A nil func leaves its metrics out.
type Options struct {
	Version  string
	Snapshot func() *status.Snapshot
	Journal  func() journal.StoreStats
	Clients  func() Clients
	Reloads  func() status.Reloads
	// Webhooks returns the statistics of webhook deliveries, by who configured the webhook.
	Webhooks func() map[webhook.Source]webhook.Stats
	// Deliveries returns which process on a cluster delivers to webhooks; nil: this one does.
	Deliveries func() []webhook.Delivery
	// Streams counts the open streams of MCP Events.
	Streams func() int
	// Cluster returns the state of the processes that share servers; false if none do.
	Cluster func() (status.Cluster, bool)
}

// Metrics is a set of metrics. Its methods may be called from anywhere.
type Metrics struct {
	registry *prometheus.Registry
	latency  prometheus.Histogram
}

// New makes the metrics.
func New(opts Options) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), latency: prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "mcptrack_delivery_latency_seconds",
		Help:    "Time from the receipt of a server's notification to the writing of its event to the first client.",
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	})}
	m.registry.MustRegister(m.latency, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		&collector{opts})
	return m
}

// Delivered records the time from a server's notification until an event that it caused reached
// the first client.
func (m *Metrics) Delivered(after time.Duration) { m.latency.Observe(after.Seconds()) }

// Handler answers scrapes.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second})
}
