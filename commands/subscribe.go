package commands

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/glob"
	"github.com/mcptrack/mcptrack/core/printable"
)

type subscribeOptions struct {
	streamFlags
	server string
	uris   []string
	call   []string
	calls  []config.ToolCall // parsed from call
}

func newSubscribe(env *Env, g *globals) *cobra.Command {
	var opts subscribeOptions
	cmd := &cobra.Command{
		Use:   "subscribe SERVER [URI...]",
		Short: "Follow the resources of one server",
		Long: `Follows one server of the config, whether or not it is tracked there: all its
resources, or those given by URI or glob (* within a segment, ** across segments,
{a,b}; a glob without a slash matches the last segment). The first line says which
resources are followed; changes are printed until interrupted. If nothing matches yet,
the command waits for a resource that does. --count counts changes of resources, not
additions to the list.

--call calls a tool in the same session after subscribing, and again after the server
restarts.

Exit codes: 0 stopped (interrupted, --count, --timeout or a closed pipe); 1 failed;
2 wrong usage; 3 config invalid or missing; 4 the server could not be reached;
5 no such resource, the server has no resources, or a --call failed; 6 --timeout
expired before --count was reached or before there was a resource to follow.`,
		Example: `  mcptrack subscribe docs
  mcptrack subscribe docs 'file:///guide/**' --diff
  mcptrack subscribe everything --call toggle-subscriber-updates --count 3
  mcptrack subscribe build --call 'start={"target":"all"}' --timeout 5m`,
		Args:              arguments(1, -1),
		ValidArgsFunction: completeItems(env, g, catalog.Resources),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.server, opts.uris = args[0], args[1:]
			if err := opts.parse(); err != nil {
				return err
			}
			ctx, cancel := opts.bound(cmd.Context())
			defer cancel()
			return runSubscribe(ctx, env, g, opts)
		},
	}
	opts.add(cmd)
	cmd.Flags().StringArrayVar(&opts.call, "call", nil, "call `TOOL[=JSON]` after subscribing (repeatable)")
	_ = cmd.RegisterFlagCompletionFunc("call", completeNames(env, g, catalog.Tools))
	return cmd
}

func (o *subscribeOptions) parse() error {
	if err := o.streamFlags.parse(); err != nil {
		return err
	}
	for _, pattern := range o.uris {
		if !glob.Valid(pattern) {
			return usage("invalid glob %q", printable.Line(pattern, 200))
		}
	}
	o.calls = nil
	for _, c := range o.call {
		tool, args, has := strings.Cut(c, "=")
		call := config.ToolCall{Tool: tool, Arguments: map[string]any{}}
		if tool == "" {
			return usage("--call needs a tool name")
		}
		if has {
			if err := json.Unmarshal([]byte(args), &call.Arguments); err != nil {
				return usageHint(`for example --call 'say={"text":"hello"}'`, "the arguments of --call %s are not a JSON object", printable.Line(tool, 100))
			}
		}
		o.calls = append(o.calls, call)
	}
	return nil
}

func runSubscribe(ctx context.Context, env *Env, g *globals, opts subscribeOptions) error {
	env, screen := newScreen(env, g)
	log := g.logger(env)
	cfg, err := g.load(ctx, env, log)
	if err != nil {
		return err
	}
	servers, err := selectServers(cfg, []string{opts.server})
	if err != nil {
		return err
	}
	srv := servers[0]
	srv.TrackResources, srv.TrackTools, srv.TrackPrompts = true, false, false
	if len(opts.uris) > 0 {
		srv.Include, srv.Exclude = opts.uris, nil
	}
	desired := engine.Desired{Config: cfg.With([]config.Server{srv})}
	e, err := printed(ctx, desired, opts.trackerOptions(env, g))
	if err != nil {
		return err
	}
	sub := &subscription{t: e.Tracker(), id: srv.ID, uris: opts.uris, calls: opts.calls, log: log, tools: loadNames(env, cfg.Path)[srv.ID].Names[catalog.Tools], wake: make(chan struct{}, 1)}
	s := newStream(env, g, opts.streamFlags)
	s.follow(env, g, screen, nil, false)
	s.keep, s.counts = sub.keep, isResourceChange
	write := s.write
	s.write = func(events ...*event.Event) error { return write(sub.name(events)...) }
	err = s.run(ctx, e, engine.Source(sub.run))
	rememberSnapshot(env, cfg.Path, e.Tracker().Snapshot())
	if err == nil && errors.Is(context.Cause(ctx), errTimeout) && !sub.hasFollowed() {
		return &failure{exit: exitTimeout, code: "timeout", err: errors.New("--timeout expired before there was a resource to follow"),
			hint: "mcptrack list resources " + printable.Line(srv.ID, 64) + " shows what the server offers"}
	}
	return err
}

// isResourceChange reports whether --count of subscribe counts an event: a change of a
// followed resource, but not a resource that is new in the list.
func isResourceChange(e *event.Event) bool {
	switch e.Type() {
	case event.TypeResourceUpdated, event.TypeResourceChanged, event.TypeResourceRemoved:
		return true
	}
	return false
}
