package realtime

import (
	"cmp"
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
	"time"

	"github.com/coder/websocket"

	"github.com/mcptrack/mcptrack/core/event"
)

// ProxyOptions configures a proxy. Zero fields have their defaults.
type ProxyOptions struct {
	// Upstream is the endpoint. A client's query is added to its URL; a client's path is used only
	// if the URL has none. Headers in Upstream.Header replace the client's headers with the same
	// names.
	Upstream Endpoint
	Delivery DeliveryOptions
	// RefreshTools makes a session reimport the tools of an MCP server when they have changed. The
	// server is identified by its label in the session, which must be the ID of a tracked server,
	// or by its URL: ServerURL returns the URL of a tracked server, or "" if it has none. If
	// ServerURL is nil, only labels are compared.
	RefreshTools bool
	ServerURL    func(serverID string) string
	// MaxSessions limits the number of open sessions. The default is 1,024. Further clients receive
	// status 503.
	MaxSessions int
	// Logger receives sessions at level info and failures at level warn; if nil, they are
	// discarded.
	Logger *slog.Logger
}

// Proxy is an [http.Handler] that connects every WebSocket client to the endpoint and adds messages
// to each conversation. It does not authenticate clients; its server must.
//
// Messages in both directions, text and binary, are forwarded unchanged and in order, at the speed
// at which the receiver reads. Frame boundaries may change, and each connection has its own pings
// and no compression. End-to-end headers, subprotocols, refusals and close codes are forwarded too.
// If one connection is lost, the other is dropped.
//
// A client receives the events for added items and responses, because they are part of its
// conversation. Only direct answers to our own events are hidden, because the client would mistake
// them for answers to its events.
type Proxy struct {
	opts    ProxyOptions
	url     *url.URL
	lang    *dialect
	anyPath bool // use the path of the client's request, because Upstream's URL has none
	log     *slog.Logger
	buffers sync.Pool     // holds *[peekSize]byte buffers for messages in transit
	left    chan struct{} // closed by Shutdown

	mu       sync.Mutex // guards the fields below
	sessions map[*proxySession]struct{}
	count    int // of all sessions so far
	closing  bool
	handlers sync.WaitGroup // incremented only while not closing
}

// NewProxy validates the options and returns a proxy. Its errors have type *[OptionError].
func NewProxy(o ProxyOptions) (*Proxy, error) {
	u, lang, err := o.Upstream.resolve(o.Delivery.Message)
	if err != nil {
		return nil, err
	}
	o.MaxSessions = cmp.Or(o.MaxSessions, 1024)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	given, err := url.Parse(o.Upstream.URL)
	p := &Proxy{
		opts: o, url: u, lang: lang, log: o.Logger, sessions: map[*proxySession]struct{}{}, left: make(chan struct{}),
		anyPath: err == nil && o.Upstream.URL != "" && strings.Trim(given.Path, "/") == "",
	}
	p.buffers.New = func() any { return new([peekSize]byte) }
	return p, nil
}

// Offer accepts an event for all open sessions, and returns immediately.
func (p *Proxy) Offer(e *event.Event) {
	m, ok := newMessage(e, p.opts.Delivery.Message)
	tools := p.opts.RefreshTools && e.Type() == event.TypeToolsListChanged
	url := ""
	if tools && p.opts.ServerURL != nil {
		url = p.opts.ServerURL(e.ServerID)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.sessions {
		switch {
		case tools:
			s.conv.toolsChanged(e, url)
		case ok:
			s.conv.add(m)
		}
	}
}

// Shutdown ends all sessions with close code 1001 and refuses new ones. It returns when the last
// session has ended, or with the cause of ctx.
func (p *Proxy) Shutdown(ctx context.Context) error {
	p.mu.Lock()
	if !p.closing {
		p.closing = true
		close(p.left)
	}
	p.mu.Unlock()
	over := make(chan struct{})
	go func() { // ends with the last handler; each handler has a time limit
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

// admit registers a new session for a request with this path. It returns nil if the limit is reached.
func (p *Proxy) admit(path string) *proxySession {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing || len(p.sessions) >= p.opts.MaxSessions {
		return nil
	}
	p.count++
	s := &proxySession{proxy: p, name: fmt.Sprint(p.count)}
	s.conv = newConversation(s.name, p.dialect(path), p.opts.Delivery)
	p.sessions[s] = struct{}{}
	p.handlers.Add(1)
	return s
}

// dialect returns the dialect of the sessions with this path.
func (p *Proxy) dialect(path string) *dialect {
	lang := p.lang
	for part := range strings.SplitSeq(path, "/") {
		switch {
		case p.opts.Upstream.Dialect != "":
		case part == "convai":
			lang, _ = ElevenLabs.of("")
		case part == "live":
			lang, _ = GPTLive.of("")
		}
	}
	return lang
}

func (p *Proxy) forget(s *proxySession) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.sessions, s)
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
	s := p.admit(p.target(r).Path)
	if s == nil {
		w.Header().Set("Retry-After", "5")
		http.Error(w, "the proxy has too many sessions or is shutting down", http.StatusServiceUnavailable)
		return
	}
	defer p.forget(s)
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
	p.log.Info("session started", "session", s.name, "endpoint", p.opts.Upstream.Address())
	err = s.run(r.Context(), client, upstream)
	st := s.conv.snapshot()
	p.log.Info("session ended", "session", s.name, "err", oneLine(err), "injected", st.Injected, "failed", st.Failed)
}

// proxySession is one session of a proxy.
type proxySession struct {
	proxy *Proxy
	name  string
	conv  *conversation
}

// pump forwards messages in one direction.
type pump struct {
	from, to *peer
	// inspect is called with each text message, or its beginning, and reports whether to drop the
	// message. If nil, nothing is inspected.
	inspect func(b []byte, whole bool) (hide bool)
	buffers *sync.Pool // see Proxy.buffers
	// waiting is when the pump started to wait for a message, in Unix nanoseconds; 0 while it is
	// forwarding a message.
	waiting atomic.Int64
}

// idleAfter is how long a pump must have waited for a message before it counts as idle.
const idleAfter = 5 * time.Millisecond

// idle reports whether everything that p.from has sent was forwarded. While p.to is not reading,
// messages from p.from, such as acknowledgements, cannot be read either.
func (p *pump) idle() bool {
	since := p.waiting.Load()
	return since != 0 && time.Now().UnixNano()-since >= int64(idleAfter)
}

// ending describes how a pump stopped: a read from its source or a write to its target failed.
type ending struct {
	p    *pump
	read bool
	err  error
}

// run forwards messages in both directions, and delivers the conversation's messages, until one
// side ends. It closes the other side with the same close code, or drops it if there was none. When the proxy
// shuts down, it closes both. It returns the reason.
func (s *proxySession) run(ctx context.Context, client, upstream *peer) error {
	s.conv.begin()
	life, cut := context.WithCancel(ctx)
	defer cut()
	down := &pump{from: upstream, to: client, buffers: &s.proxy.buffers, inspect: s.inspect}
	up := &pump{from: client, to: upstream, buffers: &s.proxy.buffers}
	if s.proxy.opts.RefreshTools {
		up.inspect = s.inspectClient
	}
	ends := make(chan ending, 2) // each pump sends one value
	var wg sync.WaitGroup
	for _, p := range []*pump{down, up} {
		wg.Go(func() { ends <- p.run(life) })
	}
	talking, stop := context.WithCancel(life)
	defer stop()
	wg.Go(func() {
		// Errors are ignored, because the pumps report a failed connection too.
		_ = s.conv.run(talking, connection{
			send: func(_ context.Context, frame []byte) error { return upstream.Write(life, websocket.MessageText, frame) },
			ready: func(context.Context) (bool, error) {
				if s.conv.dialect.unconfirmed {
					return true, upstream.Ping(life) // wait for the pong without a deadline
				}
				return down.idle(), nil
			},
		})
	})
	var first ending
	select {
	case first = <-ends:
	case <-s.proxy.left:
		first.err = errors.New("the proxy is shutting down")
	}
	if first.p != nil && !first.read {
		// The target has closed its connection. The other pump, which reads from it, may have its
		// close code.
		select {
		case second := <-ends:
			if second.read {
				first = second
			}
		case <-time.After(closeTimeout):
		}
	}
	stop()
	ce, closed := errors.AsType[websocket.CloseError](first.err)
	switch {
	case first.p == nil:
		defer time.AfterFunc(closeTimeout, cut).Stop()
		var closing sync.WaitGroup
		for _, p := range []*peer{client, upstream} {
			closing.Go(func() { _ = p.Close(websocket.StatusGoingAway, first.err.Error()) })
		}
		closing.Wait()
	case first.read && closed:
		_ = first.p.to.Close(ce.Code, ce.Reason) // after all forwarded messages; takes at most 10 s
	case first.read && errors.Is(first.err, websocket.ErrMessageTooBig):
		_ = first.p.to.Close(websocket.StatusMessageTooBig, "")
	}
	cut()
	_ = client.CloseNow()
	_ = upstream.CloseNow()
	wg.Wait()
	return first.err
}

// inspect processes an event from the endpoint, and reports whether to hide it from the client.
func (s *proxySession) inspect(b []byte, whole bool) (hide bool) {
	e, ok := decode(b, whole)
	return ok && s.conv.observe(e)
}

// inspectClient processes an event from the client, and reports whether to drop it.
func (s *proxySession) inspectClient(b []byte, whole bool) (hide bool) {
	s.conv.mu.Lock()
	defer s.conv.mu.Unlock()
	s.conv.imports.sent(b, whole)
	return false
}

func (p *pump) run(ctx context.Context) ending {
	for {
		p.waiting.Store(time.Now().UnixNano())
		typ, r, err := p.from.Reader(ctx)
		if err != nil {
			return ending{p, true, err}
		}
		p.waiting.Store(0)
		if read, err := p.forward(ctx, typ, r); err != nil {
			return ending{p, read, err}
		}
	}
}

// forward forwards one message: in one frame if it fits into the buffer, and otherwise in pieces.
// The last piece is sent once the message is known to be complete. read means that reading failed.
func (p *pump) forward(ctx context.Context, typ websocket.MessageType, r io.Reader) (read bool, err error) {
	buffer := p.buffers.Get().(*[peekSize]byte)
	defer p.buffers.Put(buffer)
	buf := buffer[:]
	n, whole, err := p.from.fill(r, buf)
	switch {
	case err != nil:
		return true, err
	case typ == websocket.MessageText && p.inspect != nil && p.inspect(buf[:n], whole):
		return false, nil
	case whole:
		return false, p.to.Write(ctx, typ, buf[:n])
	}
	w, err := p.to.Writer(ctx, typ)
	if err != nil {
		return false, err
	}
	for {
		if _, err := w.Write(buf[:n]); err != nil {
			return false, err
		}
		if whole {
			return false, w.Close()
		}
		if n, whole, err = p.from.fill(r, buf); err != nil {
			return true, err
		}
	}
}

// target returns the endpoint's URL for a client's request.
func (p *Proxy) target(r *http.Request) *url.URL {
	u := *p.url
	if p.anyPath && r.URL.Path != "/" {
		u.Path, u.RawPath = r.URL.Path, r.URL.RawPath
	}
	if q := r.URL.RawQuery; q != "" && u.RawQuery == "" {
		u.RawQuery = q
	} else if q != "" {
		u.RawQuery = replaced(r.URL.Query(), u.Query(), q)
	}
	return &u
}

// dial connects to the endpoint with the headers and subprotocols from the client's handshake.
// Headers in Upstream.Header replace the client's headers.
func (p *Proxy) dial(r *http.Request) (*peer, *http.Response, error) {
	header := http.Header{}
	addEndToEnd(header, r.Header)
	for name, values := range p.opts.Upstream.Header {
		header[http.CanonicalHeaderKey(name)] = values
	}
	if _, ok := header["User-Agent"]; !ok {
		header["User-Agent"] = []string{""} // suppresses Go's default User-Agent
	}
	var offered []string
	for _, line := range r.Header.Values("Sec-WebSocket-Protocol") {
		for name := range strings.SplitSeq(line, ",") {
			offered = append(offered, strings.TrimSpace(name))
		}
	}
	return p.opts.Upstream.dial(r.Context(), p.target(r), header, offered)
}

// accept answers the client's handshake as the endpoint answered ours, with the same headers and
// subprotocol.
func (p *Proxy) accept(w http.ResponseWriter, r *http.Request, upstream *peer, res *http.Response) (*peer, error) {
	addEndToEnd(w.Header(), res.Header)
	var chosen []string
	if name := upstream.Subprotocol(); name != "" {
		chosen = []string{name}
	}
	spy := &spyWriter{ResponseWriter: w}
	conn, err := websocket.Accept(spy, r, &websocket.AcceptOptions{
		Subprotocols:       chosen,
		InsecureSkipVerify: true, // the server has already checked Origin
	})
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(maxMessage)
	return &peer{Conn: conn, ended: &spy.ended}, nil
}

// refuse forwards the endpoint's refusal to the client, or reports that the endpoint sent no
// response.
func refuse(w http.ResponseWriter, res *http.Response) {
	if res == nil || res.StatusCode == http.StatusSwitchingProtocols {
		http.Error(w, "the realtime endpoint cannot be reached", http.StatusBadGateway)
		return
	}
	addEndToEnd(w.Header(), res.Header)
	w.WriteHeader(res.StatusCode)
	if res.Body != nil {
		_, _ = io.Copy(w, res.Body) // the first 1,024 bytes, already in memory
	}
}
