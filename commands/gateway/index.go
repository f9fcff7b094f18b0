package gateway

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/gateway"
	"github.com/mcptrack/mcptrack/core/gateway/capindex"
	"github.com/mcptrack/mcptrack/core/printable"
)

// indexFlags are the flags of the capability index.
type indexFlags struct {
	index  bool
	expose []string
	ttl    string

	said     struct{ index, expose, ttl bool } // whether a flag or the environment sets it
	envIndex string                            // MCPTRACK_INDEX, unless --index is given
	lasts    time.Duration                     // parsed from ttl
}

func (f *indexFlags) add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.index, "index", false, "also serve an index of all capabilities")
	flags.StringSliceVar(&f.expose, "index-expose", capindex.Names(), "`NAMES` of the index documents to serve")
	flags.StringVar(&f.ttl, "index-ttl", capindex.DefaultTTL.String(), "`DURATION` for which a generated index is used")
}

// fromEnv reads from the environment what no flag sets.
func (f *indexFlags) fromEnv(env *cli.Env, given func(flag string) bool) {
	says := func(flag, name string) bool { return given(flag) || env.Getenv(name) != "" }
	f.said.index, f.said.expose = says("index", "MCPTRACK_INDEX"), says("index-expose", "MCPTRACK_INDEX_EXPOSE")
	f.said.ttl = says("index-ttl", "MCPTRACK_INDEX_TTL")
	if v := env.Getenv("MCPTRACK_INDEX"); v != "" && !given("index") {
		f.envIndex = v
	}
	if v := env.Getenv("MCPTRACK_INDEX_EXPOSE"); v != "" && !given("index-expose") {
		f.expose = cli.SplitList([]string{v})
	}
	if v := env.Getenv("MCPTRACK_INDEX_TTL"); v != "" && !given("index-ttl") {
		f.ttl = v
	}
}

func (f *indexFlags) parse() (err error) {
	if f.envIndex != "" {
		if f.index, err = strconv.ParseBool(f.envIndex); err != nil {
			return cli.Usage("MCPTRACK_INDEX must be true or false, not %q", printable.Line(f.envIndex, 40))
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

// fromConfig reads from the config what neither a flag nor the environment sets. The config's values are
// valid.
func (f *indexFlags) fromConfig(c config.Index) {
	if !f.said.index {
		f.index = c.Enabled
	}
	if !f.said.expose && len(c.Expose) > 0 {
		f.expose = c.Expose
	}
	if !f.said.ttl && c.TTL > 0 {
		f.lasts = c.TTL
	}
}

// start creates the index; nil without --index.
func (f *indexFlags) start(source func() capindex.View) (*gateway.Index, error) {
	if !f.index {
		return nil, nil
	}
	return gateway.NewIndex(capindex.Options{Source: source, Expose: f.expose, TTL: f.lasts})
}
