package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/output/document"
	"github.com/mcptrack/mcptrack/output/table"
)

// connectFlags are the flags of every command that connects to servers.
type connectFlags struct {
	connectTimeout time.Duration
	timeout        time.Duration
	limit          map[string]string

	limits session.Limits // set from limit by parse
}

func (c *connectFlags) add(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&c.connectTimeout, "connect-timeout", 15*time.Second, "`DURATION` that one connection may take")
	cmd.Flags().DurationVar(&c.timeout, "timeout", 0, "`DURATION` that the whole command may take (default no limit)")
	c.addLimit(cmd.Flags())
}

func (c *connectFlags) parse() (err error) {
	if c.connectTimeout <= 0 || c.timeout < 0 {
		return usage("--connect-timeout must be positive, and --timeout not negative")
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

// session returns the options for connecting.
func (c *connectFlags) session(env *Env, g *globals) session.Options {
	return session.Options{ClientVersion: env.Version, ConnectTimeout: c.connectTimeout,
		Environ: env.LookupEnv, Logger: g.logger(env), Limits: c.limits, Logins: env.logins(g, "", g.logger(env))}
}

type listOptions struct {
	connectFlags
	kind    catalog.Kind // "": the servers themselves
	servers []string
	demo    bool
}

func newList(env *Env, g *globals) *cobra.Command {
	var opts listOptions
	cmd := &cobra.Command{
		Use:   "list [KIND] [SERVER...]",
		Short: "List servers, or what they offer, such as resources or tools",
		Long: `KIND is servers, resources, templates, prompts, tools or events; the default is servers.

Connects to all enabled servers of the config at once, or to the named ones, prints
what they offer, and exits. Servers that do not support a kind list nothing. Tables also
show disabled servers. Events are the types of MCP Events, which "events" in the config
names; see mcptrack help events.

With -o template=... the template is run once for each server or item; numbers
compare, and keys that an item lacks print nothing.

Exit codes: 0 all servers answered; 1 failed; 2 wrong usage; 3 config invalid or
missing; 4 some servers could not be reached (the others are listed); 6 --timeout
expired; 130 interrupted.`,
		Example: `  mcptrack list
  mcptrack list tools docs
  mcptrack list events
  mcptrack list resources --demo
  mcptrack list resources --json | jq -r '.[].uri'
  mcptrack list -o 'template={{if .resources}}{{.id}} {{.resources}}{{end}}'`,
		ValidArgsFunction: completeList(env, g),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := opts.parse(); err != nil {
				return err
			}
			opts.kind, opts.servers = "", args
			if len(args) > 0 && slices.Contains(listKinds(), args[0]) {
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
	cmd.Flags().BoolVar(&opts.demo, "demo", false, "list a built-in demo server; no config needed")
	return cmd
}

// listKinds are the words that the first argument may be.
func listKinds() []string {
	kinds := []string{"servers"}
	for _, k := range catalog.Kinds() {
		kinds = append(kinds, string(k))
	}
	return append(kinds, string(catalog.Events))
}

func runList(ctx context.Context, env *Env, g *globals, opts listOptions) error {
	cfg, err := demoConfig(env), error(nil)
	if !opts.demo {
		if cfg, err = g.load(ctx, env, g.logger(env)); err != nil {
			return err
		}
	}
	var kindsToo []string // the first argument may be a misspelled kind
	if opts.kind == "" {
		kindsToo = listKinds()
	}
	servers, err := selectServers(cfg, opts.servers, kindsToo...)
	if err != nil {
		return err
	}
	var kinds []catalog.Kind
	if opts.kind != "" {
		kinds = []catalog.Kind{opts.kind}
	}
	beside, progress, stop := listProgress(env, g, len(servers))
	defer stop()
	reports := session.Probe(ctx, servers, session.ProbeOptions{
		Dial: env.Dial, Session: opts.session(beside, g), Kinds: kinds, Tracked: opts.kind == "", Progress: progress})
	stop()
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errTimeout) {
		return ctx.Err()
	}
	if !opts.demo {
		remember(env, cfg.Path, reports)
	}
	shown := reports
	if g.format.Table() && opts.kind == "" && len(opts.servers) == 0 {
		shown = withDisabled(reports, cfg)
	}
	if err := writeList(env, g, opts.kind, shown); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return unreachable(reports, g.format.Table() && opts.kind == "")
}

// withDisabled adds the servers that were not asked because the config disables them.
func withDisabled(reports []session.Report, cfg *config.Config) []session.Report {
	all := slices.Clone(reports)
	for _, srv := range cfg.Servers {
		if !srv.Enabled && srv.Transport != config.TransportCatalog {
			all = append(all, session.Report{Server: srv})
		}
	}
	slices.SortFunc(all, func(a, b session.Report) int { return strings.Compare(a.Server.ID, b.Server.ID) })
	return all
}

// listProgress shows on a terminal how many servers have answered. Meanwhile stderr is that of
// beside. stop removes the line and may be called more than once.
func listProgress(env *Env, g *globals, total int) (beside *Env, progress func(session.Report), stop func()) {
	if !env.ErrTTY || g.quiet || total == 0 {
		return env, nil, func() {}
	}
	var answered atomic.Int64
	s := newSpinner(env, g, func() string { return fmt.Sprintf("asking servers: %d of %d answered", answered.Load(), total) })
	s.Start()
	return s.beside(env), func(session.Report) { answered.Add(1) }, s.stop
}

// unreachable is the failure if servers could not be reached, nil if all could. reported
// is set if the printed table already shows it.
func unreachable(reports []session.Report, reported bool) error {
	var failed []string
	for _, r := range reports {
		if r.Err != nil {
			failed = append(failed, fmt.Sprintf("%s: %v", r.Server.ID, r.Err))
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return &failure{exit: exitUnreachable, code: "unreachable", reported: reported,
		err: fmt.Errorf("%d of %d servers could not be reached: %s", len(failed), len(reports), strings.Join(failed, "; "))}
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

func newServerRow(r session.Report) serverRow {
	row := serverRow{ID: r.Server.ID, Transport: r.Info.Transport, State: r.State(),
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
		row.Error = r.Err.Error()
	}
	return row
}

func writeList(env *Env, g *globals, kind catalog.Kind, reports []session.Report) error {
	tables := table.Options{Wide: g.format.Wide(), Colour: g.colours(env, env.OutTTY)}
	tables.Width = env.width()
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
