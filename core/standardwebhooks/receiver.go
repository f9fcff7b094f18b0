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
	// Path is the prefix of every slot's path.
	Path = "/hooks/"
	// WellKnown is the path of the document that describes the receiver.
	WellKnown = "/.well-known/mcp-webhook-receiver.json"
	// SubscriptionHeader is the header that contains the server's subscription id.
	SubscriptionHeader = "X-MCP-Subscription-Id"
	// MaxBody is the maximum size of a message in bytes.
	MaxBody = 256 << 10
)

// Tolerance is the allowed difference between the time of a message and this machine's clock.
const Tolerance = 5 * time.Minute

const (
	maxID         = 2 << 10         // maximum bytes of the webhook-id header
	ownerPatience = 5 * time.Second // how long a handler waits for the slot's owner
	perServer     = 16              // maximum concurrent messages per server
)

// Key is the secret from which a receiver derives the paths of its slots. Printing it does not
// reveal it.
type Key struct{ bytes []byte }

// NewKey returns a random key.
func NewKey() Key {
	k := Key{make([]byte, secretfile.KeySize)}
	_, _ = rand.Read(k.bytes) // never fails
	return k
}

// LoadKey returns the key stored in a file, and creates the file if it does not exist; see
// [secretfile.Key].
func LoadKey(path string) (Key, error) {
	bytes, err := secretfile.Key(path)
	return Key{bytes}, err
}

// String returns a placeholder, so that printing does not reveal the key.
func (k Key) String() string { return "[redacted]" }

// GoString returns the same placeholder as String.
func (k Key) GoString() string { return k.String() }

// path returns the last element of a slot's path, derived from the key and the slot's name. It has
// 128 bits.
func (k Key) path(name string) string {
	h := hmac.New(sha256.New, k.bytes)
	_, _ = h.Write([]byte(name)) // never fails
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Receiver is an HTTP handler that receives webhook messages for subscriptions. Use [NewReceiver]
// to create it.
type Receiver struct {
	origin string
	key    Key

	mu      sync.Mutex // guards the fields below
	slots   map[string]*Slot
	senders map[string]*sender // servers that have open slots
}

// sender is a server that has open slots.
type sender struct {
	// busy is a semaphore that limits the memory that a server can make the receiver use. Handlers
	// try to acquire it before they read a body, and release it after they respond. It has capacity
	// perServer and is never closed.
	busy  chan struct{}
	slots int // number of slots; guarded by Receiver.mu
}

// NewReceiver returns a Receiver that servers can reach at origin, such as "https://hooks.example";
// see [CheckOrigin].
func NewReceiver(origin string, key Key) *Receiver {
	return &Receiver{origin: strings.TrimSuffix(origin, "/"), key: key, slots: map[string]*Slot{}, senders: map[string]*sender{}}
}

// CheckOrigin returns an error if servers could not send webhooks to the origin. The origin must
// use https, on port 443 or a port above 1023, or http on a loopback address. Only servers
// configured for tests accept the latter.
func CheckOrigin(origin string) error {
	u, err := url.Parse(origin)
	shown := printable.Line(origin, 128)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf(`invalid URL %q; expected "https://HOST[:PORT]"`, shown)
	case u.User != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.HasSuffix(origin, "#"):
		return errors.New("specify only the scheme, host and port")
	}
	ip, err := netip.ParseAddr(u.Hostname())
	loopback := err == nil && ipscope.LoopbackAddr(ip)
	if u.Scheme == "http" && !loopback {
		return fmt.Errorf("%s does not use https; servers send webhooks only to https URLs", shown)
	}
	if port := u.Port(); port != "" && port != "443" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n < 1024 {
			return fmt.Errorf("invalid port %q; servers send webhooks to port 443 and to ports above 1023", printable.Line(port, 16))
		}
	}
	return nil
}

// Open opens the slot for a subscription to a server. Both names are chosen by the caller, not by
// the server. A slot has the same path each time it is opened, but a new secret. If the slot is
// already open, Open waits until it is closed. It returns an error only if ctx is done.
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

// ServeHTTP receives a message whose path starts with Path. It reads at most MaxBody bytes, and no
// body if the path is unknown. The response contains nothing from the message except its challenge.
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
	id, at, ok := Identify(q.Header)
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
	if !slot.secret.Signed(body, q.Header) || !Recent(at) {
		return http.StatusUnauthorized, nil
	}
	return slot.receive(q, &Message{ID: id, Body: body, done: make(chan bool, 1)})
}

// Identify returns the id and time that the headers of a message claim. Each of the three headers must
// occur exactly once.
func Identify(h http.Header) (id string, at time.Time, ok bool) {
	h = Headers(h)
	for _, name := range []string{"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"} {
		if values := h.Values(name); len(values) != 1 || values[0] == "" {
			return "", at, false
		}
	}
	id = h.Get("Webhook-Id")
	at, ok = ParseTime(h.Get("Webhook-Timestamp"))
	return id, at, ok && len(id) <= maxID
}

// Headers returns headers in which the names of Svix, svix-id and so on, are replaced by the standard names. Headers
// with one of the standard names are returned unchanged.
func Headers(h http.Header) http.Header {
	names := [][2]string{{"Webhook-Id", "Svix-Id"}, {"Webhook-Timestamp", "Svix-Timestamp"}, {"Webhook-Signature", "Svix-Signature"}}
	out := http.Header{}
	for _, name := range names {
		if len(h.Values(name[0])) > 0 {
			return h
		}
		out[name[0]] = h.Values(name[1])
	}
	return out
}

// ParseTime parses the time in the header of a signed message: seconds since 1970.
func ParseTime(text string) (at time.Time, ok bool) {
	seconds, err := strconv.ParseInt(text, 10, 64)
	// A time in the distant future would overflow when times are subtracted.
	return time.Unix(seconds, 0), err == nil && seconds >= 0 && seconds < 1<<40
}

// Recent reports whether the time of a message is within Tolerance of this machine's clock.
func Recent(at time.Time) bool { return time.Since(at).Abs() <= Tolerance }

// receive responds to a message whose signature is valid: to a challenge immediately, and to an
// event or control message once the slot's owner has accepted it.
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
		answer, _ = json.Marshal(map[string]string{"challenge": challenge}) // encoding a string never fails
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

// Describe serves the document at WellKnown, which describes the receiver.
func (r *Receiver) Describe(w http.ResponseWriter, q *http.Request) {
	if q.Method != http.MethodGet && q.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"receivers":["`+Path+`"]}`+"\n")
}

// Slot receives the messages for one subscription. It is safe for concurrent use.
type Slot struct {
	r      *Receiver
	id     string // last element of the slot's path
	text   string // the secret in the form that is sent to the server
	secret Secret
	server string
	sender *sender

	messages chan *Message // carries messages from handlers to the owner; unbuffered, never closed
	ended    chan struct{} // closed by Close
	end      sync.Once

	mu           sync.Mutex // guards the fields below
	subscription string     // the server's subscription id; empty while the slot is inactive
}

// Message is a signed message from a server. The slot's owner must call Done exactly once.
type Message struct {
	ID   string          // the webhook-id header; the same for each delivery attempt
	Type string          // type of a control message, such as "gap"; empty for an event
	Body json.RawMessage // a JSON object

	done chan bool // carries Done's result to the handler; capacity 1, never closed
}

// Done makes the handler respond to the sender. If valid is true, the message was accepted;
// otherwise it is malformed.
func (m *Message) Done(valid bool) { m.done <- valid }

// URL returns the URL to which the server must send messages.
func (s *Slot) URL() string { return s.r.origin + Path + s.id }

// Secret returns the secret with which the server must sign messages. It must be sent only to the
// server, in the subscribe request.
func (s *Slot) Secret() string { return s.text }

// Redact removes the slot's secret, and the last element of its URL, from a text that the server
// sent.
func (s *Slot) Redact(text string) string {
	return strings.NewReplacer(s.text, "[redacted]", strings.TrimPrefix(s.text, "whsec_"), "[redacted]", s.id, "[redacted]").Replace(text)
}

// Messages returns the channel on which messages arrive while the slot is active. The owner must
// receive promptly, because the sender is waiting for the response.
func (s *Slot) Messages() <-chan *Message { return s.messages }

// Activate makes the slot accept messages for the subscription with the given id, which the server
// assigned. If the id is empty, the slot accepts only challenges.
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

// Close closes the slot. Its path is then unknown to the receiver.
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

// deliver passes a message to the owner. taken is false if the owner did not respond in time.
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
