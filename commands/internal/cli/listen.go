package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/mcptrack/mcptrack/core/hook"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/servercard"
	"github.com/mcptrack/mcptrack/output/web"
)

// AccessFlags contains the flags that control who can connect to a command that listens, and how.
type AccessFlags struct {
	TokenFile  string
	origins    []string
	tlsCert    string
	tlsKey     string
	trustProxy bool
}

// Add adds the flags. In the help, clients describes who must present the token, and pages
// describes what pages from other origins can do.
func (o *AccessFlags) Add(cmd *cobra.Command, clients, pages string) {
	f := cmd.Flags()
	f.StringVar(&o.TokenFile, "token-file", "", "`FILE` (mode 0600) with the tokens of "+clients+", one a line")
	f.StringArrayVar(&o.origins, "allow-origin", nil, "`ORIGIN` of a site whose pages may "+pages+" (repeatable)")
	f.StringVar(&o.tlsCert, "tls-cert", "", "PEM `FILE` with the certificate for HTTPS")
	f.StringVar(&o.tlsKey, "tls-key", "", "PEM `FILE` (mode 0600) with its private key")
	f.BoolVar(&o.trustProxy, "trust-proxy", false, "trust X-Forwarded headers of the reverse proxy")
	for _, name := range []string{"token-file", "tls-cert", "tls-key"} {
		_ = cmd.MarkFlagFilename(name)
	}
}

// Set reports whether any of the flags was specified.
func (o *AccessFlags) Set() bool {
	return o.TokenFile != "" || len(o.origins) > 0 || o.tlsCert != "" || o.tlsKey != "" || o.trustProxy
}

func (o *AccessFlags) Check() error {
	if (o.tlsCert == "") != (o.tlsKey == "") {
		return Usage("--tls-cert and --tls-key must be used together")
	}
	return nil
}

// Tokens reads the token file. It returns nil if there is none. A value from reread makes the
// server read the file again; see [web.FollowTokens].
func (o *AccessFlags) Tokens(log *slog.Logger, reread <-chan struct{}) (*web.Tokens, error) {
	if o.TokenFile == "" {
		return nil, nil
	}
	return o.ClientTokens(log, reread)
}

// ClientTokens is like Tokens for a command whose config may have clients with tokens: without a file, it returns no
// tokens instead of nil.
func (o *AccessFlags) ClientTokens(log *slog.Logger, reread <-chan struct{}) (*web.Tokens, error) {
	t, err := web.FollowTokens(o.TokenFile, reread, log)
	if err != nil {
		return nil, webFailure(err)
	}
	return t, nil
}

// Listen creates a server and its listener. set, if not nil, modifies the options derived from the
// flags. Errors in flags and files are usage errors.
func (o *AccessFlags) Listen(ctx context.Context, log *slog.Logger, tokens *web.Tokens, addr string, set func(*web.Options)) (*web.Server, net.Listener, error) {
	opts := web.Options{Origins: o.origins, TrustProxy: o.trustProxy, Tokens: tokens, Logger: log}
	if o.tlsCert != "" {
		var err error
		if opts.TLS, err = web.LoadTLS(o.tlsCert, o.tlsKey); err != nil {
			return nil, nil, webFailure(err)
		}
	}
	if set != nil {
		set(&opts)
	}
	srv, err := web.New(opts)
	if err != nil {
		return nil, nil, webFailure(err)
	}
	ln, err := srv.Listen(ctx, portOnThisMachine(addr))
	return srv, ln, webFailure(err)
}

// portOnThisMachine returns the loopback address for a bare port; other addresses are unchanged.
func portOnThisMachine(addr string) string {
	if _, err := strconv.ParseUint(addr, 10, 16); err != nil {
		return addr
	}
	return net.JoinHostPort("127.0.0.1", addr)
}

// httpURL returns the text of a URL for a port, [HOST]:PORT or [HOST]:PORT/PATH. Other texts are
// unchanged.
func httpURL(text string) string {
	addr, path, hasPath := strings.Cut(text, "/")
	host, port, err := net.SplitHostPort(portOnThisMachine(addr))
	if _, invalid := strconv.ParseUint(port, 10, 16); err != nil || invalid != nil {
		return text
	}
	u := "http://" + net.JoinHostPort(cmp.Or(host, "127.0.0.1"), port)
	if hasPath {
		u += "/" + path
	}
	return u
}

func webFailure(err error) error {
	if _, ok := errors.AsType[*web.OptionError](err); ok {
		return Usage("--%w", err)
	}
	return err
}

// mcpPath is the path of the MCP endpoint over HTTP.
const mcpPath = "/mcp"

// MCPFlags contains the flags that control how clients connect to a command that serves MCP.
type MCPFlags struct {
	Stdio  bool
	addr   string
	Access AccessFlags
}

func (o *MCPFlags) Add(cmd *cobra.Command, addr string) {
	f := cmd.Flags()
	f.BoolVar(&o.Stdio, "stdio", false, "serve one client over stdin and stdout")
	f.StringVar(&o.addr, "addr", addr, "`ADDRESS` or port to listen on; port 0 means any free one")
	o.Access.Add(cmd, "clients", "send requests")
}

func (o *MCPFlags) Check(cmd *cobra.Command) error {
	if o.Stdio && (cmd.Flags().Changed("addr") || o.Access.Set()) {
		return Usage("--stdio cannot be used with --addr or the flags for HTTP clients")
	}
	return o.Access.Check()
}

// SessionDir returns the directory for client sessions in the command's data directory. It returns
// "" if sessions are not stored, because there is no data directory or the client uses stdio.
func (o *MCPFlags) SessionDir(data string) string {
	if data == "" || o.Stdio {
		return ""
	}
	return filepath.Join(data, "sessions")
}

// MCPEndpoint describes what a command serves over HTTP.
type MCPEndpoint struct {
	Handler http.Handler
	Card    servercard.Own          // describes the server in its card; Version, Path and Token are set by OverHTTP
	Routes  map[string]http.Handler // additional routes, by pattern
	Tokens  *web.Tokens             // nil if clients need no token
	Ready   func() error            // status of /readyz; nil means always ready
	Closing func()                  // ends the handler's streams when the server stops
	// Listening is called with the URL of the endpoint when clients can connect. May be nil.
	Listening func(url string)
}

// OverHTTP listens immediately, so that an invalid address is reported before anything else starts.
// The returned function serves requests until its context ends.
func (o *MCPFlags) OverHTTP(ctx context.Context, env *Env, log *slog.Logger, e MCPEndpoint) (func(context.Context) error, error) {
	srv, ln, err := o.Access.Listen(ctx, log, e.Tokens, o.addr, func(w *web.Options) { w.MCP, w.Ready = true, e.Ready })
	if err != nil {
		return nil, err
	}
	srv.Handle(mcpPath, e.Handler)
	srv.Handle(mcpPath+"/{$}", e.Handler) // some clients add a slash
	e.Card.Version, e.Card.Path, e.Card.Token = env.Version, mcpPath, e.Tokens.Set()
	for path, h := range e.Card.Routes(srv.Base) {
		srv.Handle(path, web.Open{Handler: h, Public: true})
	}
	for pattern, h := range e.Routes {
		srv.Handle(pattern, h)
	}
	srv.OnShutdown(func(context.Context) error {
		e.Closing()
		return nil
	})
	return func(ctx context.Context) error {
		if ctx.Err() != nil {
			return ln.Close()
		}
		fmt.Fprintf(env.Err, "listening on %s%s\n", srv.URL(), mcpPath)
		if e.Listening != nil {
			e.Listening(srv.URL() + mcpPath)
		}
		return srv.Serve(ctx, ln)
	}, nil
}

// HookRoute returns the handler of hook.Path. Requests are authenticated by their signatures, and arrive
// under any name.
func HookRoute(r *hook.Receiver) http.Handler {
	return web.Open{Handler: r, MaxBody: 2*hook.MaxBody + 1, AnyHost: true}
}

// ClaudeCode returns the command that adds an endpoint to Claude Code under a name. It refers to the
// file with the token, and never contains the token.
func (o *MCPFlags) ClaudeCode(name, url string) string {
	add := "claude mcp add --transport http " + name + " " + url
	if o.Access.TokenFile != "" {
		file := strings.ReplaceAll(printable.Line(o.Access.TokenFile, 0), "'", `'\''`)
		add += ` --header "Authorization: Bearer $(cat '` + file + `')"`
	}
	return add
}

// WhileRunning runs run, which keeps a server up to date, and starts serve once ready is closed. If
// one of them returns, it stops the other.
func WhileRunning(ctx context.Context, run func(context.Context) error, ready <-chan struct{}, serve func(context.Context) error) error {
	running, working := errgroup.WithContext(ctx)
	running.Go(func() error {
		if err := run(working); working.Err() == nil {
			return cmp.Or(err, ErrStopped)
		}
		return nil
	})
	running.Go(func() error {
		select {
		case <-ready:
		case <-working.Done():
		}
		return cmp.Or(serve(working), ErrStopped)
	})
	err := running.Wait()
	if errors.Is(err, ErrStopped) || ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return nil
	}
	return err
}

// ErrStopped is the cause that stops the other parts of a command after one part has ended without
// a failure.
var ErrStopped = errors.New("stopped")
