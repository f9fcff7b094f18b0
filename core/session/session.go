package session

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/login"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/session/internal/wire"
)

// Session is one live connection to one server. Its methods may be called from several
// goroutines. The caller that dialled it must Close it, even after it has ended.
type Session struct {
	opts    Options
	redact  redactor
	login   *login.TokenSource // nil: requests carry no token
	logger  *slog.Logger       // redacts, and logs at debug level
	signals *Signals

	requests   requester
	subscriber *subscriber
	events     eventStreams

	// fullInfo sends the requests that a OneShot dial skipped and returns the complete
	// Info; nil: none were skipped. Called at most once.
	fullInfo   func(context.Context) Info
	streamOnce sync.Once // see listenForRequests
	garbled    undecodable

	// ctx ends when the session is closed.
	ctx    context.Context
	cancel context.CancelFunc
	wg     wire.Group // every goroutine of the session

	// done is closed, under mu, when err is set.
	done chan struct{}

	mu   sync.Mutex // guards what follows; never held across I/O
	err  error
	info Info
}

// newSession makes a session that has no connection yet.
func newSession(srv config.Server, opts Options) *Session {
	s := &Session{
		opts:    opts,
		redact:  newRedactor(secretsOf(srv)),
		signals: newSignals(opts.Limits.MaxDirty, srv.Transport == config.TransportStdio),
		events:  newEventStreams(),
		done:    make(chan struct{}),
	}
	if s.login = loginOf(srv, opts.Logins); s.login != nil {
		s.redact.live = s.login.Secrets
	}
	s.logger = quietLogger(opts.Logger, s.redact.text)
	s.requests.client = mcp.Implementation{Name: "mcptrack", Version: opts.ClientVersion}
	s.requests.session, s.requests.declared = s, clientCapabilities(srv)
	s.subscriber = newSubscriber(s)
	s.SetRequestTimeout(srv.RequestTimeout)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// wireConfig returns the configuration of the session's connections.
func (s *Session) wireConfig() wire.Config {
	return wire.Config{
		MaxLine:      s.opts.Limits.MaxLine,
		MaxBody:      s.opts.Limits.MaxBody,
		Redact:       s.redact.text,
		Logger:       s.logger,
		DialContext:  s.opts.DialContext,
		WriteTimeout: s.requests.requestTimeout,
		Handler: wire.Handler{
			Notification: s.notification,
			Client:       s.opts.Client.wire(),
			Opened:       s.setPush,
			Gap:          s.subscriber.gap,
			Silent:       s.signals.raiseSilent,
			Undecodable:  s.undecodable,
			Lost:         s.end,
		},
	}
}

// notification handles a notification on the goroutine that reads from the server.
func (s *Session) notification(n *wire.Notification) {
	if n.Method == mcp.NotificationProgress {
		s.requests.progress.report(n)
		return
	}
	if strings.HasPrefix(n.Method, mcp.EventsNotificationPrefix) {
		s.events.notify(n)
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

// SetRequestTimeout sets the timeout of requests that start from now on; zero restores
// the default.
func (s *Session) SetRequestTimeout(d time.Duration) {
	if d <= 0 {
		d = config.DefaultRequestTimeout
	}
	s.requests.timeout.Store(int64(d))
}

// Signals returns the dirty set. It stays readable after the session ended.
func (s *Session) Signals() *Signals { return s.signals }

// Done is closed when the session is over: the server was lost, or Close was
// called.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err returns why the session is over: an [*EndError], or [ErrClosed]. It is nil
// before Done is closed.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Close ends the session and returns once the server's process group, the
// connections and all goroutines of the session are gone. For a child that
// ignores everything but SIGKILL that takes a few seconds. The error is always
// nil; having to kill the child is not an error.
func (s *Session) Close() error {
	s.end(ErrClosed)
	if conn := s.requests.conn; conn != nil {
		conn.Close(ErrClosed)
	}
	s.cancel()
	s.wg.Wait()
	return nil
}

// end marks the session as over and stores why. Only the first call counts.
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
	s.requests.conn = conn
	s.mu.Lock()
	s.info = info
	s.mu.Unlock()
	if conn.Publish() {
		s.setPush()
	}
	return s
}

// setPush records that the server can push.
func (s *Session) setPush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.info.Push = true
}
