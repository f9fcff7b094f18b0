package webhook

import (
	"net/url"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
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
	Suspended DeliveryState = "suspended" // no deliveries until the subscription is refreshed, or the webhook is switched on
)

// Words returns the state in words, for users.
func (s DeliveryState) Words() string {
	if s == Suspended {
		return "switched off"
	}
	return string(s)
}

// Result is the outcome of an attempt to deliver an event.
type Result struct {
	Time    string `json:"time"`
	EventID string `json:"eventId"`
	Outcome string `json:"outcome"` // "accepted", "dropped" or an [Error]
}

// maxResults limits the results that are kept of a webhook in the config.
const maxResults = 5

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
	NextAttempt  string               `json:"nextAttempt,omitempty"`
	Waiting      int                  `json:"waiting,omitempty"`     // events to deliver
	MoreWaiting  bool                 `json:"moreWaiting,omitempty"` // perhaps more than Waiting: those that follow in the log are not counted
	Results      []Result             `json:"results,omitempty"`     // of a webhook in the config: last attempts, newest first
	LagMs        int64                `json:"lagMs"`                 // age of the oldest undelivered event
	Delivered    uint64               `json:"delivered"`             // events accepted since the start
	Dropped      uint64               `json:"dropped"`               // events the endpoint rejected permanently: 410 or 413
	Failed       uint64               `json:"failed"`                // failed attempts
	Abandoned    uint64               `json:"givenUp"`
}

// report returns the status of an endpoint.
func (e *endpoint) report() EndpointStatus {
	out := EndpointStatus{
		Host: hostOf(e.url), Source: FromConfig, Format: e.format.name, State: Active,
		LastDelivery: stamp(e.Status.LastDelivery), LastError: e.Status.LastError, FailedSince: stamp(e.Status.FailedSince),
		Waiting: max(e.waiting, len(e.Later)), MoreWaiting: e.waiting >= lookAhead || e.Status.Suspended, Results: e.results,
		Delivered: e.count.Taken, Dropped: e.count.Dropped, Failed: e.count.Failed, Abandoned: e.count.Abandoned,
	}
	if e.sub != nil {
		out.Source, out.Subscription, out.Event = FromSubscription, e.sub.ID, e.sub.Name
	}
	switch {
	case e.Status.Suspended:
		out.State = Suspended
	case !e.Status.FailedSince.IsZero():
		out.State = Failing
	}
	var next time.Time
	for _, a := range e.Later {
		next = sooner(next, later(a.Due, later(e.Status.next, e.Status.quiet)))
	}
	if !e.Status.Suspended && next.After(time.Now()) {
		out.NextAttempt = stamp(next)
	}
	if !e.oldest.IsZero() {
		out.LagMs = max(time.Since(e.oldest).Milliseconds(), 0)
	}
	return out
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

	failures int       // failed attempts since the last one that did not fail; of a patient destination, see note
	next     time.Time // of a patient destination that fails: when the next attempt may start
	quiet    time.Time // of a patient destination: when the next attempt may start after Retry-After
	warned   bool      // failures were logged since the last delivery
}

// note records the result of an attempt. An endpoint fails from its first failed attempt until it accepts an event.
// To a patient destination, attempts that began before the next one was due count with the one that failed first, and
// those of an event that is refused do not count.
func (e *endpoint) note(began time.Time, refused bool, r result) {
	s, now := &e.Status, time.Now()
	switch {
	case r.drop: // the endpoint works, but rejects this event
		s.FailedSince, s.failures, s.next = time.Time{}, 0, time.Time{}
	case r.err == "":
		*s = status{LastDelivery: now.UTC(), quiet: s.quiet}
	default:
		s.LastError = r.err
		if e.patient {
			s.quiet = later(s.quiet, now.Add(r.retryAfter))
		}
		if refused || began.Before(s.next) {
			return
		}
		s.failures++
		if s.FailedSince.IsZero() {
			s.FailedSince = now.UTC()
		}
		if e.patient {
			s.next = now.Add(backoff.Spread(e.schedule[min(s.failures, len(e.schedule)-1)]))
		}
	}
}

// Stats contains the current state and the counts of webhooks since the start.
type Stats struct {
	Active, Suspended int // number of webhooks
	// Delivery attempts by outcome: accepted (Taken), rejected permanently with status 410 or 413
	// (Dropped), or failed.
	Taken, Dropped, Failed uint64
	Abandoned              uint64 // events abandoned after the last attempt
	Gaps, Terminated       uint64 // control messages: gaps, and early ends of subscriptions
	// Lag is the age of the oldest event that has not been delivered to every endpoint.
	Lag time.Duration
}

func (s *Stats) note(r result) {
	switch {
	case r.err != "":
		s.Failed++
	case r.drop:
		s.Dropped++
	default:
		s.Taken++
	}
}

// outcome returns the outcome of an attempt as a [Result] has it.
func (r result) outcome() string {
	switch {
	case r.err != "":
		return string(r.err)
	case r.drop:
		return "dropped"
	}
	return "accepted"
}
