package webhook

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/mcpevents"
)

// maxReplay limits the events that a subscription catches up on.
const maxReplay = 1000

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
	Created   time.Time           `json:"created,omitzero"`
	Expires   time.Time           `json:"expires,omitzero"`
	// Life distinguishes successive subscriptions with the same ID.
	Life string `json:"life,omitempty"`
	// Refreshes counts how often the client has refreshed the subscription.
	Refreshes uint64 `json:"refreshes,omitempty"`
	// Told is the value of progress.Missed that was last reported to the client.
	Told uint64 `json:"told,omitempty"`
	// Cursor is where the subscription begins.
	Cursor string `json:"cursor"`
}

// after returns the record that results from applying request r to the stored record now, of whose
// lost events missed were counted; a nil now means that the subscription does not exist yet.
func (r record) after(now *record, missed uint64) record {
	if now == nil {
		r.Life, r.Created = rand.Text(), time.Now().UTC()
		return r
	}
	next := *now
	if next.Secret != r.Secret {
		next.OldSecret, next.OldUntil, next.Secret = now.Secret, time.Now().Add(oldSecretFor).UTC(), r.Secret
	}
	next.Expires, next.Verified, next.Numbering = r.Expires, r.Verified, r.Numbering
	next.Refreshes, next.Told = now.Refreshes+1, missed
	return next
}

func (r *record) expired() bool { return !time.Now().Before(r.Expires) }

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
	return r.destination(nil).message("msg_"+kind+"_"+rand.Text(), data)
}

// destination returns where the events that match are delivered.
func (r *record) destination(match func(*mcpevents.Occurrence) bool) *destination {
	return &destination{url: r.URL, id: r.ID, format: formatOf(config.WebhookStandard, ""),
		match: match, schedule: schedule(), maxReplay: maxReplay}
}
