package realtime

import "time"

// DeliveryOptions are how messages are delivered. A zero field means its default.
type DeliveryOptions struct {
	Message MessageOptions
	Queue   QueueOptions
	// Respond lets the model answer: one response.create after a message, held back
	// and merged while a response is active.
	Respond bool
	// AckTimeout is how long an acknowledgement may take before the message is sent
	// again; 5 s.
	AckTimeout time.Duration
	// Attempts is how often a message is sent over a connection that works before it
	// is given up; 3.
	Attempts int
	// Injected is called for every message that was acknowledged, Failed for every
	// one that was refused or given up.
	Injected func(Receipt)
	Failed   func(Failure)
}

func (o DeliveryOptions) withDefaults() DeliveryOptions {
	if o.AckTimeout <= 0 {
		o.AckTimeout = 5 * time.Second
	}
	if o.Attempts <= 0 {
		o.Attempts = 3
	}
	if o.Injected == nil {
		o.Injected = func(Receipt) {}
	}
	if o.Failed == nil {
		o.Failed = func(Failure) {}
	}
	return o
}

// Receipt tells of a message that is in a conversation.
type Receipt struct {
	Message
	Session string        // which, where there are several
	At      time.Time     // when it was acknowledged
	Latency time.Duration // since the server's notification, or the event's time where that is not known
}

// Failure tells of a message that is not.
type Failure struct {
	Message
	Session string
	Reason  string // one line, safe to print
}

// Stats are counts of one session, or of all that passed a proxy.
type Stats struct {
	Connections uint64 // that were made
	Sent        uint64 // frames with a message, repetitions too
	Injected    uint64 // messages acknowledged
	Failed      uint64 // messages refused, or given up
	Merged      uint64 // updates that a later one of the same resource replaced
	Stale       uint64 // updates that were not newer than what was known
	Dropped     uint64 // messages lost because too many waited
	Waiting     int    // messages that wait now
	Open        int    // conversations that are open now
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
