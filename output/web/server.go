package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/ipscope"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/secretfile"
)

// Options configures a Server. A zero field selects the documented default. By default, only
// clients on this machine can connect.
type Options struct {
	// Tokens has the accepted tokens; every client must present one. Nil if clients need none.
	// Serve follows their file.
	Tokens *Tokens
	// Origins has the origins of other sites whose pages may read from this server, such as
	// "https://dash.example". Their hosts are also accepted as names of this server, for a reverse
	// proxy.
	Origins []string
	// TLS makes the server use HTTPS. If nil, it uses HTTP. See [LoadTLS].
	TLS *tls.Config
	// TrustProxy means that all requests come through a reverse proxy, so X-Forwarded-Proto and the
	// last element of X-Forwarded-For can be trusted.
	TrustProxy bool
	// Ready returns the reason why the server is not ready, or nil if it is. /readyz shows the
	// error to clients. If Ready is nil, the server is always ready.
	Ready func() error
	// MCP means that the server has an MCP endpoint: bodies may have 4 MiB, and pages of Origins
	// may use its methods and headers.
	MCP bool
	// MaxConns limits open connections; the default is 4,096. The limit on open files may lower it. One address
	// may have half of them, but this machine, and with TrustProxy every address, all.
	MaxConns int
	// Drain is how long requests may continue after Serve's context ends; the default is 5 s.
	Drain time.Duration
	// Logger logs wrong tokens as warnings and refused requests at debug level. If nil, nothing is
	// logged.
	Logger *slog.Logger
}

// OptionError reports an invalid option. Commands treat it as a usage error.
type OptionError struct {
	Option string // the flag, such as "addr", "token-file" or "allow-origin"
	Reason string // a single line
}

func (e *OptionError) Error() string { return e.Option + ": " + e.Reason }

// Server is an HTTP server. Handle and OnShutdown must be called before Serve.
type Server struct {
	opts    Options
	origins []origin
	mux     *http.ServeMux
	routes  []string
	enders  []func(context.Context) error

	// used only if tokens are set
	logins   *logins
	throttle *throttle

	// The listener's address, empty before Listen. host is the host that was passed to Listen, or
	// else the IP address.
	host, port string

	draining atomic.Bool
	conns    *conns
	running  running
}

// running counts active handlers, because http.Server.Close does not wait for them.
type running struct {
	mu    sync.Mutex
	ended bool
	wg    sync.WaitGroup
}

// enter reports whether a handler may start. If so, the caller must call wg.Done when it ends.
func (r *running) enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.wg.Add(1)
	}
	return !r.ended
}

// end prevents further handlers from starting and waits for the running ones.
func (r *running) end() {
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	r.wg.Wait()
}

// New returns a server with /healthz, /readyz and, unless Tokens is nil, /login and /logout. Its
// errors are of type *[OptionError].
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
		opts.Logger.Warn("the limit of open files allows fewer connections than configured; raise it (ulimit -n)", "configured", opts.MaxConns, "allowed", most)
		opts.MaxConns = most
	}
	s := &Server{opts: opts, mux: http.NewServeMux(), conns: newConns(opts)}
	for _, text := range opts.Origins {
		o, err := parseOrigin("allow-origin", text)
		if err != nil {
			return nil, err
		}
		s.origins = append(s.origins, o)
	}
	s.Handle("/healthz", Open{Handler: get(healthz)})
	s.Handle("/favicon.ico", Open{Handler: get(icon)})
	s.Handle("/readyz", get(s.readyz))
	if opts.Tokens != nil {
		s.logins, s.throttle = newLogins(), newThrottle()
		s.Handle("/login", Open{Handler: http.HandlerFunc(s.login)})
		s.Handle("/login.css", Open{Handler: get(loginStyle)})
		s.Handle("POST /logout", http.HandlerFunc(s.logout))
	}
	return s, nil
}

// Handle registers the handler for a pattern of [http.ServeMux]. Like ServeMux.Handle, it
// panics if the pattern is invalid or already registered.
func (s *Server) Handle(pattern string, h http.Handler) {
	s.mux.Handle(pattern, h)
	s.routes = append(s.routes, pattern)
}

// Routes returns the registered patterns, sorted.
func (s *Server) Routes() []string { return slices.Sorted(slices.Values(s.routes)) }

// OnShutdown adds a function that ends requests that do not end by themselves, such as
// streams. It is called once when draining begins, concurrently with the other functions. Its context
// ends after Options.Drain.
func (s *Server) OnShutdown(end func(context.Context) error) { s.enders = append(s.enders, end) }

// Serve serves until ctx ends, and then lets requests finish for up to Options.Drain. It returns an
// error if it closed unfinished requests, a function of OnShutdown failed, or serving failed. Serve owns the
// listener, which must come from [Server.Listen] of the same server. It must be called only once.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	base, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	srv := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16<<10 - 4096, // net/http adds 4 KiB
		BaseContext:       func(net.Listener) context.Context { return base },
		ConnState:         s.conns.changed,
		ErrorLog:          slog.NewLogLogger(s.opts.Logger.Handler(), slog.LevelDebug),
	}
	srv.RegisterOnShutdown(s.conns.closeUnused)
	ln = listener{ln}
	if s.opts.TLS != nil {
		srv.ReadHeaderTimeout = handshakeTimeout
		ln = tls.NewListener(ln, s.opts.TLS)
	}
	ended := make(chan error, 1) // the goroutine below sends once
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

// drain calls the functions of OnShutdown, waits up to Options.Drain for requests to finish, and
// then closes the remaining connections.
func (s *Server) drain(ctx context.Context, srv *http.Server, cut context.CancelCauseFunc) error {
	s.draining.Store(true)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opts.Drain)
	defer cancel()
	failed := make([]error, len(s.enders)+1)
	var ending sync.WaitGroup
	for i, end := range s.enders {
		ending.Go(func() { failed[i] = end(ctx) })
	}
	if err := srv.Shutdown(ctx); err != nil {
		failed[len(s.enders)] = fmt.Errorf("unfinished requests were closed after %v: %w", s.opts.Drain, err)
		cut(errors.New("server is shutting down"))
		_ = srv.Close()
	}
	ending.Wait()
	s.running.end()
	return errors.Join(failed...)
}

// get returns a handler that calls h for GET and HEAD, and refuses other methods.
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

// plain responds with one line of text.
func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n")
}

// Listen listens on a TCP address such as "127.0.0.1:8722"; port 0 selects a free port. An
// address other than a loopback address requires tokens that cannot be guessed; without one, and
// for an invalid address, the error is an *[OptionError]. Once Listen returns, clients can
// connect; their requests wait for Serve.
func (s *Server) Listen(ctx context.Context, addr string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, &OptionError{"addr", fmt.Sprintf("invalid address %q; expected HOST:PORT", printable.Line(addr, 128))}
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return nil, &OptionError{"addr", fmt.Sprintf("invalid port %q", printable.Line(port, 64))}
	}
	// Resolve only once, so that the server binds to the checked address.
	at, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", printable.Line(addr, 128), printable.Unnamed(err))
	}
	if !ipscope.LoopbackAddr(at.AddrPort().Addr()) {
		if err := s.checkExposed(addr); err != nil {
			return nil, err
		}
	}
	network := "tcp" // without a host, both address families
	if host == "0.0.0.0" {
		network = "tcp4" // "tcp" would also listen on IPv6
	}
	ln, err := new(net.ListenConfig).Listen(ctx, network, at.String())
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", printable.Line(addr, 128), printable.Unnamed(err))
	}
	s.host, s.port, _ = net.SplitHostPort(ln.Addr().String())
	if host != "" {
		s.host = host
	}
	return ln, nil
}

// checkExposed checks whether the options are safe for an address that other machines can reach.
func (s *Server) checkExposed(addr string) error {
	if !s.opts.Tokens.Set() {
		return &OptionError{"addr", fmt.Sprintf(
			"%s is reachable from other machines: add --token-file, or listen on 127.0.0.1", printable.Line(addr, 128))}
	}
	if err := s.opts.Tokens.expose(); err != nil {
		return err
	}
	if s.opts.TLS == nil && !s.opts.TrustProxy {
		s.opts.Logger.Warn("the token is sent unencrypted; use --tls-cert and --tls-key, or a proxy with TLS and --trust-proxy",
			"addr", printable.Line(addr, 128))
	}
	return nil
}

// URL returns the address of the server, such as "http://127.0.0.1:8722"; "" before Listen.
func (s *Server) URL() string {
	if s.port == "" {
		return ""
	}
	scheme := "http://"
	if s.opts.TLS != nil {
		scheme = "https://"
	}
	return scheme + net.JoinHostPort(s.host, s.port)
}

const maxPEM = 1 << 20 // size limit of a certificate or key file in bytes

// LoadTLS reads a certificate chain and its private key from PEM files; later changes of the
// files have no effect. Only the owner and the group may have access to the key (not checked on
// Windows). Errors are of type *[OptionError] and quote none of the content.
func LoadTLS(certFile, keyFile string) (*tls.Config, error) {
	cert, err := secretfile.Load(certFile, maxPEM, 0)
	if err != nil {
		return nil, &OptionError{"tls-cert", err.Error()}
	}
	key, err := secretfile.Load(keyFile, maxPEM, 0o007)
	if err != nil {
		return nil, &OptionError{"tls-key", err.Error()}
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, &OptionError{"tls-cert", printable.Line(certFile, 256) + ": not a certificate for the key in " + printable.Line(keyFile, 256)}
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}, nil
}
