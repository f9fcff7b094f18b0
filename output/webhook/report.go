package webhook

import (
	"cmp"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Source is who configured a webhook: an operator or a client.
type Source string

// The sources.
const (
	FromConfig       Source = "config"
	FromSubscription Source = "subscription"
)

// State summarizes the deliveries to an endpoint.
type State string

// The states.
const (
	Active    State = "active"
	Failing   State = "failing"
	Suspended State = "suspended" // until it is refreshed
)

// Endpoint describes one webhook to operators: only the host of its URL, and no secret.
type Endpoint struct {
	Host         string               `json:"host"`
	Source       Source               `json:"source"`
	Format       config.WebhookFormat `json:"format"`
	Subscription string               `json:"subscription,omitempty"` // its id
	Event        string               `json:"event,omitempty"`        // the type that was subscribed to
	State        State                `json:"state"`
	LastDelivery string               `json:"lastDelivery,omitempty"`
	LastError    Error                `json:"lastError,omitempty"`
	FailedSince  string               `json:"failedSince,omitempty"`
	// LagMs is the age of the oldest undelivered event, in milliseconds.
	LagMs     int64  `json:"lagMs"`
	Delivered uint64 `json:"delivered"` // since the start
	Dropped   uint64 `json:"dropped"`   // events that the endpoint did not want: 410 or 413
	Failed    uint64 `json:"failed"`    // attempts that failed
	GivenUp   uint64 `json:"givenUp"`
}

func newEndpoint(source Source, raw string, c *counts, st status, oldest time.Time) Endpoint {
	stamp := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format(event.TimeFormat)
	}
	e := Endpoint{
		Host: hostOf(raw), Source: source, Format: config.WebhookStandard, State: Active,
		LastDelivery: stamp(st.LastDelivery), LastError: st.LastError, FailedSince: stamp(st.FailedSince),
		Delivered: c.taken.Load(), Dropped: c.dropped.Load(), Failed: c.failed.Load(), GivenUp: c.gaveUp.Load(),
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

// Endpoints returns the subscriptions of the clients whose identity is one of those that of
// reports, by host and id.
func (s *Subscriptions) Endpoints(of func(identity string) bool) (all []Endpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.byID {
		if !of(sub.Principal) {
			continue
		}
		st := sub.Status
		st.Suspended = sub.suspended()
		e := newEndpoint(FromSubscription, sub.URL, &sub.counts, st, sub.oldest)
		e.Subscription, e.Event = sub.ID, sub.Name
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b Endpoint) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Subscription, b.Subscription))
	})
	return all
}

// Endpoints returns the webhooks in the order of the config, without those that cannot be used.
func (h *Hooks) Endpoints() (all []Endpoint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range h.active {
		e := newEndpoint(FromConfig, k.conf.URL.Reveal(), &k.counts, k.status, k.oldest)
		e.Format = k.conf.Format
		all = append(all, e)
	}
	return all
}

// Stats returns the current state.
func (h *Hooks) Stats() Stats {
	out := h.counts.stats()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range h.active {
		out.Active++
		out.behind(k.oldest)
	}
	return out
}

// hostOf returns the part of a URL that is shown to operators.
func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return printable.Line(u.Host, 128)
}

// counts are the totals since New.
type counts struct {
	taken, dropped, failed, gaveUp, gaps, terminated atomic.Uint64
}

func (c *counts) note(r Result) {
	switch {
	case r.Err != "":
		c.failed.Add(1)
	case r.Drop:
		c.dropped.Add(1)
	default:
		c.taken.Add(1)
	}
}

// Stats are the state and the counts of webhooks.
type Stats struct {
	Active, Suspended int // subscriptions
	// Attempts to deliver an event, by outcome: the endpoint accepted it (Taken), did not want
	// it (Dropped: status 410 or 413), or the attempt failed.
	Taken, Dropped, Failed uint64
	GaveUp                 uint64 // events given up after the last attempt
	Gaps, Terminated       uint64 // gap messages, and messages that a subscription has ended
	// Lag is the age of the oldest event that is still undelivered to some endpoint.
	Lag time.Duration
}

func (c *counts) stats() Stats {
	return Stats{Taken: c.taken.Load(), Dropped: c.dropped.Load(), Failed: c.failed.Load(), GaveUp: c.gaveUp.Load(), Gaps: c.gaps.Load(), Terminated: c.terminated.Load()}
}

// behind raises Lag to the age of oldest, the time of an endpoint's oldest undelivered event;
// zero: there is none.
func (s *Stats) behind(oldest time.Time) {
	if !oldest.IsZero() {
		s.Lag = max(s.Lag, time.Since(oldest))
	}
}

// Stats returns the current state.
func (s *Subscriptions) Stats() Stats {
	out := s.counts.stats()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.byID {
		if sub.suspended() {
			out.Suspended++
			continue
		}
		out.Active++
		out.behind(sub.oldest)
	}
	return out
}

// rates counts the attempts of the last hour, in six intervals of ten minutes each.
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
