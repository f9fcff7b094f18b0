package webhook

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpevents"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/standardwebhooks"
)

// Lifetimes of a subscription that is not refreshed.
const (
	defaultTTL = 24 * time.Hour
	minTTL     = time.Minute
	maxTTL     = 24 * time.Hour
)

// Handle serves events/subscribe and events/unsubscribe to clients with an identity.
func (s *Subscriptions) Handle(ctx context.Context, r *mcpserver.Request) (json.RawMessage, error) {
	if r.Identity == "" {
		return nil, mcpevents.Fail(r, mcpevents.Forbidden, map[string]any{"reason": "webhooks need a client with a token"})
	}
	q, err := mcpevents.ParseQuery(r)
	if err != nil {
		return nil, err
	}
	d, err := parseDeliveryParams(q.Delivery)
	if err != nil {
		return nil, err
	}
	id := subscriptionID(r.Identity, *d.URL, q.Filter.Name(), q.Arguments)
	if r.Method == mcp.MethodUnsubscribeEvents {
		return s.unsubscribe(ctx, r, id)
	}
	return s.subscribe(ctx, r, q, d, id)
}

func (s *Subscriptions) unsubscribe(ctx context.Context, r *mcpserver.Request, id string) (json.RawMessage, error) {
	found, err := s.remove(ctx, id)
	switch {
	case err != nil:
		return nil, &mcpserver.Error{Code: mcp.CodeInternal, Message: "StoreUnavailable"}
	case !found:
		return nil, mcpevents.Fail(r, mcpevents.NotFound, map[string]any{"kind": "subscription"})
	}
	return json.RawMessage("{}"), nil
}

// deliveryParams is the "delivery" parameter of a request.
type deliveryParams struct {
	Mode, URL, Secret *string
}

func parseDeliveryParams(raw json.RawMessage) (d deliveryParams, err error) {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		return d, mcpevents.Invalid("delivery must be an object")
	}
	for name, into := range map[string]**string{"mode": &d.Mode, "url": &d.URL, "secret": &d.Secret} {
		if value, ok := members[name]; ok && json.Unmarshal(value, into) != nil {
			return d, mcpevents.Invalid("delivery." + name + " must be a string")
		}
	}
	if d.URL == nil {
		return d, mcpevents.Invalid("delivery.url is missing")
	}
	return d, nil
}

// lifetime returns the granted lifetime for the parameter "ttlMs", which may be any number, or null for as long
// as possible.
func lifetime(raw json.RawMessage) (time.Duration, error) {
	switch {
	case len(raw) == 0:
		return defaultTTL, nil
	case string(raw) == "null":
		return maxTTL, nil
	}
	var number json.Number
	if raw[0] == '"' || json.Unmarshal(raw, &number) != nil {
		return 0, mcpevents.Invalid("ttlMs must be a number or null")
	}
	ms, _ := number.Float64() // infinite if the number is out of range
	ms = min(max(ms, float64(minTTL/time.Millisecond)), float64(maxTTL/time.Millisecond))
	return time.Duration(math.Round(ms)) * time.Millisecond, nil
}

func (s *Subscriptions) subscribe(ctx context.Context, r *mcpserver.Request, q mcpevents.Query, d deliveryParams, id string) (json.RawMessage, error) {
	if d.Mode != nil && *d.Mode != string(mcpevents.Webhook) {
		return nil, mcpevents.Fail(r, mcpevents.Unsupported, map[string]any{"feature": "deliveryMode", "value": printable.Line(*d.Mode, 100)})
	}
	if err := s.sender.guard.checkURL(*d.URL); err != nil {
		return nil, mcpevents.Invalid(err.Error())
	}
	if d.Secret == nil {
		return nil, mcpevents.Invalid("delivery.secret is missing")
	}
	secret, err := standardwebhooks.ParseSecret(*d.Secret)
	if err != nil {
		return nil, mcpevents.Invalid(err.Error())
	}
	ttl, err := lifetime(q.TTL)
	if err != nil {
		return nil, err
	}
	next := record{ID: id, Principal: r.Identity, URL: *d.URL, Name: q.Filter.Name(), Arguments: q.Arguments, Secret: *d.Secret, Numbering: mcpevents.NumberingFor(r)}
	verified, release, err := s.reserve(r, &next)
	if err != nil {
		return nil, err
	}
	defer release()
	if next.Verified = verified; verified.IsZero() {
		if next.Verified, err = s.prove(ctx, r, &next, secret); err != nil {
			return nil, err
		}
	}
	reader, _ := s.of(r.Identity)
	if reader == nil {
		return nil, &mcpserver.Error{Code: mcp.CodeInternal, Message: "StoreUnavailable"}
	}
	at, truncated, err := reader.Start(ctx, q.Cursor, q.MaxAge, maxReplay)
	if err != nil {
		return nil, &mcpserver.Error{Code: mcp.CodeInternal, Message: "StoreUnavailable"}
	}
	next.Cursor = at.Cursor()
	next.Expires = time.Now().Add(ttl).UTC().Truncate(time.Millisecond)
	return s.put(ctx, r, next, truncated)
}

// limitError reports that a client has reached a limit.
func limitError(r *mcpserver.Request, limit string, max int, reason string) error {
	return mcpevents.Fail(r, mcpevents.ResourceExhausted, map[string]any{"limit": limit, "max": max, "reason": reason})
}

// reserve checks the limits, and returns when the URL was last verified for the client, or zero if
// not recently. Until the caller calls release, the subscription counts as if it existed. Processes that share
// the log check the limits for themselves, so they may exceed them a little together.
func (s *Subscriptions) reserve(r *mcpserver.Request, next *record) (verified time.Time, release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	owners := map[string]string{} // of the subscriptions, by ID
	for _, e := range s.endpoints {
		if e.sub.expired() {
			continue
		}
		owners[e.ID] = e.sub.Principal
		if e.sub.Principal == next.Principal && e.sub.URL == next.URL && time.Since(e.sub.Verified) < verifiedFor && e.sub.Verified.After(verified) {
			verified = e.sub.Verified
		}
	}
	for _, other := range s.creating {
		owners[other.ID] = other.Principal
	}
	if _, exists := owners[next.ID]; !exists {
		own := 0
		for _, owner := range owners {
			if owner == next.Principal {
				own++
			}
		}
		switch {
		case own >= s.opts.MaxEach:
			return verified, nil, limitError(r, "webhook subscriptions of a client", s.opts.MaxEach, fmt.Sprintf("a client may have at most %d webhook subscriptions", s.opts.MaxEach))
		case len(owners) >= s.opts.MaxTotal:
			return verified, nil, limitError(r, "webhook subscriptions", s.opts.MaxTotal, fmt.Sprintf("there may be at most %d webhook subscriptions in total", s.opts.MaxTotal))
		}
	}
	s.creating = append(s.creating, next)
	return verified, func() {
		s.locked(func() { s.creating = slices.DeleteFunc(s.creating, func(r *record) bool { return r == next }) })
	}, nil
}

// prove verifies that the endpoint wants events, and returns the time of the verification.
func (s *Subscriptions) prove(ctx context.Context, r *mcpserver.Request, next *record, secret standardwebhooks.Secret) (time.Time, error) {
	if s.opts.Allow.match(next.URL) {
		return time.Now().UTC(), nil
	}
	if reason, limit := s.challenges.admit(next.Principal, next.URL); reason != "" {
		return time.Time{}, limitError(r, "verifications", limit, reason)
	}
	failed, err := s.verify(ctx, next, secret)
	if err != nil {
		return time.Time{}, err
	}
	if failed != "" {
		s.logger.Info("a webhook was not verified", "host", hostOf(next.URL), "reason", string(failed))
		return time.Time{}, mcpevents.Fail(r, mcpevents.CallbackEndpointError, map[string]any{"reason": failed})
	}
	return time.Now().UTC(), nil
}

// put creates a subscription, or refreshes the existing one with the same ID, and returns the
// response.
func (s *Subscriptions) put(ctx context.Context, r *mcpserver.Request, next record, truncated bool) (json.RawMessage, error) {
	before, after, was, err := s.create(ctx, next)
	if err != nil {
		s.logger.Error("cannot store a webhook subscription", "err", err)
		return nil, errors.New("the subscription cannot be stored")
	}
	answer := struct {
		ID            string          `json:"id"`
		RefreshBefore *string         `json:"refreshBefore"`
		Cursor        string          `json:"cursor"`
		Truncated     bool            `json:"truncated"`
		Status        *deliveryStatus `json:"deliveryStatus,omitempty"`
	}{ID: after.ID, Cursor: after.Cursor, Truncated: truncated}
	if before != nil {
		answer.Cursor, answer.Truncated, answer.Status = was.Cursor, was.Missed > before.Told, was.Status.forClient()
	} else {
		r.After(func() { s.answered(after.ID, after.Life) })
	}
	answer.RefreshBefore = optional(stamp(after.Expires))
	return json.Marshal(answer)
}

// deliveryStatus describes recent deliveries in the response to a refresh.
type deliveryStatus struct {
	Active       bool    `json:"active"`
	LastDelivery *string `json:"lastDeliveryAt"`
	LastError    *Error  `json:"lastError"`
	FailedSince  *string `json:"failedSince,omitempty"`
}

func (s *status) forClient() *deliveryStatus {
	return &deliveryStatus{
		Active: !s.Suspended, LastError: optional(s.LastError),
		LastDelivery: optional(stamp(s.LastDelivery)), FailedSince: optional(stamp(s.FailedSince)),
	}
}

// optional returns nil, which becomes null in JSON, for an empty string.
func optional[T ~string](text T) *T {
	if text == "" {
		return nil
	}
	return &text
}

const (
	verifiedFor   = 24 * time.Hour
	challengeWait = 10 * time.Second // minimum interval for one client and URL
	hostPerMinute = 30               // maximum challenges to one host
	maxRemembered = 20_000           // maximum entries of challenges
)

// challenges limits how often endpoints are asked to prove that they want events, because clients
// choose the URLs. It counts the challenges in the last minute; a token bucket would allow a host
// almost twice as many in its first minute.
type challenges struct {
	mu     sync.Mutex
	recent map[string][]time.Time // challenges in the last minute, by host name, and by principal and URL
	swept  time.Time              // when outdated entries were last removed
}

// admit returns the reason why a principal may not have the endpoint at rawURL challenged now, and the
// limit. If it may, admit counts the challenge and returns "".
func (c *challenges) admit(principal, rawURL string) (reason string, limit int) {
	host, key := hostName(rawURL), principal+"\x00"+rawURL
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.recent) >= maxRemembered-1 && now.Sub(c.swept) >= time.Second {
		c.swept = now
		maps.DeleteFunc(c.recent, func(_ string, all []time.Time) bool { return now.Sub(all[len(all)-1]) >= time.Minute })
	}
	last := c.recent[key]
	all := slices.DeleteFunc(slices.Clone(c.recent[host]), func(at time.Time) bool { return now.Sub(at) >= time.Minute })
	switch {
	case len(last) > 0 && now.Sub(last[0]) < challengeWait:
		return fmt.Sprintf("an endpoint is verified for a client at most once every %d s", challengeWait/time.Second), 1
	case len(all) >= hostPerMinute:
		return fmt.Sprintf("endpoints at a host are verified at most %d times a minute", hostPerMinute), hostPerMinute
	case len(c.recent) >= maxRemembered-1:
		return "too many endpoints are being verified", maxRemembered
	}
	c.recent[key], c.recent[host] = []time.Time{now}, append(all, now)
	return "", 0
}

// hostName returns the normalized host name of a URL, without the port, so that alternative
// spellings and other ports cannot bypass the per-host limit.
func hostName(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return ""
	}
	return strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
}

// verify asks an endpoint to prove that it wants events, by repeating a nonce. It returns why the proof
// failed, or "" if it succeeded.
func (s *Subscriptions) verify(ctx context.Context, r *record, secret standardwebhooks.Secret) (Error, error) {
	nonce := rand.Text()
	m := r.control("verification", map[string]any{"challenge": nonce})
	m.secrets = []standardwebhooks.Secret{secret}
	got, err := s.sender.post(ctx, new(responder), m, nil)
	var answer struct {
		Challenge string `json:"challenge"`
	}
	switch {
	case err != nil || got.err != "":
		return got.err, err
	case got.drop:
		return HTTP4xx, nil
	case json.Unmarshal(got.answer, &answer) != nil || subtle.ConstantTimeCompare([]byte(answer.Challenge), []byte(nonce)) != 1:
		return ChallengeFailed, nil
	}
	return "", nil
}
