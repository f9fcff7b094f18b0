package standardwebhooks

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/ipscope"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/secretfile"
)

const (
	// Path begins the paths of all slots.
	Path = "/hooks/"
	// WellKnown is the path of the document that lists receivers.
	WellKnown = "/.well-known/mcp-webhook-receiver.json"
	// SubscriptionHeader has the server's subscription ID.
	SubscriptionHeader = "X-MCP-Subscription-Id"
	// MaxBody is the largest message, in bytes.
	MaxBody = 256 << 10
)

const (
	tolerance     = 5 * time.Minute // between the clocks of a sender and this machine
	maxID         = 2 << 10         // bytes of webhook-id
	ownerPatience = 5 * time.Second // how long a handler waits for the owner of a slot
	perServer     = 16              // concurrent messages of one server
)

// Key is the secret from which a receiver derives the paths of its slots. It cannot be printed.
type Key struct{ bytes []byte }

// NewKey returns a random key.
func NewKey() Key {
	k := Key{make([]byte, secretfile.KeySize)}
	_, _ = rand.Read(k.bytes) // never fails
	return k
}

// LoadKey returns the key in a file, which it creates if there is none; see [secretfile.Key].
func LoadKey(path string) (Key, error) {
	bytes, err := secretfile.Key(path)
	return Key{bytes}, err
}

// String does not reveal the key.
func (k Key) String() string { return "[redacted]" }

// GoString is String.
func (k Key) GoString() string { return k.String() }

// path returns the last element of a slot's path: 128 bits.
func (k Key) path(name string) string {
	h := hmac.New(sha256.New, k.bytes)
	_, _ = h.Write([]byte(name)) // never fails
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Receiver receives the messages of subscriptions. See [NewReceiver].
type Receiver struct {
	origin string
	key    Key

	mu      sync.Mutex // guards all below
	slots   map[string]*Slot
	senders map[string]*sender // servers that have slots
}

// sender is a server that has slots.
type sender struct {
	// busy is a semaphore of capacity perServer, never closed. Handlers try to acquire it before
	// they read a body, and release it after their answer. It limits the memory that a server can
	// make the receiver use.
	busy  chan struct{}
	slots int // guarded by the receiver's lock
}

// NewReceiver returns a receiver that servers reach at an origin, such as "https://hooks.example";
// see [CheckOrigin].
func NewReceiver(origin string, key Key) *Receiver {
	return &Receiver{origin: strings.TrimSuffix(origin, "/"), key: key, slots: map[string]*Slot{}, senders: map[string]*sender{}}
}

// CheckOrigin returns an error if servers could not send webhooks to an origin. The origin must be
// https, on port 443 or above 1023, or http on a loopback address, which only servers that are
// configured for tests accept.
func CheckOrigin(origin string) error {
	u, err := url.Parse(origin)
	shown := printable.Line(origin, 128)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf(`invalid URL %q; expected "https://HOST[:PORT]"`, shown)
	case u.User != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.HasSuffix(origin, "#"):
		return errors.New("specify only scheme, host and port")
	}
	ip, err := netip.ParseAddr(u.Hostname())
	loopback := err == nil && ipscope.LoopbackAddr(ip)
	if u.Scheme == "http" && !loopback {
		return fmt.Errorf("%s is not https: servers send webhooks to https only", shown)
	}
	if port := u.Port(); port != "" && port != "443" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n < 1024 {
			return fmt.Errorf("invalid port %q; servers send webhooks to port 443 and to ports above 1023", printable.Line(port, 16))
		}
	}
	return nil
}

// Open opens the slot of a subscription to a server; both names are ours, not the server's. A slot
// has the same path each time, and a new secret. If the slot is already open, Open waits until it is
// closed. It fails only when ctx ends.
func (r *Receiver) Open(ctx context.Context, server, subscription string) (*Slot, error) {
	name := server + "\x00" + subscription
	id := r.key.path(name)
	secret, text := newSecret()
	s := &Slot{r: r, server: server, id: id, text: text, secret: secret, messages: make(chan *Message), ended: make(chan struct{})}
	for {
		r.mu.Lock()
		before := r.slots[id]
		if before == nil {
			if r.senders[server] == nil {
				r.senders[server] = &sender{busy: make(chan struct{}, perServer)}
			}
			s.sender = r.senders[server]
			s.sender.slots++
			r.slots[id] = s
			r.mu.Unlock()
			return s, nil
		}
		r.mu.Unlock()
		select {
		case <-before.ended:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// ServeHTTP receives a message below Path. It reads at most MaxBody bytes, and no body if the path is
// unknown. The response repeats nothing of a message except its challenge.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	status, answer := r.receive(w, q)
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	switch status {
	case http.StatusMethodNotAllowed:
		h.Set("Allow", http.MethodPost)
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", "1")
	}
	if answer != nil {
		h.Set("Content-Type", "application/json")
	}
	w.WriteHeader(status)
	_, _ = w.Write(answer)
}

func (r *Receiver) receive(w http.ResponseWriter, q *http.Request) (status int, answer []byte) {
	if q.Method != http.MethodPost {
		return http.StatusMethodNotAllowed, nil
	}
	if q.ContentLength > MaxBody {
		return http.StatusRequestEntityTooLarge, nil
	}
	r.mu.Lock()
	slot := r.slots[strings.TrimPrefix(q.URL.Path, Path)]
	r.mu.Unlock()
	if slot == nil {
		return http.StatusNotFound, nil
	}
	if media, _, err := mime.ParseMediaType(q.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return http.StatusUnsupportedMediaType, nil
	}
	id, at, ok := identify(q.Header)
	if !ok {
		return http.StatusBadRequest, nil
	}
	select {
	case slot.sender.busy <- struct{}{}:
		defer func() { <-slot.sender.busy }()
	default:
		return http.StatusServiceUnavailable, nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, q.Body, MaxBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return http.StatusRequestEntityTooLarge, nil
	} else if err != nil {
		return http.StatusBadRequest, nil
	}
	if !slot.secret.signed(body, q.Header) || time.Since(at).Abs() > tolerance {
		return http.StatusUnauthorized, nil
	}
	return slot.receive(q, &Message{ID: id, Body: body, done: make(chan bool, 1)})
}

// identify returns the ID and the time of a message. Each of the three headers must appear once.
func identify(h http.Header) (id string, at time.Time, ok bool) {
	for _, name := range []string{"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"} {
		if values := h.Values(name); len(values) != 1 || values[0] == "" {
			return "", at, false
		}
	}
	id = h.Get("Webhook-Id")
	seconds, err := strconv.ParseInt(h.Get("Webhook-Timestamp"), 10, 64)
	// A distant time would overflow differences.
	return id, time.Unix(seconds, 0), err == nil && len(id) <= maxID && seconds >= 0 && seconds < 1<<40
}

// receive answers a message whose signature is valid: a challenge immediately, an event or a control
// message when the owner of the slot has taken it.
func (s *Slot) receive(q *http.Request, m *Message) (status int, answer []byte) {
	var members map[string]json.RawMessage
	if json.Unmarshal(m.Body, &members) != nil || members == nil {
		return http.StatusBadRequest, nil
	}
	if kind, control := members["type"]; control && (json.Unmarshal(kind, &m.Type) != nil || m.Type == "") {
		return http.StatusBadRequest, nil
	}
	if m.Type == "verification" {
		var challenge string
		if json.Unmarshal(members["challenge"], &challenge) != nil || challenge == "" {
			return http.StatusBadRequest, nil
		}
		answer, _ = json.Marshal(map[string]string{"challenge": challenge}) // a string always encodes
		return http.StatusOK, answer
	}
	active := s.active()
	if active == "" {
		return http.StatusServiceUnavailable, nil
	}
	if got := q.Header.Values(SubscriptionHeader); len(got) != 1 || got[0] != active {
		return http.StatusBadRequest, nil
	}
	switch m.Type {
	case "", "gap", "terminated":
	default:
		return http.StatusNoContent, nil
	}
	valid, taken := s.deliver(q.Context(), m)
	switch {
	case !taken:
		return http.StatusServiceUnavailable, nil
	case !valid:
		return http.StatusBadRequest, nil
	}
	return http.StatusNoContent, nil
}

// Describe serves the document at WellKnown, which lists the receiver.
func (r *Receiver) Describe(w http.ResponseWriter, q *http.Request) {
	if q.Method != http.MethodGet && q.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"receivers":["`+Path+`"]}`+"\n")
}

// Slot is where the messages of one subscription arrive. It is safe for concurrent use.
type Slot struct {
	r      *Receiver
	id     string // the last element of its path
	text   string // the secret, as sent to the server
	secret Secret
	server string
	sender *sender

	messages chan *Message // from handlers to the owner; unbuffered, never closed
	ended    chan struct{} // closed by Close
	end      sync.Once

	mu           sync.Mutex // guards all below
	subscription string     // the server's subscription ID; "": the slot is not active
}

// Message is a signed message from a server. The owner of the slot calls Done once.
type Message struct {
	ID   string          // webhook-id: the same for each attempt
	Type string          // the type of a control message, such as "gap"; "": an event
	Body json.RawMessage // an object

	done chan bool // from Done to the handler; capacity 1, never closed
}

// Done makes the handler answer the sender: the message was taken or, if valid is false, it is
// malformed.
func (m *Message) Done(valid bool) { m.done <- valid }

// URL returns the URL to which the server sends.
func (s *Slot) URL() string { return s.r.origin + Path + s.id }

// Secret returns the secret with which the server signs. It belongs in the subscribe request to the
// server and nowhere else.
func (s *Slot) Secret() string { return s.text }

// Redact removes the last element of the URL and the secret from a text from the server.
func (s *Slot) Redact(text string) string {
	return strings.NewReplacer(s.text, "[redacted]", strings.TrimPrefix(s.text, "whsec_"), "[redacted]", s.id, "[redacted]").Replace(text)
}

// Messages returns the channel on which messages arrive while the slot is active. The owner must
// receive promptly, as the sender waits for the answer.
func (s *Slot) Messages() <-chan *Message { return s.messages }

// Activate makes the slot accept the messages of the subscription with the server's ID. With "" the
// slot accepts only challenges.
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

// Close ends the slot; its path is then unknown.
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

// deliver passes a message to the owner. taken is false if the owner did not take it in time.
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
