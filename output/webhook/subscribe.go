package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpevents"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/standardwebhooks"
)

// How long a subscription lasts unless it is refreshed.
const (
	defaultTTL = 24 * time.Hour
	minTTL     = time.Minute
	maxTTL     = 24 * time.Hour
)

// Handle answers events/subscribe and events/unsubscribe of clients that have an
// identity.
func (s *Subscriptions) Handle(ctx context.Context, r *mcpserver.Request) (json.RawMessage, error) {
	if r.Identity == "" {
		return nil, mcpevents.Fail(r, mcpevents.Forbidden, map[string]any{"reason": "webhooks need a client with a token"})
	}
	q, err := mcpevents.ParseQuery(r)
	if err != nil {
		return nil, err
	}
	d, err := parseDelivery(q.Delivery)
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

// lifetime returns how long a subscription lasts; 0: for ever, if that is granted. Any
// number is accepted.
func lifetime(raw json.RawMessage, endless bool) (time.Duration, error) {
	switch {
	case len(raw) == 0:
		return defaultTTL, nil
	case string(raw) == "null":
		if endless {
			return 0, nil
		}
		return maxTTL, nil
	}
	var number json.Number
	if raw[0] == '"' || json.Unmarshal(raw, &number) != nil {
		return 0, mcpevents.Invalid("ttlMs must be a number or null")
	}
	ms, _ := number.Float64() // of a number beyond its range: infinity
	ms = min(max(ms, float64(minTTL/time.Millisecond)), float64(maxTTL/time.Millisecond))
	return time.Duration(math.Round(ms)) * time.Millisecond, nil
}

func (s *Subscriptions) subscribe(ctx context.Context, r *mcpserver.Request, q mcpevents.Query, d delivery, id string) (json.RawMessage, error) {
	if err := d.checkMode(r); err != nil {
		return nil, err
	}
	if err := s.opts.Sender.guard.checkURL(*d.URL); err != nil {
		return nil, mcpevents.Invalid(err.Error())
	}
	if d.Secret == nil {
		return nil, mcpevents.Invalid("delivery.secret is missing")
	}
	secret, err := standardwebhooks.ParseSecret(*d.Secret)
	if err != nil {
		return nil, mcpevents.Invalid(err.Error())
	}
	ttl, err := lifetime(q.TTL, s.opts.NoExpiry)
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
	at, truncated, err := s.opts.Reader.Start(ctx, q.Cursor, q.MaxAge, maxReplay)
	if err != nil {
		return nil, &mcpserver.Error{Code: mcp.CodeInternal, Message: "StoreUnavailable"}
	}
	next.Cursor = at.Cursor()
	if ttl > 0 {
		next.Expires = time.Now().Add(ttl).UTC().Truncate(time.Millisecond)
	}
	return s.put(ctx, r, next, truncated)
}

// reservation is a subscription that is being made.
type reservation struct {
	principal string
	requests  int // that make it, simultaneously
}

// reserve checks the limits, and returns when the URL was last verified for the client, zero if
// not recently. The caller must call release once the subscription is made or has failed.
func (s *Subscriptions) reserve(r *mcpserver.Request, next *record) (verified time.Time, release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own, all := 0, 0
	for id, by := range s.reserved {
		if sub := s.byID[id]; id == next.ID || sub != nil && !sub.expired() {
			continue
		}
		all++
		if by.principal == next.Principal {
			own++
		}
	}
	for _, sub := range s.byID {
		if sub.expired() {
			continue
		}
		all++
		if sub.Principal != next.Principal {
			continue
		}
		own++
		if sub.URL == next.URL && time.Since(sub.Verified) < verifiedFor && sub.Verified.After(verified) {
			verified = sub.Verified
		}
	}
	if s.byID[next.ID] == nil {
		if err := s.opts.limit(own, all); err != nil {
			return verified, nil, err.answer(r)
		}
	}
	by := s.reserved[next.ID]
	if by == nil {
		by = &reservation{principal: next.Principal}
		s.reserved[next.ID] = by
	}
	by.requests++
	return verified, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if by.requests--; by.requests == 0 {
			delete(s.reserved, next.ID)
		}
	}, nil
}

// prove makes the endpoint prove that it wants events.
func (s *Subscriptions) prove(ctx context.Context, r *mcpserver.Request, next *record, secret standardwebhooks.Secret) (time.Time, error) {
	if s.opts.Allow.match(next.URL) {
		return time.Now().UTC(), nil
	}
	if full := s.challenges.admit(next.Principal, next.URL); full != nil {
		return time.Time{}, full.answer(r)
	}
	failed, err := s.verify(ctx, next, secret)
	if err != nil {
		return time.Time{}, err
	}
	if failed != "" {
		s.opts.Logger.Info("a webhook was not verified", "host", hostOf(next.URL), "reason", string(failed))
		return time.Time{}, mcpevents.Fail(r, mcpevents.CallbackEndpointError, map[string]any{"reason": failed})
	}
	return time.Now().UTC(), nil
}

// put makes a subscription, or refreshes the one with the same key.
func (s *Subscriptions) put(ctx context.Context, r *mcpserver.Request, next record, truncated bool) (json.RawMessage, error) {
	before, after, err := s.keep(ctx, next)
	if full, ok := errors.AsType[*fullError](err); ok {
		return nil, full.answer(r)
	}
	if err != nil {
		s.opts.Logger.Error("cannot store a webhook subscription", "err", err)
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
		answer.Truncated, answer.Status = before.truncated(), before.deliveryStatus()
	}
	if !after.Expires.IsZero() {
		text := after.Expires.Format(event.TimeFormat)
		answer.RefreshBefore = &text
	}
	if after.Unanswered {
		r.After(func() { s.answered(after) })
	}
	return json.Marshal(answer)
}

// deliveryStatus describes recent deliveries in the answer to a refresh.
type deliveryStatus struct {
	Active       bool    `json:"active"`
	LastDelivery *string `json:"lastDeliveryAt"`
	LastError    *Error  `json:"lastError"`
	FailedSince  *string `json:"failedSince,omitempty"`
}

func (r *record) deliveryStatus() *deliveryStatus {
	stamp := func(t time.Time) *string {
		if t.IsZero() {
			return nil
		}
		text := t.UTC().Format(event.TimeFormat)
		return &text
	}
	st := &deliveryStatus{Active: !r.suspended(), LastDelivery: stamp(r.Status.LastDelivery), FailedSince: stamp(r.Status.FailedSince)}
	if e := r.Status.LastError; e != "" {
		st.LastError = &e
	}
	return st
}
