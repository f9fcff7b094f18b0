package commands

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/tracker"
	"github.com/mcptrack/mcptrack/output/jsonl"
)

// injectSource is where updates come from.
type injectSource struct {
	from          string
	fromTokenFile string
	stdin         bool
	trackFlags

	feed feedAddress // parsed from from
}

func (s *injectSource) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.from, "from", "", "`URL` of a running serve-sse that has the updates")
	f.StringVar(&s.fromTokenFile, "from-token-file", "", "`FILE` (mode 0600) with the token for --from, instead of MCPTRACK_TOKEN")
	f.BoolVar(&s.stdin, "stdin", false, "read updates from stdin, as NDJSON from watch --json")
	f.BoolVar(&s.demo, "demo", false, "use a built-in server whose resources change")
	s.addReload(cmd)
	_ = cmd.MarkFlagFilename("from-token-file")
}

func (s *injectSource) parse() (err error) {
	n := 0
	for _, given := range []bool{s.from != "", s.stdin, s.demo} {
		if given {
			n++
		}
	}
	switch {
	case n > 1:
		return usage("--from, --stdin and --demo cannot be used together")
	case s.from == "" && s.fromTokenFile != "":
		return usage("--from-token-file requires --from")
	case s.from != "":
		s.feed, err = parseFeed(s.from)
	}
	return err
}

// source feeds a sink.
type source struct {
	// run feeds the sink until its context ends, or there are no more events.
	run func(context.Context, *sink) error
	// reached reports whether the source could be reached so far; nil: always.
	reached func() bool
}

func (o *injectOptions) source(ctx context.Context, env *Env, g *globals) (*source, error) {
	log := g.logger(env)
	switch {
	case o.stdin:
		return &source{run: func(ctx context.Context, s *sink) error {
			return jsonl.Read(ctx, env.In, log.With("input", "stdin"), o.offer(s))
		}}, nil
	case o.from != "":
		f, err := o.follower(env, log)
		if err != nil {
			return nil, err
		}
		return &source{run: func(ctx context.Context, s *sink) error { return f.run(ctx, s, o.offer(s)) }, reached: f.reached.Load}, nil
	}
	cfg := demoConfig(env)
	if !o.demo {
		var err error
		if cfg, err = g.load(ctx, env, log); err != nil {
			return nil, err
		}
	}
	if err := o.checkMCP(cfg); err != nil {
		return nil, err
	}
	o.config.Store(o.selection().of(cfg))
	if o.noFollow && len(o.selection().of(cfg).Servers) == 0 {
		return nil, nothingToFollow(cfg, o.selection())
	}
	return &source{run: func(ctx context.Context, s *sink) error { return o.track(ctx, env, g, cfg, o.offer(s)) }}, nil
}

// offer offers a sink the events that pass the filters.
func (o *injectOptions) offer(s *sink) func(*event.Event) error {
	return func(e *event.Event) error {
		if (e.Type() == event.TypeResourceUpdated || (o.refreshTools || len(o.mcp) > 0) && e.Type() == event.TypeToolsListChanged) && o.keep(e) {
			return s.offer(e)
		}
		s.pass(e.ID)
		return nil
	}
}

// track follows the servers of a config, as watch does.
func (o *injectOptions) track(ctx context.Context, env *Env, g *globals, cfg *config.Config, offer func(*event.Event) error) error {
	log := g.logger(env)
	if len(o.selection().of(cfg).Servers) == 0 {
		o.selection().warnNone(log, cfg)
	}
	desired, err := o.desired(env, g, log, cfg, func(next *config.Config) *config.Config {
		o.config.Store(o.selection().of(next))
		return o.config.Load()
	})
	if err != nil {
		return err
	}
	e, err := printed(ctx, desired, tracker.Options{Dial: env.Dial, Session: o.connectFlags.session(env, g), Logger: log, Texts: o.content, Window: o.window()})
	if err != nil {
		return err
	}
	feed := &stream{flags: streamFlags{content: o.content}, counts: func(*event.Event) bool { return false }}
	feed.write = func(events ...*event.Event) error {
		for _, e := range events {
			if err := offer(e); err != nil {
				return err
			}
		}
		return nil
	}
	feed.connected = true // servers do not decide whether the endpoint could be reached
	return feed.run(ctx, e)
}

// window returns the time in which the tracker merges changes of a resource. It is a part
// of --coalesce, in which the session merges them again: both times add up for an update
// that waits, and a message is to be there within 3 s.
func (o *injectOptions) window() time.Duration {
	return min(max(o.coalesce/4, 10*time.Millisecond), 500*time.Millisecond)
}
