package gateway

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/gateway"
	"github.com/mcptrack/mcptrack/core/printable"
)

// pinFlags contains the flags for pinned tools.
type pinFlags struct {
	pin   bool
	repin []string
}

func (o *pinFlags) add(f *pflag.FlagSet) {
	f.BoolVar(&o.pin, "pin", false, "drop tools that changed since they were first listed, by this run or an earlier one")
	f.StringArrayVar(&o.repin, "repin", nil, "remove the pins of `SERVER[:TOOL]` and exit; the next list is pinned again (repeatable)")
}

// pins opens the stored pins for the config's servers. A demo keeps its pins only in memory. The
// default directory does not depend on --events, so that a gateway finds its pins with and without
// it.
func (o *options) pins(env *cli.Env, g *cli.Globals, cfg *config.Config) (*gateway.Pins, error) {
	if g.Demo() {
		return gateway.NewPins("", ""), nil
	}
	dir := o.events.Dir
	if dir == "" {
		dir = env.StateDir()
	}
	if dir == "" {
		return nil, cli.Usage("no home directory to store pins in; set --data-dir")
	}
	return gateway.NewPins(filepath.Join(dir, "gateway-pins"), cfg.Path), nil
}

// removePins implements gateway --repin.
func (o *options) removePins(ctx context.Context, env *cli.Env, g *cli.Globals) error {
	cfg := &config.Config{Path: cli.DefaultConfig} // used if only --catalog-url is given
	if _, err := g.ConfigPath(env, g.Logger(env)); o.catalogURL == "" || err == nil {
		if cfg, err = g.Read(env, g.Logger(env)); err != nil { // no approval needed: nothing is started
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
			return cli.UnknownServer(known, name, nil)
		}
		named = append(named, pin{server, tool})
	}
	pins, err := o.pins(env, g, cfg)
	if err != nil {
		return err
	}
	for i, p := range named {
		n, err := pins.Forget(ctx, p.server, p.tool)
		switch name := printable.Line(o.repin[i], 300); {
		case err != nil:
			return fmt.Errorf("%s: %w", printable.Line(p.server, 128), err)
		case n == 0:
			return &cli.Failure{Exit: cli.ExitRefused, Code: "not_pinned", Err: fmt.Errorf("%q is not pinned", name),
				Hint: "SERVER is a server id in the config, and TOOL is the server's own name for a tool; each --config and --data-dir has separate pins"}
		default:
			fmt.Fprintf(env.Err, "%s: %s removed\n", name, cli.Plural(n, "pin"))
		}
	}
	return nil
}

// splitTool splits SERVER[:TOOL]. Both parts may contain colons; the longest matching server id is
// used.
func splitTool(cfg *config.Config, name string) (server, tool string) {
	for end := len(name); end > 0; end = strings.LastIndexByte(name[:end], ':') {
		if _, ok := cfg.Server(name[:end]); ok && name[end:] != ":" {
			return name[:end], strings.TrimPrefix(name[end:], ":")
		}
	}
	return "", ""
}
