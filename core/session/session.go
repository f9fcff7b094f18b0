package session

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcptrack/mcptrack/core/config"
)

// Session is one live connection to one server. Its methods may be called from
// several goroutines. Whoever dialled it must Close it, also after it ended.
type Session struct {
	limits  Limits
	timeout atomic.Int64 // of one request, in nanoseconds
	client  clientInfo
	logger  *slog.Logger
	redact  redactor
	signals *Signals

	stdio bool
	tr    transport.Interface
	// hush, when not nil, is called before a transport is closed: what is seen
	// from then on is our own doing. lost tells that the server is gone.
	hush func(lost bool)
	// flush waits, for a moment, for what is on its way to the server; called once,
	// by Close.
	flush func()
	// stop releases what the transport stands on (child, connections); it is
	// called once, by Close.
	stop func()

	// ctx lives as long as the session. Requests end with it.
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     group        // every goroutine of the session
	seq    atomic.Int64 // request ids

	progress progressWatch
	waiting  waiting
	mirrors  mirrors

	// done is closed, by whoever sets err, when the session is over.
	done      chan struct{}
	closeOnce sync.Once

	mu     sync.Mutex // guards what follows; never held across I/O
	err    error
	info   Info
	modern bool

	subscriber *subscriber
}

type clientInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// newSession makes a session that has no transport yet.
func newSession(srv config.Server, opts Options) *Session {
	s := &Session{
		limits:     opts.Limits,
		client:     clientInfo{opts.ClientName, opts.ClientVersion},
		redact:     newRedactor(secretsOf(srv)),
		signals:    newSignals(opts.Limits.MaxDirty, srv.Transport == config.TransportStdio),
		done:       make(chan struct{}),
		flush:      func() {},
		stop:       func() {},
		subscriber: newSubscriber(),
	}
	s.SetRequestTimeout(srv.RequestTimeout)
	s.logger = quietLogger(opts.Logger, s.redact)
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s
}

// Info returns what is known of the server.
func (s *Session) Info() Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.info
}

// SetRequestTimeout bounds the requests that begin from now on as another
// RequestTimeout of the server's entry would; zero is the default.
func (s *Session) SetRequestTimeout(d time.Duration) {
	if d <= 0 {
		d = config.DefaultRequestTimeout
	}
	s.timeout.Store(int64(d))
}

func (s *Session) requestTimeout() time.Duration { return time.Duration(s.timeout.Load()) }

// Signals returns the dirty set. It stays readable after the session ended.
func (s *Session) Signals() *Signals { return s.signals }

// Done is closed when the session is over: the server was lost, or Close was
// called.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err tells why the session is over: an [*EndError], or [ErrClosed]. It is nil
// before Done is closed.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Close ends the session and returns once the server's process group, the
// connections and all goroutines of the session are gone. For a child that
// ignores everything but SIGKILL that takes a few seconds. The error is always
// nil; a child that had to be killed is no error.
func (s *Session) Close() error {
	s.closeOnce.Do(func() {
		if !s.ended() {
			s.flush() // a cancellation may be on its way
		}
		if s.hush != nil {
			s.hush(s.ended())
		}
		s.end(ErrClosed)
		s.cancel(ErrClosed)
		if s.tr != nil {
			_ = s.tr.Close()
		}
		s.stop()
	})
	s.wg.Wait()
	return nil
}

// end declares the session over. Only the first call counts. It may be called
// from the transport's own goroutines.
func (s *Session) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
		close(s.done)
	}
}

// lose ends the session and fails every request that is still waiting.
func (s *Session) lose(err error) {
	s.end(err)
	s.cancel(s.Err())
}

// ended reports whether the session is over.
func (s *Session) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// endCause is the error for a request that the end of the session failed.
func (s *Session) endCause(err error) error {
	if cause := s.Err(); cause != nil {
		return cause
	}
	return err
}

// setInfo publishes the result of the handshake.
func (s *Session) setInfo(info Info) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.info, s.modern = info, info.Era == EraModern
}

func (s *Session) setPush(push bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.info.Push = push
}

func (s *Session) isModern() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.modern
}

// attach wires a transport to the session. It is called again when the
// handshake moves to another transport; the old one must be closed by then.
func (s *Session) attach(tr transport.Interface) {
	s.tr = tr
	tr.SetNotificationHandler(func(n mcp.JSONRPCNotification) {
		if n.Method == methodProgress {
			s.progress.tell(n)
			return
		}
		s.signals.notify(n, s.isModern())
	})
	if b, ok := tr.(transport.BidirectionalInterface); ok {
		b.SetRequestHandler(answerRequest)
	}
}

// answerRequest answers what a server asks of its client: ping, and nothing else.
// No capability was offered, so what wants a model, a user or roots (sampling,
// elicitation, roots/list) is declined at once, as "method not found": a server that
// asks all the same must not wait for an answer.
func answerRequest(_ context.Context, q transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	if q.Method == "ping" {
		return transport.NewJSONRPCResultResponse(q.ID, []byte("{}")), nil
	}
	return transport.NewJSONRPCErrorResponse(q.ID, codeMethodNotFound, "method not found", nil), nil
}
