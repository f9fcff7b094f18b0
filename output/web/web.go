package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"html/template"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/printable"
)

// Options configure a server. The zero value is a server for this machine only; a zero
// field means the documented default.
type Options struct {
	// Tokens, unless nil: every client must present one of them. Serve follows their file.
	Tokens *Tokens
	// Origins are the origins of other sites whose pages may read from this server,
	// such as "https://dash.example". Their hosts are also accepted as names of this
	// server, for a reverse proxy in front of it.
	Origins []string
	// TLS, if set, makes the server speak HTTPS; see [LoadTLS].
	TLS *tls.Config
	// TrustProxy says that all requests come through a reverse proxy, whose headers
	// X-Forwarded-Proto and X-Forwarded-For (its last element) are true.
	TrustProxy bool
	// Ready returns why the server is not ready, nil if it is. /readyz calls it and shows
	// the text to clients. May be nil: always ready.
	Ready func() error
	// MCP says that an MCP endpoint is served: bodies may have 4 MiB, and pages of
	// Origins may use its methods and headers.
	MCP bool
	// MaxConns limits open connections; 4,096. It is lowered to what the limit of open files allows.
	MaxConns int
	// Drain is how long requests may continue after the end of Serve's context; 5 s.
	Drain time.Duration
	// Logger logs wrong tokens as warnings, and refused requests at debug level; nil
	// discards.
	Logger *slog.Logger
}

// OptionError reports an invalid option. Commands treat it as a usage error.
type OptionError struct {
	Option string // the flag: "addr", "token-file", "allow-origin", "tls-cert" or "tls-key"
	Reason string // one line
}

func (e *OptionError) Error() string { return e.Option + ": " + e.Reason }

// Server is an HTTP server. Handle and OnShutdown are called before Serve.
type Server struct {
	opts    Options
	origins []origin
	mux     *http.ServeMux
	routes  []string
	hooks   []func(context.Context) error

	// The following three are set only if Options.Tokens is.
	page     *template.Template
	tickets  *tickets
	throttle *throttle

	addr     netAddr
	draining atomic.Bool
	conns    *connSet
	running  running
}

// running counts the handlers in progress: net/http does not wait for them when it closes.
type running struct {
	mu    sync.Mutex
	ended bool
	wg    sync.WaitGroup
}

// enter reports whether a handler may start. If so, the handler must call wg.Done at its end.
func (r *running) enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.wg.Add(1)
	}
	return !r.ended
}

// end prevents further handlers and waits for the running ones.
func (r *running) end() {
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	r.wg.Wait()
}

// New returns a server with /healthz and /readyz and, with a token, /login and
// /logout. Its errors are of type *[OptionError].
func New(opts Options) (*Server, error) {
	if opts.MaxConns == 0 {
		opts.MaxConns = 4096
	}
	if opts.Drain == 0 {
		opts.Drain = 5 * time.Second
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if most := mostConns(); opts.MaxConns > most {
		opts.Logger.Warn("fewer connections than wanted are possible; raise the limit of open files (ulimit -n)", "wanted", opts.MaxConns, "possible", most)
		opts.MaxConns = most
	}
	s := &Server{opts: opts, mux: http.NewServeMux(), conns: newConnSet(opts.MaxConns, !opts.TrustProxy)}
	if opts.TLS != nil {
		s.conns.patience = handshakeTimeout
	}
	for _, text := range opts.Origins {
		o, err := parseOrigin(text)
		if err != nil {
			return nil, err
		}
		s.origins = append(s.origins, o)
	}
	s.Handle("/healthz", Open{Handler: get(healthz)})
	s.Handle("/readyz", get(s.readyz))
	if opts.Tokens.Set() {
		s.page, s.tickets, s.throttle = loginTemplate(), newTickets(), newThrottle()
		s.Handle("/login", Open{Handler: http.HandlerFunc(s.login)})
		s.Handle("/login.css", Open{Handler: get(loginStyle)})
		s.Handle("POST /logout", http.HandlerFunc(s.logout))
	}
	return s, nil
}

// Handle makes h serve the requests that match a pattern of [http.ServeMux]. Like
// ServeMux.Handle, it panics on a pattern that is invalid or registered already.
func (s *Server) Handle(pattern string, h http.Handler) {
	s.mux.Handle(pattern, h)
	s.routes = append(s.routes, pattern)
}

// Routes returns the registered patterns, sorted.
func (s *Server) Routes() []string { return slices.Sorted(slices.Values(s.routes)) }

// OnShutdown adds a function that ends requests that do not end by themselves, such as
// streams. It is called once, when draining begins, concurrently with other hooks; its
// context ends after Options.Drain.
func (s *Server) OnShutdown(hook func(context.Context) error) { s.hooks = append(s.hooks, hook) }

// Serve serves until ctx ends, then lets requests finish (see Options.Drain). It returns nil,
// or why connections had to be closed or serving failed. It owns the listener, which must come
// from [Server.Listen] of the same server. It must be called once.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	base, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	srv := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: s.conns.patience,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16<<10 - 4096, // net/http adds 4 KiB
		BaseContext:       func(net.Listener) context.Context { return base },
		ConnContext:       connContext,
		ConnState:         connState,
		ErrorLog:          slog.NewLogLogger(s.opts.Logger.Handler(), slog.LevelDebug),
	}
	srv.RegisterOnShutdown(s.conns.closeUnused)
	ln = newLimitedListener(ln, s.conns)
	if s.opts.TLS != nil {
		ln = tls.NewListener(ln, s.opts.TLS)
	}
	ended := make(chan error, 1) // sent to once, by the goroutine below
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { ended <- srv.Serve(ln) })
	following, stop := context.WithCancel(ctx)
	defer stop()
	wg.Go(func() { s.opts.Tokens.run(following) })
	select {
	case err := <-ended:
		cut(err)
		_ = srv.Close()
		s.running.end()
		return fmt.Errorf("serve %s: %w", s.URL(), err)
	case <-ctx.Done():
	}
	return s.drain(ctx, srv, cut)
}

// drain calls the hooks of OnShutdown, which end the streams, waits up to Options.Drain for
// requests to finish, and closes the remaining connections.
func (s *Server) drain(ctx context.Context, srv *http.Server, cut context.CancelCauseFunc) error {
	s.draining.Store(true)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opts.Drain)
	defer cancel()
	failed := make([]error, len(s.hooks)+1)
	var hooks sync.WaitGroup
	for i, hook := range s.hooks {
		hooks.Go(func() { failed[i] = hook(ctx) })
	}
	if err := srv.Shutdown(ctx); err != nil {
		failed[len(s.hooks)] = fmt.Errorf("unfinished requests were closed after %v: %w", s.opts.Drain, err)
		cut(errors.New("server is shutting down"))
		_ = srv.Close()
	}
	hooks.Wait()
	s.running.end()
	return errors.Join(failed...)
}

// get returns a handler that passes GET and HEAD to h and refuses other methods.
func get(h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		h(w, r)
	})
}

func healthz(w http.ResponseWriter, _ *http.Request) {
	plain(w, http.StatusOK, "ok")
}

func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	if s.draining.Load() {
		plain(w, http.StatusServiceUnavailable, "shutting down")
		return
	}
	if s.opts.Ready != nil {
		if err := s.opts.Ready(); err != nil {
			plain(w, http.StatusServiceUnavailable, printable.Reason(err, 500))
			return
		}
	}
	plain(w, http.StatusOK, "ok")
}

// plain writes a response of one line of text.
func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n")
}
