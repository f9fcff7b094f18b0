package commands

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/mcptrack/mcptrack/core/capindex"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/gateway"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/serve"
)

// indexFlags are the flags of the capability index.
type indexFlags struct {
	index  bool
	expose []string
	ttl    string

	said     struct{ index, expose, ttl bool } // set by a flag or the environment
	envIndex string                            // MCPTRACK_INDEX, unless --index is given
	lasts    time.Duration                     // set from ttl by parse
}

func (f *indexFlags) add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.index, "index", false, "also serve an index of all capabilities")
	flags.StringSliceVar(&f.expose, "index-expose", capindex.Names(), "`NAMES` of the index documents to serve")
	flags.StringVar(&f.ttl, "index-ttl", capindex.DefaultTTL.String(), "`DURATION` for which a generated index is used")
}

// fromEnv reads from the environment what no flag sets.
func (f *indexFlags) fromEnv(env *Env, given func(flag string) bool) {
	says := func(flag, name string) bool { return given(flag) || env.getenv(name) != "" }
	f.said.index, f.said.expose = says("index", "MCPTRACK_INDEX"), says("index-expose", "MCPTRACK_INDEX_EXPOSE")
	f.said.ttl = says("index-ttl", "MCPTRACK_INDEX_TTL")
	if v := env.getenv("MCPTRACK_INDEX"); v != "" && !given("index") {
		f.envIndex = v
	}
	if v := env.getenv("MCPTRACK_INDEX_EXPOSE"); v != "" && !given("index-expose") {
		f.expose = globs([]string{v})
	}
	if v := env.getenv("MCPTRACK_INDEX_TTL"); v != "" && !given("index-ttl") {
		f.ttl = v
	}
}

func (f *indexFlags) parse() (err error) {
	if f.envIndex != "" {
		if f.index, err = strconv.ParseBool(f.envIndex); err != nil {
			return usage("MCPTRACK_INDEX must be true or false, not %q", printable.Line(f.envIndex, 40))
		}
	}
	if f.lasts, err = time.ParseDuration(f.ttl); err != nil || f.lasts <= 0 {
		return usage("invalid --index-ttl (MCPTRACK_INDEX_TTL) %q; expected a duration such as 5m", printable.Line(f.ttl, 40))
	}
	if f.expose = globs(f.expose); len(f.expose) == 0 {
		return usage("--index-expose (MCPTRACK_INDEX_EXPOSE) is empty; choose from %s", strings.Join(capindex.Names(), ", "))
	}
	if _, err := capindex.New(capindex.Options{Expose: f.expose}); err != nil {
		return usage("--index-expose (MCPTRACK_INDEX_EXPOSE): %w", err)
	}
	return nil
}

// fromConfig takes from the config what neither a flag nor the environment sets. Its
// values are valid.
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

// served is the capability index of a gateway.
type served struct {
	index *capindex.Index
	// dirty wakes follow. The gateway sends without blocking. Capacity 1, never closed.
	dirty chan struct{}
}

// start creates the index, nil without --index.
func (f *indexFlags) start(source func() capindex.View) (*served, error) {
	if !f.index {
		return nil, nil
	}
	x, err := capindex.New(capindex.Options{Source: source, Expose: f.expose, TTL: f.lasts})
	if err != nil {
		return nil, err
	}
	return &served{index: x, dirty: make(chan struct{}, 1)}, nil
}

// local returns the tools and resources that the gateway adds for the index.
func (s *served) local() gateway.Local {
	if s == nil {
		return gateway.Local{}
	}
	return gateway.Local{Tools: []json.RawMessage{capindex.SearchTool()}, Resources: s.index.Resources(), CallTool: s.search, ReadResource: s.read}
}

func (s *served) search(ctx context.Context, r *serve.Request) (json.RawMessage, error) {
	var params struct {
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := json.Unmarshal(r.Params, &params); err != nil {
		return nil, &serve.Error{Code: mcp.CodeInvalidParams, Message: "the parameters are not an object"}
	}
	return s.index.Search(ctx, params.Arguments)
}

func (s *served) read(ctx context.Context, r *serve.Request) (json.RawMessage, error) {
	d, err := s.index.Read(ctx, r.URI())
	if errors.Is(err, capindex.ErrNotFound) {
		return nil, serve.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	result := map[string]any{"contents": []map[string]string{{"uri": d.URI, "mimeType": d.MimeType, "text": d.Text}}}
	if r.Modern() {
		result["ttlMs"], result["cacheScope"] = d.TTL().Milliseconds(), "private"
	}
	return json.Marshal(result)
}

// changed discards the generated documents at once and wakes follow.
func (s *served) changed() {
	if s == nil {
		return
	}
	s.index.Invalidate()
	select {
	case s.dirty <- struct{}{}:
	default:
	}
}

// indexCalm is the minimum time between two comparisons of the index, so that a burst of
// changes costs little. Subscribers are notified of its end.
const indexCalm = time.Second

// follow notifies subscribers of the index when it has changed, until ctx ends.
func (s *served) follow(ctx context.Context, server *serve.Server) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.dirty:
		case <-ctx.Done():
			return
		}
		timer.Reset(indexCalm)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		if uris, err := s.index.Changed(ctx); err == nil {
			server.Updated(uris...)
		}
	}
}
