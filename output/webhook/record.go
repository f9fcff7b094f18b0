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
	"github.com/mcptrack/mcptrack/core/standardwebhooks"
)

// record is the stored form of a subscription.
type record struct {
	ID        string          `json:"id"`
	Principal string          `json:"principal"`
	URL       string          `json:"url"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // canonical JSON
	Secret    string          `json:"secret"`
	// OldSecret is the previous secret. It also signs messages until OldUntil.
	OldSecret string              `json:"oldSecret,omitempty"`
	OldUntil  time.Time           `json:"oldUntil,omitzero"`
	Numbering mcpevents.Numbering `json:"numbering"`
	Verified  time.Time           `json:"verified"`
	Expires   time.Time           `json:"expires,omitzero"`
	// Life distinguishes successive subscriptions with the same ID.
	Life string `json:"life,omitempty"`
	// Refreshes counts how often the client has refreshed the subscription.
	Refreshes uint64 `json:"refreshes,omitempty"`
	// Told is the value of Missed that was last reported to the client.
	Told uint64 `json:"told,omitempty"`
	// Unanswered means that the response to the request that created the subscription has not been
	// written yet.
	Unanswered bool `json:"unanswered,omitempty"`
	progress
}

// progress is the part of a subscription that deliveries change. It is stored in the checkpoint;
// everything else is changed by the process that answers the client.
type progress struct {
	// Cursor is the watermark: all events up to it were accepted by the endpoint or abandoned.
	Cursor string `json:"cursor"`
	// Missed counts how often events were lost.
	Missed uint64 `json:"missed,omitempty"`
	// GapDue means that a gap message must be sent next.
	GapDue bool   `json:"gapDue,omitempty"`
	Status status `json:"status"`
}

// subscriptionProgress is the stored progress of one subscription.
type subscriptionProgress struct {
	ID   string `json:"id"`
	Life string `json:"life"`
	progress
}

// after returns the record that results from applying request r to the stored record now; a nil now
// means that the subscription does not exist yet. An existing subscription keeps its cursor.
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

func (r *record) expired() bool { return !time.Now().Before(r.Expires) }

// suspended reports whether deliveries are suspended until the next refresh.
func (r *record) suspended() bool { return r.Status.Suspended && r.Status.SuspendedAt == r.Refreshes }

// truncated reports whether events were lost that no response to the client has reported yet.
func (r *record) truncated() bool { return r.Missed > r.Told }

// subscriptionID returns the ID of the subscription with this key. The ID is the same in every
// process, and grants no access.
func subscriptionID(principal, url, name string, arguments []byte) string {
	h := sha256.New()
	for _, part := range []string{principal, url, name, string(arguments)} {
		fmt.Fprintf(h, "%d:%s,", len(part), part)
	}
	return "sub_" + hex.EncodeToString(h.Sum(nil)[:8])
}

// control returns a POST request for a control message, whose body has a type instead of an event.
func (r *record) control(kind string, members map[string]any) *message {
	body := map[string]any{"type": kind}
	maps.Copy(body, members)
	data, _ := json.Marshal(body) // encoding strings and numbers cannot fail
	return r.message("msg_"+kind+"_"+rand.Text(), data)
}

func (r *record) message(id string, body []byte) *message {
	return &message{url: r.URL, id: id, body: body, header: http.Header{standardwebhooks.SubscriptionHeader: {r.ID}}}
}

// terminated returns the message that tells the endpoint that its subscription has ended early.
func (r *record) terminated(why mcpevents.Failure, reason string) *message {
	return r.control("terminated", map[string]any{"error": map[string]any{
		"code": r.Numbering.Code(why), "message": why, "data": map[string]any{"reason": reason},
	}})
}

// subscription is the in-memory state of one subscription. Subscriptions.mu guards its fields.
type subscription struct {
	record
	filter    mcpevents.Filter
	secret    standardwebhooks.Secret
	old       standardwebhooks.Secret
	answered  bool // the creating request was answered: events may be sent
	removed   bool
	responder responder
	revision  uint64 // revision of the stored record
	rates     rates
	counts    counts
	oldest    time.Time // time of the first undelivered event; zero if there is none
	expiry    *time.Timer
	stop      context.CancelCauseFunc // cancels the worker; nil if none is running
	reader    *mcpevents.Reader       // of the worker that was started last
	// changed wakes the subscription's goroutine. It has capacity 1 and is never closed.
	changed chan struct{}
}

func newSubscription(r record) (sub *subscription, err error) {
	sub = &subscription{record: r, answered: !r.Unanswered, changed: make(chan struct{}, 1)}
	if sub.filter, _, err = mcpevents.ParseFilter(r.Name, r.Arguments); err != nil {
		return nil, err
	}
	sub.secret, sub.old, err = r.secrets()
	return sub, err
}

func (r *record) secrets() (secret, old standardwebhooks.Secret, err error) {
	if secret, err = standardwebhooks.ParseSecret(r.Secret); err == nil && r.OldSecret != "" {
		old, err = standardwebhooks.ParseSecret(r.OldSecret)
	}
	return secret, old, err
}

// errChanged is the cancellation cause for a worker whose subscription has changed.
var errChanged = errors.New("the subscription has changed")

// wakeLocked makes the subscription's goroutine evaluate its phase again.
func (sub *subscription) wakeLocked() {
	if sub.stop != nil {
		sub.stop(errChanged)
	}
	select {
	case sub.changed <- struct{}{}:
	default:
	}
}

// presumeAnsweredLocked allows deliveries to start: the client has received the response, or never
// will.
func (sub *subscription) presumeAnsweredLocked() {
	if !sub.answered && !sub.removed {
		sub.answered = true
		sub.wakeLocked()
	}
}
