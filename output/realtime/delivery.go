package realtime

import "time"

// DeliveryOptions configure how messages are delivered. A zero field means its default.
type DeliveryOptions struct {
	Message MessageOptions
	Queue   QueueOptions
	// Respond asks the model to respond: with one response.create for everything that
	// waits, never while a response is active, while the user speaks, or between a
	// function call and its output.
	Respond bool
	// AckTimeout is how long the endpoint may take to acknowledge an item before the item is
	// sent again; 5 s.
	AckTimeout time.Duration
	// Attempts is how often an item is sent over one connection that works before the item
	// is given up; 3.
	Attempts int
	// Injected is called with the messages of every item that was acknowledged, Failed with
	// every message that was rejected or given up. Either may be nil.
	Injected func([]Receipt)
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
	Session string    // the name of the session of a proxy; "" for a [Session]
	At      time.Time // when the endpoint acknowledged the message
	Merged  int       // how many older updates of the resource the message covers besides its own
	// Latency is the time to At from the oldest of these updates: from the server's
	// notification of it, or from the event's time if there was none.
	Latency time.Duration
}

// Failure describes a message that was not added to a conversation. If Message has no
// ResourceURI, the failure is that the endpoint could not import the tools of the server.
type Failure struct {
	Message
	Session string // as in Receipt
	Reason  string // one line, safe to print
}

// Stats are counts of one session, or of all sessions of a proxy.
type Stats struct {
	Connections uint64 // established
	Sent        uint64 // items, repetitions included
	Injected    uint64 // messages acknowledged
	Failed      uint64 // messages rejected or given up
	Merged      uint64 // updates that a later one of the same resource replaced
	Stale       uint64 // updates that were not newer than the last one
	Dropped     uint64 // messages dropped since too many waited
	Waiting     int    // messages that wait or are in flight
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

func (c *conversation) snapshot() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Failed = c.hooks.failed
	s.Merged, s.Stale, s.Dropped = c.queue.merged, c.queue.stale, c.queue.dropped
	s.Waiting = len(c.queue.waiting)
	if c.flight != nil {
		s.Waiting += len(c.flight.batch)
	}
	return s
}
