package webhook

import (
	"net/url"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Source is the origin of a webhook: the config or a client's subscription.
type Source string

// Possible values of Source.
const (
	FromConfig       Source = "config"
	FromSubscription Source = "subscription"
)

// DeliveryState summarizes the deliveries to an endpoint.
type DeliveryState string

// Possible values of DeliveryState.
const (
	Active    DeliveryState = "active"
	Failing   DeliveryState = "failing"
	Suspended DeliveryState = "suspended" // no deliveries until the subscription is refreshed
)

// EndpointStatus describes one webhook for operators. Of the URL it contains only the host, and it
// contains no secret.
type EndpointStatus struct {
	Host         string               `json:"host"`
	Source       Source               `json:"source"`
	Format       config.WebhookFormat `json:"format"`
	Subscription string               `json:"subscription,omitempty"` // subscription ID
	Event        string               `json:"event,omitempty"`        // subscribed event type
	State        DeliveryState        `json:"state"`
	LastDelivery string               `json:"lastDelivery,omitempty"`
	LastError    Error                `json:"lastError,omitempty"`
	FailedSince  string               `json:"failedSince,omitempty"`
	LagMs        int64                `json:"lagMs"`     // age of the oldest undelivered event
	Delivered    uint64               `json:"delivered"` // events accepted since the start
	Dropped      uint64               `json:"dropped"`   // events the endpoint rejected permanently: 410 or 413
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

// stamp formats a time. It returns "" for the zero time.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(event.TimeFormat)
}

// hostOf returns the part of a URL that operators may see.
func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return printable.Line(u.Host, 128)
}

// status summarizes the outcome of recent deliveries.
type status struct {
	Suspended    bool      `json:"suspended,omitempty"`
	SuspendedAt  uint64    `json:"suspendedAt,omitempty"` // value of Refreshes when suspended
	LastDelivery time.Time `json:"lastDelivery,omitzero"`
	LastError    Error     `json:"lastError,omitempty"`
	FailedSince  time.Time `json:"failedSince,omitzero"`
}

func (s *status) note(now time.Time, r result) {
	switch {
	case r.drop: // the endpoint works, but rejects this event
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

// counts contains totals since New.
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

// Stats contains the current state and the counts of webhooks.
type Stats struct {
	Active, Suspended int // number of subscriptions
	// Delivery attempts by outcome: accepted (Taken), rejected permanently with status 410 or 413
	// (Dropped), or failed.
	Taken, Dropped, Failed uint64
	Abandoned              uint64 // events abandoned after the last attempt
	Gaps, Terminated       uint64 // control messages: gaps, and early ends of subscriptions
	// Lag is the age of the oldest event that has not been delivered to every endpoint.
	Lag time.Duration
}

func (c *counts) stats() Stats {
	return Stats{Taken: c.taken.Load(), Dropped: c.dropped.Load(), Failed: c.failed.Load(), Abandoned: c.abandoned.Load(), Gaps: c.gaps.Load(), Terminated: c.terminated.Load()}
}

// addLag raises Lag to the age of an endpoint's oldest undelivered event. A zero time means that
// there is none.
func (s *Stats) addLag(oldest time.Time) {
	if !oldest.IsZero() {
		s.Lag = max(s.Lag, time.Since(oldest))
	}
}

// rates counts the attempts in the last hour, in six ten-minute intervals.
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

// hopeless reports whether more than 95 % of at least 100 recent attempts failed.
func (r *rates) hopeless(now time.Time) bool {
	all, failed := 0, 0
	for _, p := range r.parts {
		if now.Sub(p.since) < time.Hour {
			all, failed = all+p.all, failed+p.failed
		}
	}
	return all >= 100 && failed*100 > all*95
}
