package realtime

import (
	"cmp"
	"time"

	"github.com/mcptrack/mcptrack/core/tracing"
)

// DeliveryOptions configures how messages are delivered. Zero fields have their defaults.
type DeliveryOptions struct {
	Message MessageOptions
	Queue   QueueOptions
	// Respond asks the model to respond, with one response.create for all waiting messages. It
	// never does so while a response is active, while the user is speaking, or between a function
	// call and its output.
	Respond bool
	// AckTimeout is how long to wait for the endpoint to acknowledge an item before it is sent
	// again. The default is 5 s.
	AckTimeout time.Duration
	// Attempts limits how often an item is sent over one working connection before it is abandoned.
	// The default is 3.
	Attempts int
	// Tracer records a span for every message that was added, from the update to its acknowledgement.
	// Nil records nothing.
	Tracer *tracing.Tracer
	// Injected is called with the messages in every acknowledged item, and Failed with every
	// message that was rejected or abandoned. Either may be nil.
	Injected func([]Receipt)
	Failed   func(Failure)
}

func (o DeliveryOptions) withDefaults() DeliveryOptions {
	o.AckTimeout, o.Attempts = cmp.Or(o.AckTimeout, 5*time.Second), cmp.Or(o.Attempts, 3)
	if o.Injected == nil {
		o.Injected = func([]Receipt) {}
	}
	if o.Failed == nil {
		o.Failed = func(Failure) {}
	}
	return o
}

// Receipt describes a message that was added to a conversation.
type Receipt struct {
	Message
	Session string    // name of a proxy's session; empty for a [Session]
	At      time.Time // when the endpoint acknowledged the message
	Merged  int       // number of older updates of the resource that the message also covers
	// Latency is the time from the oldest covered update to At. It starts when the server's
	// notification arrived or, if that is unknown, at the event's time.
	Latency time.Duration
}

// Failure describes a message that was not added to a conversation.
type Failure struct {
	Message
	Session string // see Receipt.Session
	Reason  string // one printable line
}

// Stats contains the counts of a session.
type Stats struct {
	Connections uint64 // connections established
	Injected    uint64 // messages acknowledged
	Failed      uint64 // messages rejected or abandoned
	Merged      uint64 // updates replaced by a later update of the same resource
	Dropped     uint64 // messages dropped because too many were waiting
	Waiting     int    // messages pending or in flight
}
