package standardwebhooks

import (
	"context"
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
)

const (
	// Path is the beginning of the paths of all slots.
	Path = "/hooks/"
	// WellKnown is the path of the document that names receivers.
	WellKnown = "/.well-known/mcp-webhook-receiver.json"
	// MaxBody is the largest message, in bytes.
	MaxBody = 256 << 10
)

const (
	tolerance     = 5 * time.Minute // between the clocks of a sender and this machine
	maxID         = 2 << 10         // bytes of webhook-id
	ownerPatience = 5 * time.Second // how long a handler waits until the owner of a slot has taken a message
	perServer     = 16              // messages of one server that are looked at at a time
)

// Receiver receives the messages of subscriptions. See [NewReceiver].
type Receiver struct {
	origin string
	key    Key

	mu      sync.Mutex // guards what follows
	slots   map[string]*Slot
	senders map[string]*sender // by server; those with slots
}

// sender is a server that has slots.
type sender struct {
	// busy has room for perServer: a handler sends before it reads a body, without blocking,
	// and receives after it has answered; it is never closed. It bounds the memory that a
	// server can make the receiver use.
	busy  chan struct{}
	slots int // guarded by the mutex of the receiver
}

// NewReceiver returns a receiver that servers reach at an origin, such as
// "https://hooks.example"; see [CheckOrigin].
func NewReceiver(origin string, key Key) *Receiver {
	return &Receiver{origin: strings.TrimSuffix(origin, "/"), key: key, slots: map[string]*Slot{}, senders: map[string]*sender{}}
}

// CheckOrigin returns an error if servers could not send webhooks to an origin. It must be
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

// Open opens the slot of a subscription to a server; both names are ours, not the server's.
// The slot has the same path each time and a new secret. While an earlier slot for the same
// names is open, Open waits until that is closed. It fails only when ctx ends.
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

// ServeHTTP receives a message below Path. It reads at most MaxBody bytes, and no body of a
// request to a path that is no slot. The answer repeats nothing of a message but its challenge.
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

// identify returns the id and the time of a message. Each of the three headers must be there
// once.
func identify(h http.Header) (id string, at time.Time, ok bool) {
	for _, name := range []string{"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"} {
		if values := h.Values(name); len(values) != 1 || values[0] == "" {
			return "", at, false
		}
	}
	id = h.Get("Webhook-Id")
	seconds, err := strconv.ParseInt(h.Get("Webhook-Timestamp"), 10, 64)
	// A time far away would overflow differences.
	return id, time.Unix(seconds, 0), err == nil && len(id) <= maxID && seconds >= 0 && seconds < 1<<40
}

// receive answers a message whose signature is right: a challenge at once, an event or a
// control message when the owner of the slot has taken it.
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
	if got := q.Header.Values("X-MCP-Subscription-Id"); len(got) != 1 || got[0] != active {
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

// Describe serves the document that names the receiver, at WellKnown.
func (r *Receiver) Describe(w http.ResponseWriter, q *http.Request) {
	if q.Method != http.MethodGet && q.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"receivers":["`+Path+`"]}`+"\n")
}
