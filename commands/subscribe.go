package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/tracker"
)

type subscribeOptions struct {
	streamFlags
	cli.Filter
	server string
	uris   []string
	call   []string
	calls  []config.ToolCall // parsed values of --call
}

func newSubscribe(env *cli.Env, g *cli.Globals) *cobra.Command {
	var opts subscribeOptions
	cmd := &cobra.Command{
		Use:   "subscribe SERVER [URI...]",
		Short: "Follow the resources of one server",
		Long: `Follows the resources of one server in the config, and prints changes until you stop it.
Without URI it follows all resources. URI may be a glob: * matches within a segment, **
across segments, {a,b} either; a glob without a slash matches the last segment.

The first line lists the followed resources. --count counts changes to resources, or the
events that --type selects. --call calls a tool in the same session after subscribing, and
again after the server restarts.`,
		Example: `  mcptrack subscribe docs
  mcptrack subscribe docs 'file:///guide/**' --diff
  mcptrack subscribe everything --call toggle-subscriber-updates --count 3
  mcptrack subscribe build --call 'start={"target":"all"}' --timeout 5m`,
		Args:              cli.Args(1, -1),
		ValidArgsFunction: completeItems(env, g, catalog.Resources),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.server, opts.uris = args[0], args[1:]
			if err := opts.parse(); err != nil {
				return err
			}
			ctx, cancel := opts.Bound(cmd.Context())
			defer cancel()
			return runSubscribe(ctx, env, g, opts)
		},
	}
	opts.add(cmd)
	opts.AddTypes(cmd)
	opts.AddChangedOnly(cmd)
	g.AddDemo(cmd)
	cli.MainFlags(cmd, "json", "diff", "call", "count", "timeout")
	cmd.Flags().StringArrayVar(&opts.call, "call", nil, "call `TOOL[=JSON]` after subscribing (repeatable)")
	_ = cmd.RegisterFlagCompletionFunc("call", completeNames(env, g, catalog.Tools))
	return cmd
}

func (o *subscribeOptions) parse() error {
	if err := errors.Join(o.streamFlags.parse(), o.Filter.Parse()); err != nil {
		return err
	}
	if err := cli.Globs("URI", o.uris); err != nil {
		return err
	}
	o.calls = nil
	for _, c := range o.call {
		tool, args, has := strings.Cut(c, "=")
		call := config.ToolCall{Tool: tool, Arguments: map[string]any{}}
		if tool == "" {
			return cli.Usage("--call requires a tool name")
		}
		if has {
			if err := json.Unmarshal([]byte(args), &call.Arguments); err != nil {
				return cli.UsageHint(`for example --call 'say={"text":"hello"}'`, "the arguments of --call %s are not a JSON object", printable.Line(tool, 100))
			}
		}
		o.calls = append(o.calls, call)
	}
	return nil
}

func runSubscribe(ctx context.Context, env *cli.Env, g *cli.Globals, opts subscribeOptions) error {
	log := g.Logger(env)
	cfg, err := g.Load(ctx, env, log)
	if err != nil {
		return err
	}
	servers, err := cli.SelectServers(cfg, []string{opts.server})
	if err != nil {
		return err
	}
	srv := servers[0]
	srv.TrackResources, srv.TrackTools, srv.TrackPrompts, srv.TrackSkills = true, false, false, false
	srv.Unasked = true // run fails if there are no resources, so no warning is needed
	if len(opts.uris) > 0 {
		srv.Include, srv.Exclude = opts.uris, nil
	}
	desired := engine.Desired{Config: cfg.With([]config.Server{srv})}
	e, err := cli.NewUnstoredEngine(ctx, desired, opts.trackerOptions(env, g), nil)
	if err != nil {
		return err
	}
	sub := &subscription{g: g, t: e.Tracker(), srv: srv, uris: opts.uris, calls: opts.calls, log: log, tools: loadNames(env, cfg.Path)[srv.ID].Names[catalog.Tools], sessions: make(chan struct{}, 1)}
	s := newStream(env, g, opts.streamFlags)
	s.follow(env, g, nil, len(opts.Types) > 0)
	s.keep = func(e *event.Event) bool { return sub.keep(e) && opts.Keep(e) }
	s.counts = func(e *event.Event) bool { return len(opts.Types) > 0 || isResourceChange(e) }
	err = s.run(ctx, e, engine.Source(sub.run))
	rememberSnapshot(env, cfg.Path, e.Tracker().Snapshot())
	if err == nil && errors.Is(context.Cause(ctx), cli.ErrTimeout) && !sub.hasFollowed() {
		return &cli.Failure{Exit: cli.ExitTimeout, Code: "timeout", Err: errors.New("--timeout expired before there was a resource to follow"),
			Hint: "mcptrack list resources " + printable.Line(srv.ID, 64) + " shows what the server offers"}
	}
	return err
}

// isResourceChange reports whether an event counts for --count of subscribe. Changes to followed
// resources count, but additions to the list do not.
func isResourceChange(e *event.Event) bool {
	switch e.Type() {
	case event.TypeResourceUpdated, event.TypeResourceChanged, event.TypeResourceRemoved:
		return true
	}
	return false
}

// subscription follows one server for subscribe, and makes the tool calls of --call.
type subscription struct {
	g     *cli.Globals
	t     *tracker.Tracker
	srv   config.Server
	uris  []string
	calls []config.ToolCall
	tools []string // known tool names of the server, for hints
	log   *slog.Logger
	// sessions tells run that a session has an active subscription. Capacity 1, because one signal covers any
	// number of sessions; never closed.
	sessions chan struct{}

	mu     sync.Mutex // guards the fields below, which keep and run use on different goroutines
	active bool       // the first line was printed
	again  bool       // a session is ready, but its subscription is not active yet
	any    bool       // at least one resource was followed
}

// narrowed reduces an event about the server's resources to those that the user named, and reports
// whether anything is left. It replaces the payload of e, which only this stream uses.
func (s *subscription) narrowed(e *event.Event) bool {
	p, ok := e.Payload.(event.ListChanged)
	if !ok || len(s.srv.Include) == 0 {
		return true
	}
	if p.List != catalog.Resources || p.Error != "" {
		return p.List == catalog.Resources
	}
	only := func(uris []string) []string {
		return slices.DeleteFunc(slices.Clone(uris), func(uri string) bool { return !s.srv.Selects(uri) })
	}
	p.Added, p.Removed, p.Changed = only(p.Added), only(p.Removed), only(p.Changed)
	p.Details = slices.DeleteFunc(slices.Clone(p.Details), func(c catalog.ItemChange) bool { return !s.srv.Selects(c.Key) })
	e.Payload = p
	return len(p.Added)+len(p.Removed)+len(p.Changed) > 0
}

// keep updates the state from an event, and reports whether to print the event, which it may reduce
// to what the user asked for.
func (s *subscription) keep(e *event.Event) bool {
	if !s.narrowed(e) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch p := e.Payload.(type) {
	case event.ServerState:
		s.again = s.again || p.State == event.Ready
	case event.SubscriptionActive:
		s.active = true
		s.any = s.any || p.Resources > 0
		if s.again {
			s.again = false
			select {
			case s.sessions <- struct{}{}:
			default:
			}
		}
	}
	return s.active
}

// hasFollowed reports whether at least one resource was followed.
func (s *subscription) hasFollowed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.any
}

// run makes the tool calls in every session. It fails if the server cannot be reached, and after the first
// subscription if one of the specified resources does not exist.
func (s *subscription) run(ctx context.Context) error {
	snap, err := s.t.Settled(ctx, s.srv.ID)
	if err != nil {
		return nil // ctx has ended
	}
	switch st, _ := snap.Server(s.srv.ID); {
	case st.State == event.Unsupported:
		return &cli.Failure{Exit: cli.ExitRefused, Code: "unsupported", Err: fmt.Errorf("%s: %s", printable.Line(s.srv.ID, 128), st.Reason)}
	case !st.Connected():
		return cli.Unreachable("", "%s: %s", printable.Line(s.srv.ID, 128), st.Error)
	}
	for first := true; ; first = false {
		select {
		case <-ctx.Done():
			return nil
		case <-s.sessions:
		}
		if first {
			if err := s.exist(ctx); err != nil {
				return err
			}
			if !s.hasFollowed() {
				s.log.Warn("there is no resource to follow yet; waiting for one", "server", s.srv.ID, "resources", s.uris)
			}
		}
		if err := s.makeCalls(ctx); err != nil {
			if first {
				return err
			}
			s.log.Warn("call failed", "server", s.srv.ID, "err", err)
		}
	}
}

// exist returns an error for the first specified URI, other than a glob, that the server does not
// have.
func (s *subscription) exist(ctx context.Context) error {
	st, _ := s.t.Snapshot().Server(s.srv.ID)
	for _, uri := range s.uris {
		if strings.ContainsAny(uri, "*[{") || !strings.Contains(uri, ":") {
			continue
		}
		list := st.Lists[catalog.Resources]
		if _, listed := list.Get(uri); listed {
			continue
		}
		if _, err := s.t.ReadResource(ctx, s.srv.ID, uri); errors.Is(err, session.ErrNotFound) {
			of := target{s.srv.ID, catalog.Resources, uri}
			return &cli.Failure{Exit: cli.ExitRefused, Code: "not_found", Err: of.missing(), Hint: of.nearest(s.g, list.Keys())}
		}
	}
	return nil
}

func (s *subscription) makeCalls(ctx context.Context) error {
	for _, c := range s.calls {
		result, err := s.t.CallTool(ctx, s.srv.ID, c.Tool, c.Arguments)
		if err == nil {
			if text, failed := session.ToolFailure(result); failed {
				err = errors.New(text)
			}
		}
		if err != nil {
			f := &cli.Failure{Exit: cli.ExitRefused, Code: "call_failed", Err: fmt.Errorf("%s: %s: %w", printable.Line(s.srv.ID, 128), printable.Line(c.Tool, 100), err)}
			if !slices.Contains(s.tools, c.Tool) {
				f.Hint = cli.DidYouMean(c.Tool, s.tools, "mcptrack list tools "+printable.Line(s.srv.ID, 60)+" shows what the server offers")
			}
			return f
		}
	}
	return nil
}
