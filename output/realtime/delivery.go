package realtime

import (
	"cmp"
	"time"
)

// DeliveryOptions configure how messages are delivered. A zero field means its default.
type DeliveryOptions struct {
	Message MessageOptions
	Queue   QueueOptions
	// Respond asks the model to respond: with one response.create for all waiting messages, never
	// while a response is active, while the user speaks, or between a function call and its
	// output.
	Respond bool
	// AckTimeout is how long the endpoint may take to acknowledge an item before it is sent again;
	// 5 s.
	AckTimeout time.Duration
	// Attempts is how often an item is sent over one working connection before it is abandoned; 3.
	Attempts int
	// Injected is called with the messages of every acknowledged item, and Failed with every
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

// Receipt describes a message that is in a conversation.
type Receipt struct {
	Message
	Session string    // the name of a proxy's session; "" for a [Session]
	At      time.Time // when the endpoint acknowledged the message
	Merged  int       // how many older updates of the resource the message also covers
	// Latency is the time to At from the oldest covered update: from the server's notification,
	// or from the event's time if there was none.
	Latency time.Duration
}

// Failure describes a message that was not added to a conversation. If Message has no ResourceURI,
// the endpoint could not import the tools of the server.
type Failure struct {
	Message
	Session string // as in Receipt
	Reason  string // one line, safe to print
}

// Stats are counts of one session, or of all sessions of a proxy.
type Stats struct {
	Connections uint64 // established
	Sent        uint64 // items, including repetitions
	Injected    uint64 // acknowledged messages
	Failed      uint64 // rejected or abandoned messages
	Merged      uint64 // updates that a later update of the same resource replaced
	Stale       uint64 // updates that were not newer than the last one
	Dropped     uint64 // messages dropped because too many were waiting
	Waiting     int    // messages waiting or in flight
	Open        int    // connected conversations
}

func (s *Stats) add(o Stats) {
	s.Connections += o.Connections
	s.Sent += o.Sent
	s.Injected += o.Injected
	s.Failed += o.Failed
	s.Merged += o.Merged
	s.Stale += o.Stale
	s.Dropped += o.Dropped
	s.Waiting += o.Waiting
	s.Open += o.Open
}
