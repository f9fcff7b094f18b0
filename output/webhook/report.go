package webhook

import (
	"net/url"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Source is where a webhook comes from: the config or a client's subscription.
type Source string

// The sources.
const (
	FromConfig       Source = "config"
	FromSubscription Source = "subscription"
)

// DeliveryState summarizes the deliveries to an endpoint.
type DeliveryState string

// The states.
const (
	Active    DeliveryState = "active"
	Failing   DeliveryState = "failing"
	Suspended DeliveryState = "suspended" // until it is refreshed
)

// EndpointStatus describes one webhook to operators. It contains the host of the URL only, and no
// secret.
type EndpointStatus struct {
	Host         string               `json:"host"`
	Source       Source               `json:"source"`
	Format       config.WebhookFormat `json:"format"`
	Subscription string               `json:"subscription,omitempty"` // its ID
	Event        string               `json:"event,omitempty"`        // the subscribed event type
	State        DeliveryState        `json:"state"`
	LastDelivery string               `json:"lastDelivery,omitempty"`
	LastError    Error                `json:"lastError,omitempty"`
	FailedSince  string               `json:"failedSince,omitempty"`
	LagMs        int64                `json:"lagMs"`     // age of the oldest undelivered event
	Delivered    uint64               `json:"delivered"` // since the start
	Dropped      uint64               `json:"dropped"`   // events that the endpoint did not want: 410 or 413
	Failed       uint64               `json:"failed"`    // failed attempts
	Abandoned    uint64               `json:"givenUp"`
}

func newEndpointStatus(source Source, raw string, c *counts, st status, oldest time.Time) EndpointStatus {
	e := EndpointStatus{
		Host: hostOf(raw), Source: source, Format: config.WebhookStandard, State: Active,
		LastDelivery: stamp(st.LastDelivery), LastError: st.LastError, FailedSince: stamp(st.FailedSince),
		Delivered: c.taken.Load(), Dropped: c.dropped.Load(), Failed: c.failed.Load(), Abandoned: c.abandoned.Load(),
	}
	switch {
	case st.Suspended:
		e.State = Suspended
	case !st.FailedSince.IsZero():
		e.State = Failing
	}
	if !oldest.IsZero() {
		e.LagMs = max(time.Since(oldest).Milliseconds(), 0)
	}
	return e
}

// stamp formats a time; "" for the zero time.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(event.TimeFormat)
}

// hostOf returns the part of a URL that is shown to operators.
func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return printable.Line(u.Host, 128)
}

// status is the outcome of recent deliveries.
type status struct {
	Suspended    bool      `json:"suspended,omitempty"`
	SuspendedAt  uint64    `json:"suspendedAt,omitempty"` // the value of Refreshes at that time
	LastDelivery time.Time `json:"lastDelivery,omitzero"`
	LastError    Error     `json:"lastError,omitempty"`
	FailedSince  time.Time `json:"failedSince,omitzero"`
}

func (s *status) note(now time.Time, r result) {
	switch {
	case r.drop: // it responds, but does not want the event
		s.FailedSince = time.Time{}
	case r.err == "":
		*s = status{LastDelivery: now.UTC()}
	default:
		s.LastError = r.err
		if s.FailedSince.IsZero() {
			s.FailedSince = now.UTC()
		}
	}
}

// counts are totals since New.
type counts struct {
	taken, dropped, failed, abandoned, gaps, terminated atomic.Uint64
}

func (c *counts) note(r result) {
	switch {
	case r.err != "":
		c.failed.Add(1)
	case r.drop:
		c.dropped.Add(1)
	default:
		c.taken.Add(1)
	}
}

// Stats are the state and the counts of webhooks.
type Stats struct {
	Active, Suspended int // subscriptions
	// Attempts to deliver an event, by outcome: accepted (Taken), not wanted by the endpoint
	// (Dropped: status 410 or 413), or failed.
	Taken, Dropped, Failed uint64
	Abandoned              uint64 // events abandoned after the last attempt
	Gaps, Terminated       uint64 // gap messages, and messages that a subscription has ended
	// Lag is the age of the oldest event that is undelivered to some endpoint.
	Lag time.Duration
}

func (c *counts) stats() Stats {
	return Stats{Taken: c.taken.Load(), Dropped: c.dropped.Load(), Failed: c.failed.Load(), Abandoned: c.abandoned.Load(), Gaps: c.gaps.Load(), Terminated: c.terminated.Load()}
}

// addLag raises Lag to the age of an endpoint's oldest undelivered event; the zero time means none.
func (s *Stats) addLag(oldest time.Time) {
	if !oldest.IsZero() {
		s.Lag = max(s.Lag, time.Since(oldest))
	}
}

// rates counts the attempts of the last hour in six intervals of ten minutes.
type rates struct {
	parts [6]struct {
		since       time.Time
		all, failed int
	}
}

const ratePart = 10 * time.Minute

func (r *rates) note(now time.Time, failed bool) {
	since := now.Truncate(ratePart)
	p := &r.parts[int(since.Unix()/int64(ratePart/time.Second))%len(r.parts)]
	if !p.since.Equal(since) {
		p.since, p.all, p.failed = since, 0, 0
	}
	p.all++
	if failed {
		p.failed++
	}
}

// hopeless reports whether more than 95 % of at least 100 attempts failed.
func (r *rates) hopeless(now time.Time) bool {
	all, failed := 0, 0
	for _, p := range r.parts {
		if now.Sub(p.since) < time.Hour {
			all, failed = all+p.all, failed+p.failed
		}
	}
	return all >= 100 && failed*100 > all*95
}
