package mcp

import (
	"encoding/json"
	"strings"
)

// ExtensionEvents identifies the MCP Events extension (SEP-3415). The proposal may still change;
// the names and codes in this file follow its revision 5eb68628.
const ExtensionEvents = "io.modelcontextprotocol/events"

// Notifications on an events/stream.
const (
	NotificationEventsActive     = "notifications/events/active"
	NotificationEventsEvent      = "notifications/events/event"
	NotificationEventsHeartbeat  = "notifications/events/heartbeat"
	NotificationEventsError      = "notifications/events/error"
	NotificationEventsTerminated = "notifications/events/terminated"
)

// EventsNotificationPrefix is the common prefix of all notification methods of the extension.
const EventsNotificationPrefix = "notifications/events/"

// DeliveryMode specifies how events reach a client.
type DeliveryMode string

// The delivery modes.
const (
	DeliverPoll    DeliveryMode = "poll"
	DeliverPush    DeliveryMode = "push"
	DeliverWebhook DeliveryMode = "webhook"
)

// EventType describes an event type in the result of events/list.
type EventType struct {
	Name          string          `json:"name"`
	Description   string          `json:"description"`
	Delivery      []DeliveryMode  `json:"delivery"`
	InputSchema   json.RawMessage `json:"inputSchema"`
	PayloadSchema json.RawMessage `json:"payloadSchema"`
}

// EventOccurrence is one event. Data is a JSON object. Cursor is sent only with the push and
// webhook delivery modes.
type EventOccurrence struct {
	EventID   string          `json:"eventId"`
	Name      string          `json:"name"`
	Timestamp string          `json:"timestamp"`
	Data      json.RawMessage `json:"data"`
	Cursor    string          `json:"cursor"`
}

// EventFailure is an error defined by the MCP Events extension. Its text is sent as the error
// message.
type EventFailure string

// The errors that the MCP Events extension defines.
const (
	EventNotFound              EventFailure = "NotFound"
	EventForbidden             EventFailure = "Forbidden"
	EventResourceExhausted     EventFailure = "ResourceExhausted"
	EventUnsupported           EventFailure = "Unsupported"
	EventCallbackEndpointError EventFailure = "CallbackEndpointError"
)

func eventFailures() []EventFailure {
	return []EventFailure{EventNotFound, EventForbidden, EventResourceExhausted, EventUnsupported, EventCallbackEndpointError}
}

// EventNumbering identifies one of the two sets of error codes that implementations of MCP Events
// use.
type EventNumbering string

// SEP-3415 calls its error codes provisional. Clients that do not declare the extension were
// written for the codes of the sketch that preceded it.
const (
	EventNumberingSEP    EventNumbering = "sep"
	EventNumberingSketch EventNumbering = "sketch"
)

func (n EventNumbering) first() int {
	if n == EventNumberingSEP {
		return -32023
	}
	return -32011
}

// Code returns the error code for a failure in this numbering.
func (n EventNumbering) Code(f EventFailure) int {
	for i, one := range eventFailures() {
		if f == one {
			return n.first() - i
		}
	}
	return CodeInternal
}

// EventFailureOf returns the failure that matches a server's error: by its code in either
// numbering, or otherwise by its message. It returns an empty string if nothing matches.
func EventFailureOf(code int, message string) EventFailure {
	for _, f := range eventFailures() {
		if code == EventNumberingSEP.Code(f) || code == EventNumberingSketch.Code(f) {
			return f
		}
	}
	for _, f := range eventFailures() {
		if strings.EqualFold(message, string(f)) {
			return f
		}
	}
	return ""
}
