package session

import (
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// Signal tells about the notifications for one URI since the last Take.
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
	// Dropped counts notifications that were not delivered, by reason:
	// "unsubscribed", "before_ack", "foreign_subscription", "overflow",
	// "malformed" (also list items without a usable key). "untagged" counts
	// those that were delivered although they lacked their subscription id.
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
)
