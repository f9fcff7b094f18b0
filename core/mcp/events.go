package mcp

import (
	"encoding/json"
	"strings"
)

// ExtensionEvents is the identifier of MCP Events (SEP-3415). The proposal may still change; the
// names and numbers in this file are from its revision 5eb68628.
const ExtensionEvents = "io.modelcontextprotocol/events"

// Notifications of an events/stream.
const (
	NotificationEventsActive     = "notifications/events/active"
	NotificationEventsEvent      = "notifications/events/event"
	NotificationEventsHeartbeat  = "notifications/events/heartbeat"
	NotificationEventsError      = "notifications/events/error"
	NotificationEventsTerminated = "notifications/events/terminated"
)

// EventsNotificationPrefix begins the methods of all the extension's notifications.
const EventsNotificationPrefix = "notifications/events/"

// DeliveryMode is how events reach a client.
type DeliveryMode string

// The modes.
const (
	DeliverPoll    DeliveryMode = "poll"
	DeliverPush    DeliveryMode = "push"
	DeliverWebhook DeliveryMode = "webhook"
)

// EventType describes an event type, as events/list does.
type EventType struct {
	Name          string          `json:"name"`
	Description   string          `json:"description"`
	Delivery      []DeliveryMode  `json:"delivery"`
	InputSchema   json.RawMessage `json:"inputSchema"`
	PayloadSchema json.RawMessage `json:"payloadSchema"`
}

// EventOccurrence is one event. Data is a JSON object. Only push and webhook send Cursor.
type EventOccurrence struct {
	EventID   string          `json:"eventId"`
	Name      string          `json:"name"`
	Timestamp string          `json:"timestamp"`
	Data      json.RawMessage `json:"data"`
	Cursor    string          `json:"cursor"`
}

// EventFailure is an error defined by the extension; its text is the message on the wire.
type EventFailure string

// The failures of the extension.
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

// EventNumbering is one of the two sets of error codes that implementations of MCP Events use.
type EventNumbering string

// The numberings: SEP-3415 calls its codes provisional, and clients that do not declare the
// extension were written for the codes of the sketch that preceded it.
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

// Code returns the error code of a failure in this numbering.
func (n EventNumbering) Code(f EventFailure) int {
	for i, one := range eventFailures() {
		if f == one {
			return n.first() - i
		}
	}
	return CodeInternal
}

// EventFailureOf returns the failure that a server's error means: by its code in either numbering,
// else by its message; "": none.
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
