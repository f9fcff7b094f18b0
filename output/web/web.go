package web

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Options are how a server works. The zero value is a server for this machine
// only; a zero field means its default.
type Options struct {
	// Token must be presented by everybody if it is set; see [LoadToken].
	Token Token
	// Origins are the origins of other sites whose pages may read from this server,
	// such as "https://dash.example". Their hosts are also taken as names of this
	// server, for a reverse proxy in front of it.
	Origins []string
	// Ready says why the server is not ready, nil if it is; for /readyz. Its text is
	// shown to who asks.
	Ready func() error
	// MCP says that an MCP endpoint is served: bodies may have 4 MiB, and pages of
	// Origins may use its methods and headers.
	MCP bool
	// MaxConns is how many connections may be open; 4,096.
	MaxConns int
	// Drain is how long requests may go on after the end of Serve's context; 5 s.
	Drain time.Duration
	// Logger gets what clients do wrong at debug; nil discards.
	Logger *slog.Logger
}

// OptionError is an option that is refused: wrong usage, not a failure.
type OptionError struct {
	Option string // "addr", "token-file" or "allow-origin"
	Reason string // one line
}

func (e *OptionError) Error() string { return e.Option + ": " + e.Reason }

// Server is an HTTP server. Handle and OnShutdown are called before Serve.
type Server struct {
	opts    Options
	origins []origin
	key     [32]byte // signs the cookies of this run
	mux     *http.ServeMux
	routes  []string
	hooks   []func(context.Context) error

	addr     netAddr
	draining atomic.Bool
	conns    atomic.Int64
	refused  atomic.Uint64
	running  running
}

// running waits for the handlers, which net/http does not do once it cuts.
type running struct {
	mu    sync.Mutex
	ended bool
	wg    sync.WaitGroup
}

// enter reports whether a handler may still begin; it then calls wg.Done.
func (r *running) enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.wg.Add(1)
	}
	return !r.ended
}

// end lets none begin any more and waits for those that did.
func (r *running) end() {
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	r.wg.Wait()
}

// New returns a server with /healthz and /readyz, and /login if there is a token.
// Its errors are of type *[OptionError].
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
	s := &Server{opts: opts, mux: http.NewServeMux()}
	for _, text := range opts.Origins {
		o, err := parseOrigin(text)
		if err != nil {
			return nil, err
		}
		s.origins = append(s.origins, o)
	}
	_, _ = rand.Read(s.key[:]) // never fails
	s.Handle("/healthz", get(s.healthz))
	s.Handle("/readyz", get(s.readyz))
	if opts.Token.Set() {
		s.Handle("/login", http.HandlerFunc(s.login))
	}
	return s, nil
}

// Handle serves a pattern of [http.ServeMux]. It panics on a pattern that is
// invalid or taken, as the mux does.
func (s *Server) Handle(pattern string, h http.Handler) {
	s.mux.Handle(pattern, h)
	s.routes = append(s.routes, pattern)
}

// Routes returns the patterns that are served, sorted.
func (s *Server) Routes() []string { return slices.Sorted(slices.Values(s.routes)) }

// OnShutdown adds a function that ends what would not end by itself, such as
// streams. It is called once, when draining begins, side by side with the others;
// its context ends when the time for draining does.
func (s *Server) OnShutdown(hook func(context.Context) error) { s.hooks = append(s.hooks, hook) }

// Stats are counts since New.
type Stats struct {
	Conns   int    // open now
	Refused uint64 // connections beyond Options.MaxConns
}

// Stats returns the counts.
func (s *Server) Stats() Stats {
	return Stats{Conns: int(s.conns.Load()), Refused: s.refused.Load()}
}

// Serve serves until ctx ends, drains, and returns nil, or what was cut or went
// wrong. It owns the listener, which must come from [Server.Listen] of the same
// server, and is called once.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	base, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	srv := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16<<10 - 4096, // net/http adds 4 KiB
		BaseContext:       func(net.Listener) context.Context { return base },
		ConnState:         s.count,
		ErrorLog:          slog.NewLogLogger(s.opts.Logger.Handler(), slog.LevelDebug),
	}
	ended := make(chan error, 1) // sent to once, by the goroutine below
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { ended <- srv.Serve(ln) })
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

// drain ends the streams, lets requests finish, and cuts what is left.
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
		failed[len(s.hooks)] = fmt.Errorf("requests were cut after %v: %w", s.opts.Drain, err)
		cut(errors.New("server is shutting down"))
		_ = srv.Close()
	}
	hooks.Wait()
	s.running.end()
	return errors.Join(failed...)
}

// count keeps the number of connections below the limit.
func (s *Server) count(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if s.conns.Add(1) > int64(s.opts.MaxConns) {
			s.refused.Add(1)
			_ = c.Close()
		}
	case http.StateClosed, http.StateHijacked:
		s.conns.Add(-1)
	}
}

// get serves GET and HEAD.
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

func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	plain(w, http.StatusOK, "ok")
}

func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	if s.draining.Load() {
		plain(w, http.StatusServiceUnavailable, "shutting down")
		return
	}
	if s.opts.Ready != nil {
		if err := s.opts.Ready(); err != nil {
			plain(w, http.StatusServiceUnavailable, err.Error())
			return
		}
	}
	plain(w, http.StatusOK, "ok")
}

// plain answers with one line of text.
func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n")
}
