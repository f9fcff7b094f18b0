package webhook

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/mcptrack/mcptrack/core/mcpevents"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/standardwebhooks"
)

// record is the stored form of a subscription.
type record struct {
	ID        string          `json:"id"`
	Principal string          `json:"principal"`
	URL       string          `json:"url"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // canonical
	Secret    string          `json:"secret"`
	// OldSecret also signs messages until OldUntil.
	OldSecret string              `json:"oldSecret,omitempty"`
	OldUntil  time.Time           `json:"oldUntil,omitzero"`
	Numbering mcpevents.Numbering `json:"numbering"`
	Verified  time.Time           `json:"verified"`
	Expires   time.Time           `json:"expires,omitzero"` // zero: never
	// Life is another one each time that a subscription is made, also under the same id.
	Life string `json:"life,omitempty"`
	// Refreshes counts the refreshes.
	Refreshes uint64 `json:"refreshes,omitempty"`
	// Told is the latest Missed of which an answer said that events are missing.
	Told uint64 `json:"told,omitempty"`
	// Unanswered says that the answer that makes it was not written yet.
	Unanswered bool `json:"unanswered,omitempty"`
	progress
}

// progress is what delivering changes of a subscription. It is stored in a page; the process that
// answers its client changes all else.
type progress struct {
	// Cursor is the watermark: all events up to it were accepted or given up.
	Cursor string `json:"cursor"`
	// Missed counts how often events went missing.
	Missed uint64 `json:"missed,omitempty"`
	// GapDue says that the next message has to say that events are missing.
	GapDue bool   `json:"gapDue,omitempty"`
	Status status `json:"status"`
}

// advance is how far the deliveries of a subscription are.
type advance struct {
	ID   string `json:"id"`
	Life string `json:"life"`
	progress
}

// after returns the record that a request makes of the one that there is, nil if there is
// none. The cursor of that one stays.
func (r record) after(now *record) record {
	if now == nil {
		r.Life, r.Unanswered = rand.Text(), true
		return r
	}
	next := *now
	if next.Secret != r.Secret {
		next.OldSecret, next.OldUntil, next.Secret = now.Secret, time.Now().Add(oldSecretFor).UTC(), r.Secret
	}
	next.Expires, next.Verified, next.Numbering = r.Expires, r.Verified, r.Numbering
	next.Refreshes, next.Told = now.Refreshes+1, now.Missed
	return next
}

// expired reports whether the record's time is over.
func (r *record) expired() bool { return !r.Expires.IsZero() && !time.Now().Before(r.Expires) }

// suspended reports whether nothing is sent before a refresh.
func (r *record) suspended() bool { return r.Status.Suspended && r.Status.SuspendedAt == r.Refreshes }

// truncated reports whether events are missing of which no answer said so yet.
func (r *record) truncated() bool { return r.Missed > r.Told }

// status is the outcome of recent deliveries of a subscription.
type status struct {
	Suspended    bool      `json:"suspended,omitempty"`
	SuspendedAt  uint64    `json:"suspendedAt,omitempty"` // the Refreshes then
	LastDelivery time.Time `json:"lastDelivery,omitzero"`
	LastError    Error     `json:"lastError,omitempty"`
	FailedSince  time.Time `json:"failedSince,omitzero"`
}

// subscriptionID returns the id of the subscription with a key. It is the same in every
// process, and grants no access.
func subscriptionID(principal, url, name string, arguments []byte) string {
	h := sha256.New()
	for _, part := range []string{principal, url, name, string(arguments)} {
		fmt.Fprintf(h, "%d:%s,", len(part), part)
	}
	return "sub_" + hex.EncodeToString(h.Sum(nil)[:8])
}

// subscription is one subscription. Its fields are guarded by Subscriptions.mu.
type subscription struct {
	record
	filter   mcpevents.Filter
	secret   standardwebhooks.Secret
	old      standardwebhooks.Secret
	answered bool // the answer that made it was written: events may be sent
	removed  bool
	caller   caller
	revision uint64 // of its record
	rates    rates
	counts   counts
	oldest   time.Time // when the first undelivered event happened; zero: there is none
	expiry   *time.Timer
	stop     context.CancelCauseFunc // of the worker; nil: none is running
	// changed wakes the goroutine of the subscription. Capacity 1, never closed.
	changed chan struct{}
}

func newSubscription(r record) (*subscription, error) {
	sub := &subscription{record: r, answered: !r.Unanswered, changed: make(chan struct{}, 1)}
	var err error
	if sub.filter, _, err = mcpevents.ParseFilter(r.Name, r.Arguments); err != nil {
		return nil, err
	}
	if sub.secret, err = standardwebhooks.ParseSecret(r.Secret); err != nil {
		return nil, err
	}
	if r.OldSecret != "" {
		sub.old, err = standardwebhooks.ParseSecret(r.OldSecret)
	}
	return sub, err
}

// errLook ends a worker whose subscription has changed.
var errLook = errors.New("the subscription has changed")

// wakeLocked has the goroutine of a subscription look at it again.
func (sub *subscription) wakeLocked() {
	if sub.stop != nil {
		sub.stop(errLook)
	}
	select {
	case sub.changed <- struct{}{}:
	default:
	}
}

// applyLocked makes or changes a subscription as its record says, unless something newer is known.
// What delivering changes stays.
func (s *Subscriptions) applyLocked(r record, revision uint64) error {
	sub := s.byID[r.ID]
	if sub != nil && revision <= sub.revision {
		return nil
	}
	if sub != nil && sub.Life != r.Life {
		s.dropLocked(sub)
		sub = nil
	}
	if sub == nil {
		if a, ok := s.advances[r.ID]; ok && a.Life == r.Life {
			r.progress = a.progress
		}
		sub, err := newSubscription(r)
		if err != nil {
			return err
		}
		sub.revision = revision
		s.byID[r.ID] = sub
		s.startLocked(sub)
		if !sub.answered && s.turns.shared() {
			time.AfterFunc(answerWait, func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				sub.presumeLocked()
			})
		}
		return nil
	}
	secret, err := standardwebhooks.ParseSecret(r.Secret)
	if err != nil {
		return err
	}
	var old standardwebhooks.Secret
	if r.OldSecret != "" {
		if old, err = standardwebhooks.ParseSecret(r.OldSecret); err != nil {
			return err
		}
	}
	wasSuspended, refreshed := sub.suspended(), sub.Refreshes != r.Refreshes
	// Only these: messages are made of the others without the lock.
	sub.Secret, sub.secret, sub.OldSecret, sub.old, sub.OldUntil = r.Secret, secret, r.OldSecret, old, r.OldUntil
	sub.Expires, sub.Verified, sub.Numbering = r.Expires, r.Verified, r.Numbering
	sub.Refreshes, sub.Told, sub.Unanswered, sub.revision = r.Refreshes, r.Told, r.Unanswered, revision
	if wasSuspended && !sub.suspended() {
		sub.Status, sub.rates = status{LastDelivery: sub.Status.LastDelivery}, rates{}
		sub.wakeLocked()
	}
	if refreshed && s.phaseLocked(sub) == dead { // its client still wants it
		sub.Status.FailedSince = time.Time{}
	}
	if !r.Unanswered {
		sub.presumeLocked()
	}
	s.expiresLocked(sub)
	return nil
}

// presumeLocked begins to deliver: the client has the answer, or will never get it.
func (sub *subscription) presumeLocked() {
	if !sub.answered && !sub.removed {
		sub.answered = true
		sub.wakeLocked()
	}
}

const headerSubscription = "X-MCP-Subscription-Id"

// eventMessage is the POST of an event to a subscriber. If own is set, it has an id of its own,
// which is the same in every attempt and process; otherwise that of the event.
func (r *record) eventMessage(o *mcpevents.Occurrence, cursor string, own bool) *Message {
	id := o.ID
	if own {
		sum := sha256.Sum256([]byte(r.ID + " " + o.ID))
		id = "msg_event_" + hex.EncodeToString(sum[:12])
	}
	return r.message(id, o.Body(cursor))
}

// control returns a POST that is not an event: a body with a type.
func (r *record) control(kind string, members map[string]any) *Message {
	body := map[string]any{"type": kind}
	maps.Copy(body, members)
	data, _ := json.Marshal(body) // strings and numbers always encode
	return r.message("msg_"+kind+"_"+rand.Text(), data)
}

func (r *record) message(id string, body []byte) *Message {
	return &Message{URL: r.URL, ID: id, Body: body, Header: http.Header{headerSubscription: {r.ID}}}
}

// terminated returns the message that the subscription has ended before its time, and why.
func (r *record) terminated(why mcpevents.Failure, reason string) *Message {
	return r.control("terminated", map[string]any{"error": map[string]any{
		"code": r.Numbering.Code(why), "message": why, "data": map[string]any{"reason": reason},
	}})
}

// delivery is the parameter "delivery" of a request.
type delivery struct {
	Mode, URL, Secret *string
}

func parseDelivery(raw json.RawMessage) (d delivery, err error) {
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

// checkMode rejects any delivery mode but webhook.
func (d *delivery) checkMode(r *mcpserver.Request) error {
	if d.Mode != nil && *d.Mode != string(mcpevents.Webhook) {
		return mcpevents.Fail(r, mcpevents.Unsupported, map[string]any{"feature": "deliveryMode", "value": bounded(*d.Mode)})
	}
	return nil
}
