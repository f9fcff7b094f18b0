package realtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mcptrack/mcptrack/core/event"
)

// ProxyOptions configure a proxy. A zero field means its default.
type ProxyOptions struct {
	// Upstream is the endpoint. A client's query is added to its URL; a client's path is
	// used only if the URL has none. Its Header replaces what the client sent under the
	// same names.
	Upstream Endpoint
	Delivery DeliveryOptions
	// RefreshTools makes a session import the tools of an MCP server again when they
	// changed. The server is recognised by its label in the session, which must be the id of
	// a tracked server, or by its URL: ServerURL returns the URL of a tracked server, "" if
	// it has none; nil: only labels count.
	RefreshTools bool
	ServerURL    func(serverID string) string
	// MaxSessions bounds the open sessions; 1,024. Further clients get status 503.
	MaxSessions int
	// Logger gets sessions at info and failures at warn; nil discards.
	Logger *slog.Logger
}

// Proxy is an [http.Handler] that connects every WebSocket client to the endpoint and
// adds messages to each conversation. It does not authenticate clients: that is up to its
// server.
//
// Messages of both sides are forwarded unchanged, text and binary, in order, at the pace
// of their reader; the division into frames may change, and the two connections have
// their own pings and compression (none). End-to-end headers, subprotocols, refusals and
// close codes are forwarded, too. If one connection is lost, the other is dropped.
//
// A client sees events about the items and responses that were added, since they are part
// of its conversation. Only the answers to our events are hidden: the client would relate
// them to its own.
type Proxy struct {
	opts    ProxyOptions
	url     *url.URL
	lang    dialect
	anyPath bool // the path of the client's request is used, as the URL of Upstream has none
	log     *slog.Logger
	buffers sync.Pool // of *[peekSize]byte, for messages in transit
	count   atomic.Uint64

	mu       sync.Mutex // guards the rest
	sessions map[*proxied]struct{}
	closing  bool
	handlers sync.WaitGroup // grows only while not closing
	past     Stats          // the sums of all ended sessions
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
	lang, err := o.Upstream.dialect()
	if err != nil {
		return nil, err
	}
	given, err := url.Parse(o.Upstream.URL)
	p := &Proxy{
		opts: o, url: u, lang: lang, log: o.Logger, sessions: map[*proxied]struct{}{},
		anyPath: err == nil && o.Upstream.URL != "" && strings.Trim(given.Path, "/") == "",
	}
	p.buffers.New = func() any { return new([peekSize]byte) }
	return p, nil
}

// Offer accepts an event for all open sessions, and returns immediately.
func (p *Proxy) Offer(e *event.Event) {
	m, err := newMessage(e, p.opts.Delivery.Message)
	tools := p.opts.RefreshTools && e.Type() == event.TypeToolsListChanged
	if err != nil && !tools {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.sessions {
		if tools {
			s.toolsChanged(e)
		} else {
			s.conv.add(m)
		}
	}
}

// toolsChanged makes the session import the tools of the server of e again if it uses them.
func (s *proxied) toolsChanged(e *event.Event) {
	url := ""
	if s.proxy.opts.ServerURL != nil {
		url = s.proxy.opts.ServerURL(e.ServerID)
	}
	s.conv.toolsChanged(e, url)
}

// Stats returns the counts of all sessions.
func (p *Proxy) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.past
	for s := range p.sessions {
		st := s.conv.snapshot()
		st.Open = 1
		all.add(st)
	}
	return all
}

// Shutdown ends all sessions with the close code 1001 and accepts no more. It returns
// when the last has ended, or with the cause of ctx.
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

// admit registers a session; it returns nil if there is no room.
func (p *Proxy) admit() *proxied {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing || len(p.sessions) >= p.opts.MaxSessions {
		return nil
	}
	s := &proxied{proxy: p, left: make(chan struct{}), name: fmt.Sprint(p.count.Add(1))}
	s.conv = newConversation(s.name, p.lang, p.opts.Delivery)
	p.sessions[s] = struct{}{}
	p.handlers.Add(1)
	return s
}

func (p *Proxy) forget(s *proxied) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.sessions, s)
	st := s.conv.snapshot()
	st.Waiting = 0
	p.past.add(st)
	p.handlers.Done()
}

// ServeHTTP implements [http.Handler]. It returns when the session has ended.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		w.Header().Set("Upgrade", "websocket")
		w.Header().Set("Connection", "Upgrade")
		http.Error(w, "this proxy only accepts WebSocket connections", http.StatusUpgradeRequired)
		return
	}
	s := p.admit()
	if s == nil {
		w.Header().Set("Retry-After", "5")
		http.Error(w, "the proxy has too many sessions or is shutting down", http.StatusServiceUnavailable)
		return
	}
	defer p.forget(s)
	path := p.target(r).Path
	if lang, ok := dialectOfPath(path); ok && p.opts.Upstream.Dialect == "" {
		s.conv.dialect = lang
	}
	s.conv.muted = strings.Contains(path, "/live/") // until it has started
	upstream, res, err := p.dial(r)
	if err != nil {
		p.log.Warn("the endpoint refused a session", "session", s.name, "endpoint", p.opts.Upstream.Address(), "err", oneLine(err))
		refuse(w, res)
		return
	}
	client, err := p.accept(w, r, upstream, res)
	if err != nil {
		p.log.Warn("the WebSocket handshake with a client failed", "session", s.name, "err", oneLine(err))
		_ = upstream.CloseNow()
		return
	}
	p.log.Info("session began", "session", s.name, "endpoint", p.opts.Upstream.Address())
	err = s.run(r.Context(), client, upstream)
	st := s.conv.snapshot()
	p.log.Info("session ended", "session", s.name, "err", oneLine(err), "injected", st.Injected, "failed", st.Failed)
}

// errLeft ends the sessions of a proxy that shuts down.
var errLeft = errors.New("the proxy is shutting down")
