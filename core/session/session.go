package session

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/internal/wake"
	"github.com/mcptrack/mcptrack/core/login"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/session/internal/wire"
)

// Session is an open connection to one server. Its methods are safe for concurrent use. The caller
// that dialled it must call Close, even after the session has ended.
type Session struct {
	id      string // id of the server in the config
	opts    Options
	redact  redactor
	login   *login.TokenSource // nil if requests carry no token
	signals *Signals

	client       mcp.Implementation
	capabilities any          // capabilities declared to the server
	timeout      atomic.Int64 // request timeout in nanoseconds
	seq          atomic.Int64 // number of the last request id
	noPing       atomic.Bool  // the server answers lists but does not support ping
	conn         *wire.Conn   // set once the handshake is complete

	subs              subscriptions
	progress          callbacks[Progress]
	events            callbacks[EventMessage] // callbacks for open event streams
	eventTypesChanged wake.Channel

	// fullInfo sends the requests that a OneShot dial skipped and returns the complete Info. Nil if
	// none were skipped. It is called at most once.
	fullInfo   func(context.Context) Info
	streamOnce sync.Once // see listenForRequests
	garbled    undecodable

	// ctx is cancelled when the session is closed.
	ctx    context.Context
	cancel context.CancelFunc
	wg     wire.Group // all goroutines of the session

	// done is closed when err is set, while mu is held.
	done chan struct{}

	mu     sync.Mutex // guards the fields below; never held during I/O
	err    error
	info   Info
	pinged *Info           // from the last response to a ping; nil in the legacy era
	cut    map[string]bool // methods of the lists that cutShort has reported
}

// Tokens returns the tokens of a login that the session has sent recently. Like the credentials in the
// config, they must not be published.
func (s *Session) Tokens() []string {
	if s.redact.live == nil {
		return nil
	}
	return s.redact.live()
}

// newSession returns a session without a connection.
func newSession(srv config.Server, opts Options) *Session {
	s := &Session{
		id:      srv.ID,
		opts:    opts,
		redact:  newRedactor(secretsOf(srv)),
		signals: newSignals(opts.Limits.MaxDirty, srv.Transport == config.TransportStdio),

		eventTypesChanged: wake.New(),
		subs:              newSubscriptions(),
		done:              make(chan struct{}),
	}
	if s.login = loginOf(srv, opts.Logins); s.login != nil {
		s.redact.live = s.login.Secrets
	}
	s.client = mcp.Implementation{Name: "mcptrack", Version: opts.ClientVersion}
	s.capabilities = clientCapabilities(srv, opts.Client)
	s.SetRequestTimeout(srv.RequestTimeout)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

func (s *Session) wireConfig() wire.Config {
	cfg := wire.Config{
		MaxLine:      s.opts.Limits.MaxLine,
		MaxBody:      s.opts.Limits.MaxBody,
		Redact:       s.redact.text,
		Logger:       s.opts.Logger,
		DialContext:  s.opts.DialContext,
		WriteTimeout: s.requestTimeout,
		Handler: wire.Handler{
			Notification: s.notification,
			Opened:       s.setPush,
			Gap:          s.subscriptionsLost,
			Silent:       s.signals.raiseSilent,
			Undecodable:  s.undecodable,
			Lost:         s.end,
		},
	}
	if c := s.opts.Client; c != nil {
		cfg.Handler.Request, cfg.Handler.Asked, cfg.Handler.ClientMessage = c.Request, c.Asked, c.Message
	}
	return cfg
}

// notification handles a notification on the goroutine that reads from the server.
func (s *Session) notification(n *wire.Notification) {
	if n.Method == mcp.NotificationProgress {
		s.reportProgress(n)
		return
	}
	if strings.HasPrefix(n.Method, mcp.EventsNotificationPrefix) {
		s.notifyEvents(n)
		return
	}
	s.signals.notify(n, s.Info().Era == EraModern)
}

// Info returns the result of the handshake.
func (s *Session) Info() Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.info
}

// SetRequestTimeout sets the timeout for later requests. Zero restores the default.
func (s *Session) SetRequestTimeout(d time.Duration) {
	if d <= 0 {
		d = config.DefaultRequestTimeout
	}
	s.timeout.Store(int64(d))
}

// HTTP reports whether the session uses Streamable HTTP, where each event stream occupies a
// connection.
func (s *Session) HTTP() bool { return s.conn.HTTP() }

// Signals returns the session's dirty set. It can still be read after the session has ended.
func (s *Session) Signals() *Signals { return s.signals }

// Done returns a channel that is closed when the session ends, because the connection was lost or
// Close was called.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err returns why the session ended: an [*EndError] or [ErrClosed]. It returns nil until Done is
// closed.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Close ends the session and returns once the server's process group, the connections and all
// goroutines of the session are gone. That takes a few seconds if the child process ignores every
// signal except SIGKILL. The error is always nil; having to kill the child process is not an error.
func (s *Session) Close() error {
	s.end(ErrClosed)
	if conn := s.conn; conn != nil {
		conn.Close(ErrClosed)
	}
	s.cancel()
	s.wg.Wait()
	return nil
}

// FirstNoise returns the first line of the server's stdout that is not a message, printable and without
// secrets, or "" if there is none. Servers may write only messages to stdout.
func (s *Session) FirstNoise() string { return s.conn.FirstNoise() }

// Lingered reports, after Close, whether the server's process continued after its stdin was closed for
// as long as Close waits, see [Options.Grace], and had to be stopped.
func (s *Session) Lingered() bool { return s.conn.Lingered() }

// end marks the session as ended and stores the reason. Only the first call has an effect.
func (s *Session) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
		close(s.done)
	}
}

// attach makes conn the session's connection and stores the result of the handshake.
func (s *Session) attach(conn *wire.Conn, info Info) *Session {
	s.conn = conn
	s.mu.Lock()
	s.info = info
	s.mu.Unlock()
	if conn.Publish() {
		s.setPush()
	}
	return s
}

// setPush records that the server can push notifications.
func (s *Session) setPush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.info.Push = true
}

// undecodableInterval is the minimum interval between two gaps caused by undecodable messages.
const undecodableInterval = 5 * time.Second

// undecodable limits how often undecodable messages raise a gap.
type undecodable struct {
	mu      sync.Mutex // guards the fields below
	last    time.Time  // when the last gap was raised
	planned bool       // another gap will be raised
}

// undecodable handles data that started like a message but cannot be decoded. It may have been a
// notification, so a gap is raised: immediately, or undecodableInterval after the previous one.
func (s *Session) undecodable() {
	s.signals.drop(DroppedUndecodable, 1)
	u := &s.garbled
	u.mu.Lock()
	planned, wait := u.planned, time.Until(u.last.Add(undecodableInterval))
	u.planned = true
	u.mu.Unlock()
	if planned {
		return
	}
	raise := func() {
		u.mu.Lock()
		u.last, u.planned = time.Now(), false
		u.mu.Unlock()
		s.signals.raiseGap("the server sent something that cannot be decoded")
	}
	if wait <= 0 {
		raise()
		return
	}
	s.wg.Go(func() {
		if backoff.Sleep(s.ctx, wait) {
			raise()
		}
	})
}
