package commands

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/gateway"
	"github.com/mcptrack/mcptrack/core/printable"
)

// pinFlags are the flags of gateway about tools that change.
type pinFlags struct {
	pin   bool
	repin []string
}

func (o *pinFlags) add(f *pflag.FlagSet) {
	f.BoolVar(&o.pin, "pin", false, "drop tools that changed since they were first listed, by this run or an earlier one")
	f.StringArrayVar(&o.repin, "repin", nil, "remove the pins of `SERVER[:TOOL]` and exit: the tools that it lists next are pinned (repeatable)")
}

// pins returns the stored pins of the config's servers. Those of a demo end with it. Without
// --data-dir they are where they are found again with and without --events.
func (o *gatewayOptions) pins(env *Env, cfg *config.Config) (*gateway.Pins, error) {
	if o.demo {
		return gateway.NewPins("", ""), nil
	}
	dir := o.events.dir
	if dir == "" {
		dir = env.stateDir()
	}
	if dir == "" {
		return nil, usage("no home directory to store pins in; set --data-dir")
	}
	return gateway.NewPins(filepath.Join(dir, "gateway-pins"), cfg.Path), nil
}

// removePins is what gateway --repin does.
func (o *gatewayOptions) removePins(ctx context.Context, env *Env, g *globals) error {
	cfg := &config.Config{Path: defaultConfig} // for --catalog-url alone
	if _, err := g.configPath(env, g.logger(env)); o.catalogURL == "" || err == nil {
		if cfg, err = g.read(env, g.logger(env)); err != nil { // it starts nothing, so it needs no approval
			return err
		}
	}
	known := cfg
	if o.catalogURL != "" {
		known = cfg.With(append(slices.Clone(cfg.Servers), o.catalog()))
	}
	type pin struct{ server, tool string }
	var named []pin
	for _, name := range o.repin {
		server, tool := splitTool(known, name)
		if server == "" {
			return unknownServer(known, name, nil)
		}
		named = append(named, pin{server, tool})
	}
	pins, err := o.pins(env, cfg)
	if err != nil {
		return err
	}
	for i, p := range named {
		n, err := pins.Forget(ctx, p.server, p.tool)
		switch name := printable.Line(o.repin[i], 300); {
		case err != nil:
			return fmt.Errorf("server %q: %w", printable.Line(p.server, 128), err)
		case n == 0:
			return &failure{exit: exitRefused, code: "not_pinned", err: fmt.Errorf("%q is not pinned", name),
				hint: "SERVER is an id of the config, TOOL the server's own name of a tool; a gateway with another --config or --data-dir has other pins"}
		default:
			fmt.Fprintf(env.Err, "%s: %s removed\n", name, plural(n, "pin"))
		}
	}
	return nil
}

// splitTool splits SERVER[:TOOL]. Both may have colons; the longest id of a server counts.
func splitTool(cfg *config.Config, name string) (server, tool string) {
	for end := len(name); end > 0; end = strings.LastIndexByte(name[:end], ':') {
		if _, ok := cfg.Server(name[:end]); ok && name[end:] != ":" {
			return name[:end], strings.TrimPrefix(name[end:], ":")
		}
	}
	return "", ""
}
