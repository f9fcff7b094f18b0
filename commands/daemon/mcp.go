package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/atomicfile"
	"github.com/mcptrack/mcptrack/core/daemon"
	"github.com/mcptrack/mcptrack/core/hook"
	"github.com/mcptrack/mcptrack/core/secretfile"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/output/metrics"
	"github.com/mcptrack/mcptrack/output/web"
)

// httpFlags contains the flags for clients that connect over HTTP.
type httpFlags struct {
	addr   string
	access cli.AccessFlags
}

func (o *httpFlags) check() error {
	if o.addr == "" && o.access.Set() {
		return cli.Usage("the flags for HTTP clients need --http")
	}
	return o.access.Check()
}

// tokens returns the tokens of HTTP clients, or nil without --http. If no file is specified, they are in
// one that mcptrack creates, whose name it stores in the flags.
func (o *httpFlags) tokens(env *cli.Env, g *cli.Globals, log *slog.Logger) (*web.Tokens, error) {
	if o.addr == "" {
		return nil, nil
	}
	if o.access.TokenFile == "" {
		dir := env.StateDir("daemon")
		if dir == "" {
			return nil, cli.Usage("no home directory to store a token in; set --token-file")
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		o.access.TokenFile = filepath.Join(dir, "http.token")
		if _, err := secretfile.Key(o.access.TokenFile); err != nil {
			return nil, err
		}
	}
	return o.access.Tokens(log, (&cli.TrackFlags{}).Reloads(env, g))
}

// listen listens for HTTP clients of the daemon. serve serves them until its context ends; meanwhile a
// file tells mcptrack connect --http where the daemon is.
func (o *httpFlags) listen(ctx context.Context, env *cli.Env, log *slog.Logger, tokens *web.Tokens, d *daemon.Daemon, received *hook.Receiver, counts *metrics.Metrics) (serve func(context.Context) error, err error) {
	srv, ln, err := o.access.Listen(ctx, log, tokens, o.addr, func(w *web.Options) { w.MCP = true })
	if invalid, ok := errors.AsType[*web.OptionError](err); ok && invalid.Option == "addr" {
		return nil, cli.Usage("--http: %s", invalid.Reason)
	}
	if err != nil {
		return nil, err
	}
	srv.Handle(daemon.MCPPath, d.MCP())
	srv.Handle(hook.Path, cli.HookRoute(received))
	srv.Handle("GET /metrics", counts.Handler())
	return func(ctx context.Context) error {
		forget, err := o.announce(env, fromHere(srv.URL()))
		if err != nil {
			return errors.Join(err, ln.Close())
		}
		defer forget()
		fmt.Fprintf(env.Err, "listening on %s%s\n", srv.URL(), daemon.MCPPath)
		return srv.Serve(ctx, ln)
	}, nil
}

// fromHere returns the URL with which programs of this machine reach a server: those that listen on all
// addresses also listen on the loopback address.
func fromHere(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return text
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil && ip.IsUnspecified() {
		u.Host = net.JoinHostPort("127.0.0.1", u.Port())
	}
	return u.String()
}

// announce writes the file that mcptrack connect --http reads. forget removes it, unless another daemon
// has written it since.
func (o *httpFlags) announce(env *cli.Env, url string) (forget func(), err error) {
	dir := env.StateDir("daemon")
	if dir == "" {
		return func() {}, nil // connect has nowhere to look for it either
	}
	file, err := filepath.Abs(o.access.TokenFile)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(struct {
		URL       string `json:"url"`
		TokenFile string `json:"tokenFile"`
	}{url, file})
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	at := filepath.Join(dir, "http.json")
	return func() {
		if now, err := secretfile.ReadAll(at); err == nil && bytes.Equal(now, text) {
			_ = os.Remove(at) // if it stays, connect reports that it cannot connect
		}
	}, atomicfile.Replace(at, 0o600, text)
}

// lookupEnv looks up the variables with which the configs of HTTP clients are read: those that tell
// where the user's folders and programs are.
func lookupEnv(env *cli.Env) func(name string) (string, bool) {
	return func(name string) (string, bool) {
		if !slices.ContainsFunc(session.Inherited(), func(n string) bool { return strings.EqualFold(n, name) }) {
			return "", false
		}
		return env.LookupEnv(name)
	}
}
