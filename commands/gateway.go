package commands

import (
	"time"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/gateway"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/upstream"
)

type gatewayOptions struct {
	connectFlags
	indexFlags
	mcpFlags
	onDown          string
	allow, deny     []string
	all             bool
	pin             bool
	catalogURL      string
	catalogInterval time.Duration
	callTimeout     time.Duration
	wait            time.Duration
	demo            bool
	noFollow        bool
	holdCommands    bool
}

func newGateway(env *Env, g *globals) *cobra.Command {
	var opts gatewayOptions
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "Serve all tracked servers as one MCP server whose lists are always current",
		Long: `Is an MCP server over all tracked servers of the config: their tools, prompts,
resources, templates and completions, for clients of both protocol eras. It keeps the
connections, reconnects and reloads, so that clients need not: a change of any server
is there in one step, and calls go on with progress, cancellation and errors.

Names: with one server they stay. With several, NAME of server ID is ID_NAME. Where
that is no name for all clients (letters, digits, "_", "-", "."; at most 64), or could
be another server's, it is that with other characters as "_", cut to 55, and "_" with
8 hex digits of SHA-256 over ID, a zero byte and NAME. So a name depends on the set of
configured servers and on nothing else. URIs and templates stay; one that several
servers list becomes mcptrack://server/ID/URI, which works for every resource.

A server that is down keeps its items, marked with "mcptrack/down" in _meta, unless
--on-down drop. What clients could choke on (no name, hidden characters, a schema that
is none, more than 256 KiB) is left out, with a warning. Credentials of clients are
never passed on.

--allow and --deny are globs over what things are called here; --deny also over what
their server calls them. --pin leaves out a tool that is no longer what it was when the
gateway first listed it. --catalog-url adds the tools that an HTTP API describes
(GET /api/version, /api/mcp/tools), as {"type": "catalog", "url": ...} does in the
config. --index adds a description of it all as resources (capability-index://summary,
full, stats) and the tool search_capabilities; MCPTRACK_INDEX=1, MCPTRACK_INDEX_EXPOSE
and MCPTRACK_INDEX_TTL do the same, and so does "index": {"enabled": true, "expose":
["summary"], "ttl": "5m"} in the config. Flags win, then the environment.

Exit codes: 0 stopped, or the client left; 1 failed (address taken); 2 wrong usage;
3 config invalid or missing.`,
		Example: `  # For a client that starts its servers: {"mcpServers": {"all": {"command": "mcptrack", "args": ["gateway", "--stdio", "--config", "mcp-servers.json"]}}}
  mcptrack gateway --demo
  mcptrack gateway --config mcp-servers.json --deny '*delete*' --on-down drop
  mcptrack gateway --catalog-url https://api.example --index --index-expose summary,stats
  mcptrack gateway --addr 0.0.0.0:8723 --token-file token --allow-origin https://app.example`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := opts.mcpFlags.check(cmd); err != nil {
				return err
			}
			opts.indexFlags.fromEnv(env, cmd.Flags().Changed)
			if err := opts.check(); err != nil {
				return err
			}
			return runGateway(cmd.Context(), env, g, opts)
		},
	}
	opts.mcpFlags.add(cmd, "127.0.0.1:8723")
	f := cmd.Flags()
	f.StringVar(&opts.onDown, "on-down", "keep", "`WHAT` becomes of the items of a server that is down: keep or drop")
	f.StringArrayVar(&opts.allow, "allow", nil, "`GLOB` of names and URIs to serve; default all (repeatable)")
	f.StringArrayVar(&opts.deny, "deny", nil, "`GLOB` of names and URIs not to serve (repeatable)")
	f.BoolVar(&opts.all, "all", false, "serve all enabled servers, not only those with a track... key")
	f.BoolVar(&opts.pin, "pin", false, "leave out tools that change after they were first listed")
	f.StringVar(&opts.catalogURL, "catalog-url", "", "`URL` of an HTTP API that describes its tools")
	f.DurationVar(&opts.catalogInterval, "catalog-interval", config.DefaultCatalogInterval, "`TIME` between two looks at its version")
	opts.indexFlags.add(f)
	f.DurationVar(&opts.callTimeout, "call-timeout", 10*time.Minute, "`TIME` that a server may take for a call without telling of progress")
	f.DurationVar(&opts.wait, "wait", 10*time.Second, "`TIME` to wait for servers before the first client is served")
	f.BoolVar(&opts.demo, "demo", false, "serve a built-in server whose resources change; no config needed")
	f.BoolVar(&opts.noFollow, "no-follow-config", false, "do not follow changes of the config")
	f.BoolVar(&opts.holdCommands, "no-exec-on-reload", false, "do not start new or changed commands of the config before SIGHUP")
	f.DurationVar(&opts.connectTimeout, "connect-timeout", 15*time.Second, "`TIME` that one connection may take")
	f.StringToStringVar(&opts.limit, "limit", nil, limitHelp)
	_ = cmd.RegisterFlagCompletionFunc("on-down", cobra.FixedCompletions([]string{"keep", "drop"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (o *gatewayOptions) check() error {
	if err := o.connectFlags.check(); err != nil {
		return err
	}
	if o.onDown != string(gateway.Keep) && o.onDown != string(gateway.Drop) {
		return usage("unknown --on-down %q; choose keep or drop", printable.Line(o.onDown, 40))
	}
	for flag, globs := range map[string][]string{"allow": o.allow, "deny": o.deny} {
		for _, glob := range globs {
			if !doublestar.ValidatePattern(glob) {
				return usage("--%s: %q is no glob", flag, printable.Line(glob, 200))
			}
		}
	}
	if o.callTimeout <= 0 || o.wait < 0 || o.catalogInterval <= 0 {
		return usage("--call-timeout, --wait and --catalog-interval must be positive")
	}
	if o.catalogURL != "" {
		if _, err := upstream.New(upstream.FromConfig(o.catalog())); err != nil {
			return usage("--catalog-url: %w", err)
		}
	}
	return o.indexFlags.check()
}

// catalogID is the id of the server that --catalog-url adds.
const catalogID = "catalog"

func (o *gatewayOptions) catalog() config.Server {
	return config.Server{ID: catalogID, Enabled: true, Transport: config.TransportCatalog, URL: config.NewSecret(o.catalogURL),
		CatalogInterval: o.catalogInterval}
}

// exported is what of a config the gateway serves.
func (o *gatewayOptions) exported(cfg *config.Config) *config.Config {
	out := &config.Config{Path: cfg.Path}
	for _, srv := range cfg.Servers {
		if srv.Enabled && (o.all || srv.Tracked() || srv.Transport == config.TransportCatalog) {
			out.Servers = append(out.Servers, srv)
		}
	}
	if _, taken := cfg.Server(catalogID); o.catalogURL != "" && !taken {
		out.Servers = append(out.Servers, o.catalog())
	}
	return out
}
