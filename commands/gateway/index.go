package gateway

import (
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/gateway"
	"github.com/mcptrack/mcptrack/core/gateway/capindex"
	"github.com/mcptrack/mcptrack/core/printable"
)

// indexFlags contains the flags for the capability index.
type indexFlags struct {
	index  bool
	expose []string
	ttl    string

	lasts time.Duration // parsed from ttl
}

func (f *indexFlags) add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.index, "index", false, "also serve an index of all capabilities")
	flags.StringSliceVar(&f.expose, "index-expose", capindex.Names(), "`NAMES` of the index documents to serve")
	flags.StringVar(&f.ttl, "index-ttl", capindex.DefaultTTL.String(), "`DURATION` for which a generated index is used")
}

// parse validates the flags. An environment variable sets a flag that is not given.
func (f *indexFlags) parse(env *cli.Env, flags *pflag.FlagSet) (err error) {
	for _, v := range [][2]string{{"index", "MCPTRACK_INDEX"}, {"index-expose", "MCPTRACK_INDEX_EXPOSE"}, {"index-ttl", "MCPTRACK_INDEX_TTL"}} {
		if value := env.Getenv(v[1]); value != "" && !flags.Changed(v[0]) && flags.Set(v[0], value) != nil {
			return cli.Usage("%s must be true or false, not %q", v[1], printable.Line(value, 40)) // only booleans can be invalid
		}
	}
	if f.lasts, err = time.ParseDuration(f.ttl); err != nil || f.lasts <= 0 {
		return cli.Usage("invalid --index-ttl (MCPTRACK_INDEX_TTL) %q; expected a duration such as 5m", printable.Line(f.ttl, 40))
	}
	if f.expose = cli.SplitList(f.expose); len(f.expose) == 0 {
		return cli.Usage("--index-expose (MCPTRACK_INDEX_EXPOSE) is empty; choose from %s", strings.Join(capindex.Names(), ", "))
	}
	if _, err := capindex.New(capindex.Options{Expose: f.expose}); err != nil {
		return cli.Usage("--index-expose (MCPTRACK_INDEX_EXPOSE): %w", err)
	}
	return nil
}

// fromConfig copies the settings that neither a flag nor the environment has set from the config,
// whose values are valid.
func (f *indexFlags) fromConfig(c config.Index, set func(flag string) bool) {
	if !set("index") {
		f.index = c.Enabled
	}
	if !set("index-expose") && len(c.Expose) > 0 {
		f.expose = c.Expose
	}
	if !set("index-ttl") && c.TTL > 0 {
		f.lasts = c.TTL
	}
}

// start returns a new index, or nil without --index.
func (f *indexFlags) start(source func() capindex.Capabilities) (*gateway.Index, error) {
	if !f.index {
		return nil, nil
	}
	return gateway.NewIndex(capindex.Options{Source: source, Expose: f.expose, TTL: f.lasts})
}
