package sessiontest

import (
	"encoding/json"
	"slices"
	"sync"
	"time"
)

// Message is one message that a client sent.
type Message struct {
	Time   time.Time
	Method string // "" for an answer
	ID     json.RawMessage
	Params json.RawMessage
	Raw    json.RawMessage
	Header map[string]string // HTTP: what a test may want to see
}

// received is what clients have sent.
type received struct {
	mu   sync.Mutex
	wire []Message
}

// Wire returns what clients have sent, in order.
func (r *received) Wire() []Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.wire)
}

// Count returns how many requests or notifications of the method were received.
func (r *received) Count(method string) int {
	n := 0
	for _, m := range r.Wire() {
		if m.Method == method {
			n++
		}
	}
	return n
}

func (r *received) log(m message, raw []byte, header map[string]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wire = append(r.wire, Message{Time: time.Now(), Method: m.Method, ID: m.ID, Params: m.Params, Raw: raw, Header: header})
}

// request records an HTTP request without a message.
func (r *received) request(method string, header map[string]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wire = append(r.wire, Message{Time: time.Now(), Method: method, Header: header})
}
