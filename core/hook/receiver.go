package hook

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/ipscope"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/standardwebhooks"
)

const (
	// Path is the prefix of the hooks' paths: a hook receives messages at Path + ID.
	Path = standardwebhooks.Path
	// MaxBody is the maximum size of a message in bytes.
	MaxBody = 1 << 20

	maxMemory = 16 << 20  // bytes of memory for the bodies of one hook
	minMemory = 4<<10 + 1 // bytes that a body has at first; quadrupled four times, they are enough for MaxBody

	perSecond = 20  // accepted messages of one hook
	burst     = 200 // accepted messages of one hook after a pause
	maxText   = 200 // bytes of a header that is published
	// warnEvery is the minimum time between two warnings about refused messages to one hook.
	warnEvery = time.Minute
)

// Delivery is a message that was accepted.
type Delivery struct {
	// Hooks are the hooks that it was signed for. There is more than one only if several configs of the
	// daemon have a hook with the same id and secret.
	Hooks       []config.Hook
	ID          string // the sender's id of the message, safe to print; empty if it has none
	ContentType string // safe to print
	Body        []byte
}

// Options configure a [Receiver].
type Options struct {
	// Deliver takes an accepted message. It is called before the sender is answered, by several
	// goroutines, and must return immediately.
	Deliver func(Delivery)
	// Next serves the paths below Path that belong to no hook; nil means that they are not found.
	Next http.Handler
	// Logger receives a warning about refused messages, at most every minute for each hook; nil
	// discards it.
	Logger *slog.Logger
}

// A Receiver is the HTTP handler for the hooks of a config. It is safe for concurrent use.
type Receiver struct {
	opts Options

	mu        sync.Mutex // guards endpoints
	endpoints map[string]*endpoint
}

// NewReceiver returns a receiver without hooks.
func NewReceiver(opts Options) *Receiver {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Receiver{opts: opts, endpoints: map[string]*endpoint{}}
}

// endpoint receives the messages to one id.
type endpoint struct {
	hooks []config.Hook // replaced, never modified; guarded by Receiver.mu

	mu      sync.Mutex // guards the fields below
	bodies  []*reading // that are in memory, oldest first
	size    int        // of bodies, at most maxMemory
	limit   *rate.Limiter
	memory  memory
	counts  map[Outcome]uint64
	last    time.Time // when a message was last accepted
	warned  time.Time // when a warning was last logged
	refused int       // messages that were refused since then
}

// Outcome is what became of a message.
type Outcome string

// The outcomes of a message. Only an accepted one has an effect.
const (
	Accepted     Outcome = "accepted"
	Replayed     Outcome = "replayed"     // it was accepted before
	Forged       Outcome = "forged"       // no secret of the hook made the signature
	Late         Outcome = "late"         // its time differs too much from this machine's clock
	Malformed    Outcome = "malformed"    // headers are missing, duplicate or malformed, or the body did not arrive
	TooLarge     Outcome = "too_large"    // the body has more than MaxBody bytes
	Limited      Outcome = "limited"      // too many messages
	Unconfigured Outcome = "unconfigured" // the hook lacks something on this machine, or its approval
)

// Outcomes returns all outcomes.
func Outcomes() []Outcome {
	return []Outcome{Accepted, Replayed, Forged, Late, Malformed, TooLarge, Limited, Unconfigured}
}

// Apply replaces the hooks. Hooks that keep their id keep their counts and the messages that they
// remember.
func (r *Receiver) Apply(hooks []config.Hook) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.endpoints
	r.endpoints = map[string]*endpoint{}
	for _, h := range hooks {
		e := r.endpoints[h.ID]
		if e == nil {
			if e = before[h.ID]; e == nil {
				e = &endpoint{limit: rate.NewLimiter(perSecond, burst), counts: map[Outcome]uint64{}}
			}
			e.hooks = nil
			r.endpoints[h.ID] = e
		}
		e.hooks = append(slices.Clip(e.hooks), h)
	}
}

// ServeHTTP receives a message at Path + ID.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	e := r.endpoints[strings.TrimPrefix(q.URL.Path, Path)]
	var hooks []config.Hook
	if e != nil {
		hooks = e.hooks
	}
	r.mu.Unlock()
	if e == nil && r.opts.Next != nil {
		r.opts.Next.ServeHTTP(w, q)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	switch {
	case e == nil:
		answer(w, http.StatusNotFound)
	case q.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		answer(w, http.StatusMethodNotAllowed)
	default:
		r.receive(w, q, e, hooks)
	}
}

// receive answers a message to an endpoint, and counts it.
func (r *Receiver) receive(w http.ResponseWriter, q *http.Request, e *endpoint, hooks []config.Hook) {
	outcome, wait, challenge := e.accept(w, q, hooks, r.opts.Deliver)
	if warn, n := e.count(outcome, time.Now()); warn {
		r.opts.Logger.Warn("messages to a hook are refused", "hook", hooks[0].ID, "why", string(outcome), "messages", n)
	}
	switch outcome {
	case Accepted, Replayed:
		if challenge == nil {
			answer(w, http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		body, _ := json.Marshal(map[string]string{"challenge": *challenge}) // encoding a string never fails
		_, _ = w.Write(body)
	case TooLarge:
		answer(w, http.StatusRequestEntityTooLarge)
	case Limited:
		status := http.StatusTooManyRequests
		if wait == 0 {
			status = http.StatusServiceUnavailable // too many at this moment
		}
		w.Header().Set("Retry-After", strconv.Itoa(max(1, int(wait/time.Second))))
		answer(w, status)
	case Unconfigured:
		w.Header().Set("Retry-After", "60")
		answer(w, http.StatusServiceUnavailable)
	default: // one answer, whatever is wrong with the signature
		answer(w, http.StatusUnauthorized)
	}
}

// answer answers without a body. The connection is closed after a refusal, because the request's body
// may not have been read.
func answer(w http.ResponseWriter, status int) {
	if status >= 400 {
		w.Header().Set("Connection", "close")
	}
	w.WriteHeader(status)
}

// accept checks a message and delivers it. wait is how long the sender should wait if the message is
// Limited, and 0 if that is unknown. challenge is to be answered instead of delivering the message.
func (e *endpoint) accept(w http.ResponseWriter, q *http.Request, hooks []config.Hook, deliver func(Delivery)) (_ Outcome, wait time.Duration, challenge *string) {
	hooks = slices.DeleteFunc(slices.Clone(hooks), func(h config.Hook) bool { return len(h.Missing) > 0 || len(h.Secrets) == 0 })
	if len(hooks) == 0 {
		return Unconfigured, 0, nil
	}
	if q.ContentLength > MaxBody {
		drop(q)
		return TooLarge, 0, nil
	}
	outcome := Malformed
	var all []claim
	hooks = slices.DeleteFunc(hooks, func(h config.Hook) bool {
		c, ok := claims(q.Header, &h)
		switch {
		case !ok:
			return true
		case !c.at.IsZero() && !standardwebhooks.Recent(c.at):
			outcome = Late
			return true
		}
		all = append(all, c)
		return false
	})
	if len(hooks) == 0 {
		return outcome, 0, nil
	}
	slot := e.admit(w, q)
	defer e.leave(slot)
	body, err := e.read(slot, http.MaxBytesReader(w, q.Body, MaxBody))
	switch _, large := errors.AsType[*http.MaxBytesError](err); {
	case large:
		drop(q)
		return TooLarge, 0, nil
	case errors.Is(err, errNoRoom), errors.Is(err, os.ErrDeadlineExceeded):
		return Limited, 0, nil
	case err != nil:
		return Malformed, 0, nil
	}
	var of *claim
	d := Delivery{ContentType: printable.Line(q.Header.Get("Content-Type"), maxText), Body: body}
	for i := range hooks {
		if all[i].signed(q.Header, body, &hooks[i]) {
			of = cmp.Or(of, &all[i])
			d.Hooks = append(d.Hooks, hooks[i])
		}
	}
	if of == nil {
		return Forged, 0, nil
	}
	id, challenge := inBody(body, d.Hooks[0].Verify)
	if challenge != nil {
		return Accepted, 0, challenge
	}
	id = cmp.Or(of.id, id)
	outcome, wait = e.remember(keysOf(of, id, body), d.Hooks[0].Verify)
	if outcome == Accepted {
		d.ID = printable.Line(id, maxText)
		deliver(d)
	}
	return outcome, wait, nil
}

// drop reads the rest of a body that is too large, unless it is much too large: many senders read the
// answer only after they have sent everything.
func drop(q *http.Request) {
	_, _ = io.CopyN(io.Discard, q.Body, MaxBody+1)
}

// reading is the right to have one body in memory.
type reading struct {
	from netip.Prefix
	size int                 // bytes of memory; 0 after it was given up
	w    http.ResponseWriter // of the request that the body belongs to
}

// errNoRoom is the error of a body that was given up for others.
var errNoRoom = errors.New("there is no memory for the body")

// admit returns the right to read a body. The caller must call leave.
func (e *endpoint) admit(w http.ResponseWriter, q *http.Request) *reading {
	addr, _ := netip.ParseAddrPort(q.RemoteAddr)
	b := &reading{from: ipscope.Network(addr.Addr()), w: w}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.bodies = append(e.bodies, b)
	e.resize(b, minMemory)
	return b
}

// read reads a body. It returns errNoRoom if the body was given up.
func (e *endpoint) read(b *reading, r io.Reader) ([]byte, error) {
	body := make([]byte, 0, minMemory)
	for {
		if len(body) == cap(body) {
			more := min(4*cap(body), MaxBody+1)
			if !e.grow(b, more) {
				return nil, errNoRoom
			}
			body = append(make([]byte, 0, more), body...)
		}
		n, err := r.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case errors.Is(err, io.EOF):
			return body, nil
		case err != nil:
			return nil, err
		}
	}
}

// grow gives a body more memory. It returns false if the body was given up.
func (e *endpoint) grow(b *reading, size int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if b.size > 0 {
		e.resize(b, size)
	}
	return b.size > 0
}

// resize sets the size of a body. If there is no memory, it gives up the largest bodies of the address
// whose bodies are the largest together, so that whoever sends slowly keeps nobody else out. e.mu must be
// held.
func (e *endpoint) resize(b *reading, size int) {
	e.size += size - b.size
	b.size = size
	for e.size > maxMemory {
		of := map[netip.Prefix]int{}
		for _, o := range e.bodies {
			of[o.from] += o.size
		}
		victim := slices.MaxFunc(e.bodies, func(a, b *reading) int {
			return cmp.Or(of[a.from]-of[b.from], strings.Compare(a.from.String(), b.from.String()), a.size-b.size)
		})
		_ = http.NewResponseController(victim.w).SetReadDeadline(time.Now()) // otherwise its next grow fails
		e.release(victim)
	}
}

// leave gives up the right. The request must not have ended.
func (e *endpoint) leave(b *reading) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.release(b)
}

// release gives up a body, unless it was given up before. e.mu must be held.
func (e *endpoint) release(b *reading) {
	if i := slices.Index(e.bodies, b); i >= 0 {
		e.bodies = slices.Delete(e.bodies, i, i+1)
		e.size -= b.size
		b.size = 0
	}
}

// remember decides whether a verified message is new and may be accepted now.
func (e *endpoint) remember(keys []key, v config.HookScheme) (_ Outcome, wait time.Duration) {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.memory.knows(keys, now):
		return Replayed, 0
	case e.limit.TokensAt(now) < 1:
		return Limited, time.Second
	case !e.memory.add(keys, v, now):
		return Limited, max(e.memory.wait(now), time.Second)
	}
	e.limit.AllowN(now, 1)
	e.last = now
	return Accepted, 0
}

// count counts a message. It reports whether to warn, and how many messages were refused since the
// last warning.
func (e *endpoint) count(o Outcome, now time.Time) (warn bool, refused int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.counts[o]++
	if o == Accepted || o == Replayed {
		return false, 0
	}
	e.refused++
	if !e.warned.IsZero() && now.Sub(e.warned) < warnEvery {
		return false, 0
	}
	refused, e.refused, e.warned = e.refused, 0, now
	return true, refused
}

// Status describes a hook.
type Status struct {
	ID     string            `json:"id"`
	Verify config.HookScheme `json:"verify"`
	// Messages counts the messages of this run by outcome.
	Messages map[Outcome]uint64 `json:"messages"`
	// LastReceived is when a message was last accepted; empty if none was.
	LastReceived string `json:"lastReceived,omitempty"`
	// Missing says what the hook needs, if it accepts nothing.
	Missing []string `json:"missing,omitempty"`
}

// Status returns the state of all hooks, sorted by id.
func (r *Receiver) Status() []Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := []Status{}
	for _, id := range slices.Sorted(maps.Keys(r.endpoints)) {
		e := r.endpoints[id]
		all = append(all, e.status(id, e.hooks[0]))
	}
	return all
}

func (e *endpoint) status(id string, h config.Hook) Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := Status{ID: id, Verify: h.Verify, Messages: map[Outcome]uint64{}, Missing: h.Missing}
	maps.Copy(s.Messages, e.counts)
	if !e.last.IsZero() {
		s.LastReceived = e.last.UTC().Format(event.TimeFormat)
	}
	return s
}
