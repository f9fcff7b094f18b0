package standardwebhooks

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
)

// Slot is where the messages of one subscription arrive. Its methods are safe for concurrent
// use.
type Slot struct {
	r      *Receiver
	id     string // the last element of its path
	text   string // the secret, as the server gets it
	secret Secret
	server string
	sender *sender

	// messages has no room: handlers send, the owner receives; it is never closed.
	messages chan *Message
	ended    chan struct{} // closed by Close
	end      sync.Once

	mu           sync.Mutex // guards what follows
	subscription string     // the server's id for it; "": the slot is not active
}

// Message is a signed message of a server. The owner of the slot calls Done once.
type Message struct {
	ID   string          // webhook-id: the same for each attempt
	Type string          // of a control message, such as "gap"; "": an event
	Body json.RawMessage // an object

	done chan bool // has room for one: Done sends, the handler receives; it is never closed
}

// Done makes the handler answer the sender: that the message was taken, or, if valid is
// false, that its form is invalid.
func (m *Message) Done(valid bool) { m.done <- valid }

// URL is where the server sends to.
func (s *Slot) URL() string { return s.r.origin + Path + s.id }

// Secret is what the server signs with. It goes into the subscribe request to the server and
// nowhere else.
func (s *Slot) Secret() string { return s.text }

// Redact removes the last element of the URL and the secret from a text of the server.
func (s *Slot) Redact(text string) string {
	return strings.NewReplacer(s.text, "[redacted]", strings.TrimPrefix(s.text, "whsec_"), "[redacted]", s.id, "[redacted]").Replace(text)
}

// Messages returns the channel on which messages arrive while the slot is active. The owner
// must receive promptly: the sender of a message waits for the answer.
func (s *Slot) Messages() <-chan *Message { return s.messages }

// Activate makes the slot take the messages of a subscription, given the server's id for it.
// With "" the slot takes nothing but challenges.
func (s *Slot) Activate(subscription string) {
	s.mu.Lock()
	s.subscription = subscription
	s.mu.Unlock()
}

func (s *Slot) active() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.subscription
}

// Close ends the slot: its path is unknown from now on.
func (s *Slot) Close() {
	s.end.Do(func() {
		s.r.mu.Lock()
		delete(s.r.slots, s.id)
		if s.sender.slots--; s.sender.slots == 0 {
			delete(s.r.senders, s.server)
		}
		s.r.mu.Unlock()
		close(s.ended)
	})
}

// deliver hands a message to the owner. taken is false if that was not possible.
func (s *Slot) deliver(ctx context.Context, m *Message) (valid, taken bool) {
	ctx, cancel := context.WithTimeout(ctx, ownerPatience)
	defer cancel()
	select {
	case s.messages <- m:
	case <-s.ended:
		return false, false
	case <-ctx.Done():
		return false, false
	}
	select {
	case valid = <-m.done:
		return valid, true
	case <-ctx.Done():
		return false, false
	}
}
