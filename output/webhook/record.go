package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/mcptrack/mcptrack/core/events"
)

// record is a subscription as it is stored.
type record struct {
	ID        string          `json:"id"`
	Principal string          `json:"principal"`
	URL       string          `json:"url"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // canonical
	Secret    string          `json:"secret"`
	// OldSecret signs, too, until OldUntil.
	OldSecret string           `json:"oldSecret,omitempty"`
	OldUntil  time.Time        `json:"oldUntil,omitzero"`
	Numbering events.Numbering `json:"numbering"`
	Verified  time.Time        `json:"verified"`
	Expires   time.Time        `json:"expires,omitzero"` // zero: never
	// Cursor is the watermark: everything up to it was taken or given up.
	Cursor string `json:"cursor"`
	// Truncated says that events are missing of which no answer said so yet.
	Truncated bool `json:"truncated,omitempty"`
	// GapDue says that the next message has to say so.
	GapDue bool   `json:"gapDue,omitempty"`
	Status status `json:"status"`
}

// status is how the deliveries of a subscription go.
type status struct {
	Suspended    bool      `json:"suspended,omitempty"`
	LastDelivery time.Time `json:"lastDelivery,omitzero"`
	LastError    Error     `json:"lastError,omitempty"`
	FailedSince  time.Time `json:"failedSince,omitzero"`
}

// subscriptionID is the id of the subscription with a key. It is the same in every
// process, and grants nothing.
func subscriptionID(principal, url, name string, arguments []byte) string {
	h := sha256.New()
	for _, part := range []string{principal, url, name, string(arguments)} {
		fmt.Fprintf(h, "%d:%s,", len(part), part)
	}
	return "sub_" + hex.EncodeToString(h.Sum(nil)[:8])
}
