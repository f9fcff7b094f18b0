package session

import (
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// Signal summarizes the notifications for one URI since the last Take.
type Signal struct {
	First  time.Time // when the first was received
	Count  int
	Parent string // the subscribed URI if this URI is a sub-resource of it; else ""
}

// Batch is what became dirty since the last Take.
type Batch struct {
	Lists map[catalog.Kind]struct{}
	// URIs are subscribed, or below a subscribed one (Signal.Parent names it). There are at
	// most 1,000 distinct sub-resources; beyond that, the signal is for the parent.
	URIs map[string]Signal
	// Gap is "" or the reason why notifications may have been lost: subscribe
	// again, list again, read again, in this order.
	Gap string
	// Silent is set if the only reason for the Gap is that a stream was silent: Subscribe has
	// replaced it or will. No loss is known; a change found now is one that the old stream did
	// not deliver.
	Silent bool
	// Dropped counts irregular notifications, by reason. All but "untagged" were not delivered:
	// "unsubscribed", "before_ack", "foreign_subscription", "overflow", "malformed", "items"
	// (of lists, without a usable key) and "undecodable" (it began like a message but is not JSON;
	// a gap follows). "untagged" ones lacked their subscription id, but were delivered.
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

	// DroppedUndecodable and DroppedItems are the only reasons that may deserve a warning.
	DroppedUndecodable = "undecodable"
	DroppedItems       = "items"
)
