package realtime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/coder/websocket"

	"github.com/mcptrack/mcptrack/core/event"
)

// ProxyOptions are how a proxy passes sessions on. A zero field means its default.
type ProxyOptions struct {
	// Upstream is the endpoint. A client's query is added to its URL; its path counts
	// only when the URL has none. Its Header replaces what the client sent under the
	// same names.
	Upstream Endpoint
	Delivery DeliveryOptions
	// MaxSessions is how many may be open; 1,024. Further ones get 503.
	MaxSessions int
	// Logger gets sessions at info and failures at warn; nil discards.
	Logger *slog.Logger
}

// Proxy is an [http.Handler] that connects every WebSocket client to the endpoint
// and puts messages into each conversation that passes. It does not ask who its
// clients are: that is for the server that has it.
//
// Messages of both sides pass as they are, text and binary, in order, at the pace
// of who reads them; how they are cut into frames may change, and the two
// connections have pings and compression (none) of their own. Headers that are not
// about one connection, subprotocols, refusals and close codes pass, too. A
// connection that breaks off breaks the other off.
//
// What a client sees of the injection is what is true of its conversation: the
// events about items and responses that it did not ask for. Only errors that name
// an event of ours are kept from it: it would take them for its own.
type Proxy struct {
	opts    ProxyOptions
	url     *url.URL
	anyPath bool // of the client
	log     *slog.Logger
	buffers sync.Pool // of *[peekSize]byte, for the messages under way
	count   atomic.Uint64

	mu       sync.Mutex // guards the rest
	sessions map[*passing]struct{}
	closing  bool
	handlers sync.WaitGroup // grows only while not closing
	past     Stats          // of sessions that are over
}

// NewProxy checks the options; its errors are of type *[OptionError].
func NewProxy(o ProxyOptions) (*Proxy, error) {
	if err := o.Upstream.Check(); err != nil {
		return nil, err
	}
	if err := o.Delivery.Message.check(); err != nil {
		return nil, &OptionError{"role", err.Error()}
	}
	if o.MaxSessions <= 0 {
		o.MaxSessions = 1024
	}
	if o.Delivery.Queue.Remember <= 0 {
		o.Delivery.Queue.Remember = 2048 // for each session
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	u, err := o.Upstream.parse()
	if err != nil {
		return nil, err
	}
	given, err := url.Parse(o.Upstream.URL)
	p := &Proxy{
		opts: o, url: u, log: o.Logger, sessions: map[*passing]struct{}{},
		anyPath: err == nil && o.Upstream.URL != "" && strings.Trim(given.Path, "/") == "",
	}
	p.buffers.New = func() any { return new([peekSize]byte) }
	return p, nil
}

// Offer takes an event for all sessions that are open, and returns at once.
func (p *Proxy) Offer(e *event.Event) {
	m, err := NewMessage(e, p.opts.Delivery.Message)
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.sessions {
		s.talk.take(m)
	}
}

// Stats returns the counts of all sessions.
func (p *Proxy) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.past
	for s := range p.sessions {
		st := s.talk.snapshot()
		st.Open = 1
		all.add(st)
	}
	return all
}

// Shutdown ends all sessions with the close code 1001 and lets none begin any
// more. It returns when the last is over, or with the cause of ctx.
func (p *Proxy) Shutdown(ctx context.Context) error {
	p.mu.Lock()
	p.closing = true
	for s := range p.sessions {
		s.leave()
	}
	p.mu.Unlock()
	over := make(chan struct{})
	go func() { // ends with the last handler, each of which is bounded
		defer close(over)
		p.handlers.Wait()
	}()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("sessions are still open: %w", context.Cause(ctx))
	}
}

// admit gives a session its place, nil if there is none.
func (p *Proxy) admit() *passing {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing || len(p.sessions) >= p.opts.MaxSessions {
		return nil
	}
	s := &passing{proxy: p, left: make(chan struct{}), name: fmt.Sprint(p.count.Add(1))}
	s.talk = newConversation(s.name, p.opts.Delivery)
	p.sessions[s] = struct{}{}
	p.handlers.Add(1)
	return s
}

func (p *Proxy) forget(s *passing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.sessions, s)
	st := s.talk.snapshot()
	st.Waiting = 0
	p.past.add(st)
	p.handlers.Done()
}

// ServeHTTP implements [http.Handler]. It returns when the session is over.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		w.Header().Set("Upgrade", "websocket")
		w.Header().Set("Connection", "Upgrade")
		http.Error(w, "only WebSocket connections pass here", http.StatusUpgradeRequired)
		return
	}
	s := p.admit()
	if s == nil {
		w.Header().Set("Retry-After", "5")
		http.Error(w, "too many sessions, or shutting down", http.StatusServiceUnavailable)
		return
	}
	defer p.forget(s)
	upstream, res, err := p.dial(r)
	if err != nil {
		p.log.Warn("a session was not taken", "session", s.name, "endpoint", p.opts.Upstream.Address(), "err", oneLine(err))
		refuse(w, res)
		return
	}
	client, err := p.accept(w, r, upstream, res)
	if err != nil {
		p.log.Warn("a client could not be connected", "session", s.name, "err", oneLine(err))
		_ = upstream.CloseNow()
		return
	}
	p.log.Info("session began", "session", s.name, "endpoint", p.opts.Upstream.Address())
	err = s.run(r.Context(), client, upstream)
	st := s.talk.snapshot()
	p.log.Info("session ended", "session", s.name, "err", oneLine(err), "injected", st.Injected, "failed", st.Failed)
}

// dial makes the client's handshake with the endpoint.
func (p *Proxy) dial(r *http.Request) (*peer, *http.Response, error) {
	u := *p.url
	if p.anyPath && r.URL.Path != "/" {
		u.Path, u.RawPath = r.URL.Path, r.URL.RawPath
	}
	if q := r.URL.RawQuery; q != "" && u.RawQuery == "" {
		u.RawQuery = q
	} else if q != "" {
		u.RawQuery = replaced(r.URL.Query(), u.Query(), q)
	}
	header := http.Header{}
	endToEnd(header, r.Header)
	for name, values := range p.opts.Upstream.Header {
		header[http.CanonicalHeaderKey(name)] = values
	}
	if _, ok := header["User-Agent"]; !ok {
		header["User-Agent"] = []string{""} // none, rather than Go's
	}
	var offered []string
	for _, line := range r.Header.Values("Sec-WebSocket-Protocol") {
		for name := range strings.SplitSeq(line, ",") {
			offered = append(offered, strings.TrimSpace(name))
		}
	}
	return p.opts.Upstream.dial(r.Context(), &u, header, offered)
}

// accept makes the endpoint's handshake with the client.
func (p *Proxy) accept(w http.ResponseWriter, r *http.Request, upstream *peer, res *http.Response) (*peer, error) {
	endToEnd(w.Header(), res.Header)
	var chosen []string
	if name := upstream.Subprotocol(); name != "" {
		chosen = []string{name}
	}
	spy := &spyWriter{w, new(atomic.Bool)}
	conn, err := websocket.Accept(spy, r, &websocket.AcceptOptions{
		Subprotocols:       chosen,
		InsecureSkipVerify: true, // the server has looked at Origin, as at everything else
	})
	if err != nil {
		return nil, err
	}
	limit := p.opts.Upstream.MaxMessage
	if limit <= 0 {
		limit = DefaultMaxMessage
	}
	conn.SetReadLimit(limit)
	return &peer{Conn: conn, ended: spy.ended}, nil
}

// refuse passes on the refusal of the endpoint, or tells that there was no answer.
func refuse(w http.ResponseWriter, res *http.Response) {
	if res == nil || res.StatusCode == http.StatusSwitchingProtocols {
		http.Error(w, "the realtime endpoint cannot be reached", http.StatusBadGateway)
		return
	}
	endToEnd(w.Header(), res.Header)
	w.WriteHeader(res.StatusCode)
	if res.Body != nil {
		_, _ = io.Copy(w, res.Body) // its beginning, which is in memory
	}
}

// errLeft is why the sessions of a proxy that shuts down end.
var errLeft = errors.New("the proxy is shutting down")
