package commands

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/gateway"
	"github.com/mcptrack/mcptrack/core/gateway/upstream"
	"github.com/mcptrack/mcptrack/core/glob"
	"github.com/mcptrack/mcptrack/core/printable"
)

type gatewayOptions struct {
	connectFlags
	indexFlags
	mcpFlags
	pinFlags
	events          eventsFlags
	onDown          string
	allow, deny     []string
	catalogURL      string
	catalogInterval time.Duration
	callTimeout     time.Duration
	wait            time.Duration
	trackFlags
}

func newGateway(env *Env, g *globals) *cobra.Command {
	var opts gatewayOptions
	cmd := &cobra.Command{
		Use:         "gateway",
		Short:       "Serve all tracked servers through one MCP endpoint",
		Annotations: manualPage("gateway"),
		Example: `  mcptrack gateway --demo
  mcptrack gateway --config mcp-servers.json --deny '*delete*' --on-down drop
  mcptrack gateway --catalog-url https://api.example --index
  mcptrack gateway --all --events
  mcptrack gateway --all --change-tools --stdio
  mcptrack gateway --addr :8723 --token-file token

  # Accept that a tool has changed
  mcptrack gateway --repin docs:search`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := opts.mcpFlags.check(cmd); err != nil {
				return err
			}
			opts.indexFlags.fromEnv(env, cmd.Flags().Changed)
			if err := opts.parse(); err != nil {
				return err
			}
			if err := opts.events.parse(cmd, opts.pin || len(opts.repin) > 0); err != nil {
				return err
			}
			if len(opts.repin) > 0 {
				return opts.removePins(cmd.Context(), env, g)
			}
			return runGateway(cmd.Context(), env, g, opts)
		},
	}
	opts.mcpFlags.add(cmd, "127.0.0.1:8723")
	f := cmd.Flags()
	f.StringVar(&opts.onDown, "on-down", "keep", "`ACTION` for the items of a server that is down: keep or drop")
	f.StringArrayVar(&opts.allow, "allow", nil, "serve only names and URIs that match this `GLOB` (repeatable)")
	f.StringArrayVar(&opts.deny, "deny", nil, "do not serve names and URIs that match this `GLOB`; a denied URI does not stop a tool that reads it (repeatable)")
	f.BoolVar(&opts.allServers, "all", false, "serve all enabled servers, not only tracked ones")
	opts.pinFlags.add(f)
	f.StringVar(&opts.catalogURL, "catalog-url", "", "`URL` of an HTTP API that describes its tools")
	f.DurationVar(&opts.catalogInterval, "catalog-interval", config.DefaultCatalogInterval, "`DURATION` between two checks of the --catalog-url for changes")
	opts.indexFlags.add(f)
	opts.events.add(cmd)
	f.DurationVar(&opts.callTimeout, "call-timeout", 10*time.Minute, "`DURATION` without progress after which a call fails")
	f.DurationVar(&opts.wait, "wait", 10*time.Second, "`DURATION` to wait for servers before serving the first client")
	f.BoolVar(&opts.demo, "demo", false, "serve a built-in demo server; no config needed")
	opts.addReload(cmd)
	f.DurationVar(&opts.connectTimeout, "connect-timeout", 15*time.Second, "`DURATION` that one connection may take")
	opts.addLimit(f)
	_ = cmd.RegisterFlagCompletionFunc("repin", completeServers(env, g))
	_ = cmd.RegisterFlagCompletionFunc("on-down", cobra.FixedCompletions([]string{"keep", "drop"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (o *gatewayOptions) parse() error {
	if err := o.connectFlags.parse(); err != nil {
		return err
	}
	if o.onDown != string(gateway.Keep) && o.onDown != string(gateway.Drop) {
		return usage("unknown --on-down %q; choose keep or drop", printable.Line(o.onDown, 40))
	}
	for flag, globs := range map[string][]string{"allow": o.allow, "deny": o.deny} {
		for _, g := range globs {
			if g == "" {
				return usage("--%s is empty: it would match nothing", flag) // most likely from an unset shell variable
			}
			if !glob.Valid(g) {
				return usage("invalid glob %q in --%s", printable.Line(g, 200), flag)
			}
		}
	}
	if o.callTimeout <= 0 || o.wait < 0 || o.catalogInterval <= 0 {
		return usage("--call-timeout and --catalog-interval must be positive, and --wait not negative")
	}
	if o.catalogURL != "" {
		if _, err := upstream.New(upstream.FromConfig(o.catalog())); err != nil {
			return usage("--catalog-url: %w", err)
		}
	}
	return o.indexFlags.parse()
}

// catalogID is the id of the server that --catalog-url adds.
const catalogID = "catalog"

func (o *gatewayOptions) catalog() config.Server {
	return config.Server{ID: catalogID, Enabled: true, Transport: config.TransportCatalog, URL: config.NewSecret(o.catalogURL),
		CatalogInterval: o.catalogInterval}
}

// exported returns the config with only the servers that the gateway serves.
func (o *gatewayOptions) exported(cfg *config.Config) *config.Config {
	out := cfg.Only(func(srv config.Server) bool {
		if srv.ID == catalogID && o.catalogURL != "" {
			return false // refused at the start, so it came later
		}
		return srv.Enabled && (o.allServers || srv.Tracked() || srv.Transport == config.TransportCatalog)
	})
	if o.catalogURL != "" {
		out.Servers = append(out.Servers, o.catalog())
	}
	if o.allServers && (o.events.on || o.events.tools) {
		out = withAllTracked(out)
	}
	return out
}

// leftOut returns the ids of the enabled servers of a config that are not exported.
func (o *gatewayOptions) leftOut(cfg, exported *config.Config) (ids []string) {
	for _, srv := range cfg.Servers {
		if _, served := exported.Server(srv.ID); srv.Enabled && !served {
			ids = append(ids, printable.Line(srv.ID, 128))
		}
	}
	return ids
}
