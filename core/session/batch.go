package session

import (
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// Signal sums up the notifications for one URI since the last Take.
type Signal struct {
	First  time.Time // when the first was received
	Count  int
	Parent string // the subscribed URI when this one is a sub-resource of it
}

// Batch is what became dirty since the last Take.
type Batch struct {
	Lists map[catalog.Kind]struct{}
	// URIs are subscribed, or below a subscribed one (Signal.Parent names it).
	// At most 1,000 distinct sub-resources; beyond, the parent stands for them.
	URIs map[string]Signal
	// Gap is "" or the reason why notifications may have been lost: subscribe
	// again, list again, read again, in this order.
	Gap string
	// Silent is set if nothing but a silent stream is the reason for the Gap: it has
	// been replaced or will be by subscribing again. Nothing is known to be lost; a
	// change that is found now was missed by the old stream.
	Silent bool
	// Dropped counts irregular notifications, by reason. Not delivered were:
	// "unsubscribed", "before_ack", "foreign_subscription", "overflow",
	// "malformed" (also list items without a usable key), "undecodable" (what began like
	// a message, but is not JSON: a gap follows). Delivered were "untagged" ones, which
	// lacked their subscription id.
	Dropped map[string]int
}

// The reasons in Batch.Dropped.
const (
	dropUnsubscribed = "unsubscribed"
	dropBeforeAck    = "before_ack"
	dropForeign      = "foreign_subscription"
	dropOverflow     = "overflow"
	dropMalformed    = "malformed"
	countUntagged    = "untagged"

	// DroppedUndecodable is the one that may be worth a warning.
	DroppedUndecodable = "undecodable"
)
