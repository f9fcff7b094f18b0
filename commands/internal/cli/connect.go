package cli

import (
	"context"
	"log/slog"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/login"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
)

// ConnectFlags contains the flags of commands that connect to servers.
type ConnectFlags struct {
	connectTimeout time.Duration
	Timeout        time.Duration
}

// Add adds all flags.
func (c *ConnectFlags) Add(cmd *cobra.Command) {
	c.AddServing(cmd)
	cmd.Flags().DurationVar(&c.Timeout, "timeout", 0, "exit after this `DURATION`")
}

// AddServing adds the flags for a command that runs until it is stopped: all except --timeout.
func (c *ConnectFlags) AddServing(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&c.connectTimeout, "connect-timeout", defaultConnectTimeout, "`DURATION` that one connection may take")
	_ = cmd.Flags().MarkHidden("connect-timeout") // the config has it for each server
}

func (c *ConnectFlags) Parse() error {
	switch {
	case c.connectTimeout <= 0:
		return Usage("--connect-timeout must be positive")
	case c.Timeout < 0:
		return Usage("--timeout must not be negative")
	}
	return nil
}

// Bound returns a context that ends with cause ErrTimeout when --timeout expires.
func (c *ConnectFlags) Bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	stop := func() {}
	if c.Timeout > 0 {
		ctx, stop = context.WithTimeoutCause(ctx, c.Timeout, ErrTimeout)
	}
	return ctx, func() { end(errReturned); stop() }
}

// Run validates the flags and calls run with the context of Bound. The command gets the same context, so
// that the cause of its end is in the error that the user sees.
func (c *ConnectFlags) Run(cmd *cobra.Command, run func(ctx context.Context) error) error {
	if err := c.Parse(); err != nil {
		return err
	}
	ctx, cancel := c.Bound(cmd.Context())
	defer cancel()
	cmd.SetContext(ctx)
	return run(ctx)
}

// SessionOptions returns the session options that the flags specify.
func (c *ConnectFlags) SessionOptions(env *Env, g *Globals) session.Options {
	return session.Options{ClientVersion: env.Version, ConnectTimeout: c.connectTimeout,
		Environ: env.LookupEnv, Logger: g.Logger(env), Limits: g.limits, Tracer: g.Tracer(), Logins: env.Logins(g, "", g.Logger(env))}
}

// defaultConnectTimeout is the default of --connect-timeout.
const defaultConnectTimeout = 15 * time.Second

const limitUsage = "limits on what one server may send, as `NAME=VALUE,...`, such as items=50000; see mcptrack help limits"

// parseLimits parses the values of --limit.
func parseLimits(values map[string]string) (session.Limits, error) {
	var l session.Limits
	sets := map[string]func(int64){
		"pages": func(n int64) { l.MaxPages = int(n) }, "items": func(n int64) { l.MaxItems = int(n) }, "list": func(n int64) { l.MaxList = n },
		"line": func(n int64) { l.MaxLine = int(n) }, "body": func(n int64) { l.MaxBody = n }, "dirty": func(n int64) { l.MaxDirty = int(n) },
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		n, ok := config.ParseBytes(values[name], math.MaxInt32) // math.MaxInt32 fits into an int on every platform
		if !ok {
			return l, Usage("invalid --limit %s=%s; expected a positive number such as 500, 64KiB or 16MiB", printable.Line(name, 40), printable.Line(values[name], 40))
		}
		set, known := sets[name]
		if !known {
			names := slices.Sorted(maps.Keys(sets))
			return l, UsageHint(DidYouMean(name, names, "choose "+Join(names, 10)), "unknown limit %q in --limit", printable.Line(name, 40))
		}
		set(n)
	}
	return l, nil
}

// TokenStoreKey is the environment variable that sets the default of --token-store.
const TokenStoreKey = "MCPTRACK_TOKEN_STORE"

// Logins returns the user's stored logins, or nil if the user has no config folder. An unknown
// store kind in the environment is ignored.
func (e *Env) Logins(g *Globals, kind string, log *slog.Logger) *login.Store {
	dir := config.Options{Getenv: e.LookupEnv, UserHome: e.Getenv("HOME")}.Folders().AppConfig
	if dir == "" {
		return nil
	}
	if kind == "" {
		kind = e.Getenv(TokenStoreKey)
	}
	if !slices.Contains(TokenStores(), kind) {
		kind = ""
	}
	return login.NewStore(login.Options{Dir: filepath.Join(dir, "mcptrack", "logins"), Kind: login.Kind(kind), Logger: log, Flags: strings.Join(g.OfHost(), " ")})
}

// TokenStores returns the values of --token-store.
func TokenStores() []string {
	return []string{string(login.KindKeyring), string(login.KindFile), string(login.KindMemory)}
}
