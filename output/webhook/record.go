package webhook

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/mcptrack/mcptrack/core/mcpevents"
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
