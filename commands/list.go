package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/briandowns/spinner"
	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/tracker"
	"github.com/mcptrack/mcptrack/output/document"
	"github.com/mcptrack/mcptrack/output/table"
)

// connectFlags are of every command that connects to servers.
type connectFlags struct {
	connectTimeout time.Duration
	timeout        time.Duration
	limit          map[string]string

	limits session.Limits // what limit says; set by check
}

func (c *connectFlags) add(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&c.connectTimeout, "connect-timeout", 15*time.Second, "`TIME` that one connection may take")
	cmd.Flags().DurationVar(&c.timeout, "timeout", 0, "`TIME` that the whole command may take (default no limit)")
	cmd.Flags().StringToStringVar(&c.limit, "limit", nil, limitHelp)
}

func (c *connectFlags) check() (err error) {
	if c.connectTimeout <= 0 || c.timeout < 0 {
		return usage("--connect-timeout and --timeout must be positive")
	}
	c.limits, err = parseLimits(c.limit)
	return err
}

// bound ends ctx with errTimeout when --timeout runs out.
func (c *connectFlags) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	stop := func() {}
	if c.timeout > 0 {
		ctx, stop = context.WithTimeoutCause(ctx, c.timeout, errTimeout)
	}
	return ctx, func() { end(errReturned); stop() }
}

// session are the options for connecting.
func (c *connectFlags) session(env *Env, g *globals) session.Options {
	return session.Options{ClientVersion: env.Version, ConnectTimeout: c.connectTimeout,
		Environ: env.LookupEnv, Logger: g.logger(env), Limits: c.limits}
}

type listOptions struct {
	connectFlags
	kind    catalog.Kind // "": the servers themselves
	servers []string
}

func newList(env *Env, g *globals) *cobra.Command {
	var opts listOptions
	cmd := &cobra.Command{
		Use:   "list [servers|resources|templates|prompts|tools] [SERVER...]",
		Short: "Show what the servers offer, and which of them answer",
		Long: `Connects to all enabled servers of the config side by side, or to those named,
prints what they offer, and leaves. A kind that a server does not offer is empty.

Exit codes: 0 all answered; 1 failed; 2 wrong usage; 3 config invalid or missing;
4 some servers could not be reached (what the others said is printed);
6 --timeout ran out; 130 interrupted.`,
		Example: `  mcptrack list
  mcptrack list tools docs
  mcptrack list resources --json | jq -r '.[].uri'
  mcptrack list -o 'template={{.id}} {{.state}}'`,
		ValidArgsFunction: completeList(env, g),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := opts.check(); err != nil {
				return err
			}
			opts.kind, opts.servers = "", args
			if len(args) > 0 && (args[0] == "servers" || slices.Contains(catalog.Kinds(), catalog.Kind(args[0]))) {
				opts.servers = args[1:]
				if args[0] != "servers" {
					opts.kind = catalog.Kind(args[0])
				}
			}
			ctx, cancel := opts.bound(cmd.Context())
			defer cancel()
			cmd.SetContext(ctx)
			return runList(ctx, env, g, opts)
		},
	}
	opts.add(cmd)
	return cmd
}

func runList(ctx context.Context, env *Env, g *globals, opts listOptions) error {
	cfg, err := g.load(env, g.logger(env))
	if err != nil {
		return err
	}
	servers, err := selectServers(cfg, opts.servers)
	if err != nil {
		return err
	}
	var kinds []catalog.Kind
	if opts.kind != "" {
		kinds = []catalog.Kind{opts.kind}
	}
	progress, stop := listProgress(env, g, len(servers))
	defer stop()
	reports := tracker.Probe(ctx, servers, tracker.ProbeOptions{
		Dial: env.Dial, Session: opts.session(env, g), Kinds: kinds, Progress: progress})
	stop()
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errTimeout) {
		return ctx.Err()
	}
	remember(env, cfg.Path, reports)
	if err := writeList(env, g, opts.kind, reports); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return unreachable(reports, g.format.Table() && opts.kind == "")
}

// listProgress shows how many servers have answered, on a terminal. stop takes it
// away and may be called more than once.
func listProgress(env *Env, g *globals, total int) (progress func(tracker.Report), stop func()) {
	if !env.ErrTTY || total == 0 {
		return nil, func() {}
	}
	var answered atomic.Int64
	s := newSpinner(env, g)
	suffix := func() string { return fmt.Sprintf(" asking servers: %d of %d answered", answered.Load(), total) }
	s.PreUpdate = func(s *spinner.Spinner) { s.Suffix = suffix() }
	s.Suffix = suffix()
	s.Start()
	return func(tracker.Report) { answered.Add(1) }, s.Stop
}

// unreachable is the failure when a server could not be asked; told when the
// table that was printed says so already.
func unreachable(reports []tracker.Report, told bool) error {
	var failed []string
	for _, r := range reports {
		if r.Err != nil {
			failed = append(failed, fmt.Sprintf("%s: %v", r.Server.ID, r.Err))
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return &failure{exit: exitUnreachable, code: "unreachable", told: told,
		err: fmt.Errorf("%d of %d servers could not be asked: %s", len(failed), len(reports), strings.Join(failed, "; "))}
}

// serverRow is one element of list servers --json.
type serverRow struct {
	ID              string           `json:"id"`
	Transport       config.Transport `json:"transport"`
	State           string           `json:"state"`
	ProtocolVersion string           `json:"protocolVersion"`
	Era             session.Era      `json:"era"`
	ServerName      string           `json:"serverName"`
	ServerVersion   string           `json:"serverVersion"`
	Tracked         bool             `json:"tracked"`
	Capabilities    any              `json:"capabilities"`
	Resources       int              `json:"resources"`
	Templates       int              `json:"templates"`
	Prompts         int              `json:"prompts"`
	Tools           int              `json:"tools"`
	Error           string           `json:"error,omitempty"`
}

func newServerRow(r tracker.Report) serverRow {
	row := serverRow{ID: r.Server.ID, Transport: r.Info.Transport, State: "ready",
		ProtocolVersion: r.Info.ProtocolVersion, Era: r.Info.Era,
		ServerName: r.Info.ServerName, ServerVersion: r.Info.ServerVersion,
		Tracked: r.Server.Tracked(), Capabilities: map[string]any{},
		Resources: len(r.Lists[catalog.Resources]), Templates: len(r.Lists[catalog.Templates]),
		Prompts: len(r.Lists[catalog.Prompts]), Tools: len(r.Lists[catalog.Tools])}
	if row.Transport == "" {
		row.Transport = r.Server.Transport
	}
	if len(r.Info.RawCapabilities) > 0 {
		row.Capabilities = r.Info.RawCapabilities
	}
	if r.Err != nil {
		row.State, row.Error = "failed", r.Err.Error()
	}
	return row
}

func writeList(env *Env, g *globals, kind catalog.Kind, reports []tracker.Report) error {
	tables := table.Options{Wide: g.format.Wide()}
	if env.OutTTY {
		tables.Width = env.Width
	}
	switch {
	case g.format.Table() && kind == "":
		return table.Servers(env.Out, reports, tables)
	case g.format.Table():
		return table.Items(env.Out, kind, reports, tables)
	case g.format.Name == "name":
		return writeNames(env, kind, reports)
	case kind == "":
		rows := make([]serverRow, 0, len(reports))
		for _, r := range reports {
			rows = append(rows, newServerRow(r))
		}
		return document.Write(env.Out, g.format, rows)
	}
	items, err := listItems(kind, reports)
	if err != nil {
		return err
	}
	return document.Write(env.Out, g.format, items)
}
