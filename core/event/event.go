// Package event is the one event envelope, for stdout, the SSE feed, the journal
// and embedders.
//
// An [Event] is a header and a typed [Payload]; on the wire the two are one flat
// JSON object in one line. Events are values: nobody changes one after it was
// published, so they are shared freely.
//
// Events tell states, not edges. Once a resource is quiet, its last event tells
// its current content; states in between may have been merged.
package event

import (
	"strconv"
	"time"
)

// Event is one thing that happened.
type Event struct {
	// ID is the epoch in 16 hex digits, a hyphen, and a number that rises by one
	// with every event of the epoch. It is the SSE id and the key by which every
	// sink can recognise a repetition. Set by the bus.
	ID string
	// Seq is the number in ID.
	Seq uint64
	// ServerID is the server's id in the config; "" for events that are about none.
	ServerID string
	// ResourceURI is set on events about one resource.
	ResourceURI string
	// Timestamp is when it was noticed, in UTC; shown with three fractional digits.
	Timestamp time.Time
	// Cause says how it was noticed; "" where that says nothing.
	Cause Cause
	// Payload is what happened. Its dynamic type gives the event's type.
	Payload Payload
	// Received is when the server's notification arrived, zero if none led to the
	// event. It is for measuring and does not go on the wire.
	Received time.Time
}

// Type returns the payload's type, "" without one.
func (e *Event) Type() Type {
	if e.Payload == nil {
		return ""
	}
	return e.Payload.Type()
}

// Type names a kind of event, as in the "type" member.
type Type string

// The types of events.
const (
	TypeServerState          Type = "server.state"
	TypeSubscriptionActive   Type = "subscription.active"
	TypeResourceUpdated      Type = "resource.updated"
	TypeResourceAdded        Type = "resource.added"
	TypeResourceRemoved      Type = "resource.removed"
	TypeResourceChanged      Type = "resource.changed"
	TypeResourcesListChanged Type = "resources.list_changed"
	TypeTemplatesListChanged Type = "templates.list_changed"
	TypePromptsListChanged   Type = "prompts.list_changed"
	TypeToolsListChanged     Type = "tools.list_changed"
	TypeConfigReloaded       Type = "config.reloaded"
	TypeConfigRejected       Type = "config.rejected"
	TypeResourceContent      Type = "resource.content"
	TypePromptContent        Type = "prompt.content"
	TypeToolResult           Type = "tool.result"
	TypeSubscriptionsChanged Type = "subscriptions.changed"
	TypeGap                  Type = "gap"
)

// Types returns all types in the order of the documentation.
func Types() []Type {
	return []Type{TypeServerState, TypeSubscriptionActive, TypeResourceUpdated, TypeResourceAdded,
		TypeResourceRemoved, TypeResourceChanged, TypeResourcesListChanged, TypeTemplatesListChanged,
		TypePromptsListChanged, TypeToolsListChanged, TypeConfigReloaded, TypeConfigRejected,
		TypeResourceContent, TypePromptContent, TypeToolResult, TypeSubscriptionsChanged, TypeGap}
}

// Cause says how a change was noticed.
type Cause string

// The causes.
const (
	// CauseNotify: the server announced it, and the resource had been quiet.
	CauseNotify Cause = "notify"
	// CauseTrailing: announced within the window of an earlier event, and told at
	// the window's end because the content differs from what was told last.
	CauseTrailing Cause = "trailing"
	// CauseResync: found by comparing after a time in which pushes may have been lost.
	CauseResync Cause = "resync"
	// CausePoll: found by asking a server that cannot push.
	CausePoll Cause = "poll"
)

// FormatID makes the id of an event.
func FormatID(epoch string, seq uint64) string {
	return epoch + "-" + strconv.FormatUint(seq, 10)
}
