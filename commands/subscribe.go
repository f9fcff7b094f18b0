package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/tracker"
)

type subscribeOptions struct {
	streamFlags
	server string
	uris   []string
	call   []string
	calls  []config.ToolCall // what call says
}

func newSubscribe(env *Env, g *globals) *cobra.Command {
	var opts subscribeOptions
	cmd := &cobra.Command{
		Use:   "subscribe SERVER [URI...]",
		Short: "Follow the resources of one server",
		Long: `Follows one server of the config, whether or not it is tracked there: all its
resources or those given, by URI or glob (* within a segment, ** across segments,
{a,b}; a glob without a slash fits the last segment). The first line says what is
followed; changes follow it until interrupted.

--call calls a tool in the same session once subscribed, and again after the
server was restarted.

Exit codes: 0 stopped (interrupted, --count, --timeout or a closed pipe); 1 failed;
2 wrong usage; 3 config invalid or missing; 4 the server could not be reached;
5 no such resource, the server has no resources, or a --call failed; 6 --timeout ran
out before --count.`,
		Example: `  mcptrack subscribe docs
  mcptrack subscribe docs 'file:///guide/**' --diff
  mcptrack subscribe everything --json --call toggle-subscriber-updates --count 3
  mcptrack subscribe build --call 'start={"target":"all"}' --timeout 5m`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeItems(env, g, catalog.Resources),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.server, opts.uris = args[0], args[1:]
			if err := opts.check(); err != nil {
				return err
			}
			ctx, cancel := opts.bound(cmd.Context())
			defer cancel()
			return runSubscribe(ctx, env, g, opts)
		},
	}
	opts.add(cmd)
	cmd.Flags().StringArrayVar(&opts.call, "call", nil, "call `TOOL[=JSON]` once subscribed (repeatable)")
	_ = cmd.RegisterFlagCompletionFunc("call", completeNames(env, g, catalog.Tools))
	return cmd
}

func (o *subscribeOptions) check() error {
	if err := o.streamFlags.check(); err != nil {
		return err
	}
	o.calls = nil
	for _, c := range o.call {
		tool, args, has := strings.Cut(c, "=")
		call := config.ToolCall{Tool: tool, Arguments: map[string]any{}}
		if tool == "" {
			return usage("--call needs the name of a tool")
		}
		if has {
			if err := json.Unmarshal([]byte(args), &call.Arguments); err != nil {
				return usageHint(`for example --call 'say={"text":"hello"}'`, "the arguments of --call %s are no JSON object: %w", printable.Line(tool, 100), err)
			}
		}
		o.calls = append(o.calls, call)
	}
	return nil
}

func runSubscribe(ctx context.Context, env *Env, g *globals, opts subscribeOptions) error {
	log := g.logger(env)
	cfg, err := g.load(env, log)
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
	t := newTracker(env, g, opts.streamFlags)
	t.Apply(&config.Config{Path: cfg.Path, Servers: []config.Server{srv}})

	sub := &subscription{t: t, id: srv.ID, uris: opts.uris, calls: opts.calls, log: log, wake: make(chan struct{}, 1)}
	s := newStream(env, g, opts.streamFlags)
	s.keep = sub.keep
	write := s.write
	s.write = func(events ...*event.Event) error { return write(sub.name(events)...) }
	err = track(ctx, t, s, sub.run)
	rememberSnapshot(env, cfg.Path, t.Snapshot())
	return err
}

// subscription watches over the one server that is subscribed to: what is printed
// of it, the calls to make, and whether it can be subscribed to at all.
type subscription struct {
	t     *tracker.Tracker
	id    string
	uris  []string
	calls []config.ToolCall
	log   *slog.Logger
	// wake tells run that something below changed. Capacity 1, never closed.
	wake chan struct{}

	mu     sync.Mutex // guards the rest: keep writes on the printing goroutine, run reads
	active bool       // the first line is out
	begun  int        // sessions that were subscribed in
	again  bool       // a session began whose subscription is still to come
	failed error      // why it cannot be subscribed to
}

// keep decides what is printed, and notes what the events say about the server.
func (s *subscription) keep(e *event.Event) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch p := e.Payload.(type) {
	case event.ServerState:
		switch {
		case p.State == event.Ready:
			s.again = true
		case p.State == event.Unsupported:
			s.fail(&failure{exit: exitRefused, code: "unsupported", err: fmt.Errorf("server %q: %s", s.id, p.Reason)})
		case (p.State == event.Backoff || p.State == event.NeedsAuth) && !s.active:
			s.fail(&failure{exit: exitUnreachable, code: "unreachable", err: fmt.Errorf("server %q: %s", s.id, p.Error)})
		}
	case event.SubscriptionActive:
		s.active = true
		if s.again {
			s.again = false
			s.begun++
			s.signal()
		}
	}
	return s.active
}

// fail ends the command; the first reason counts.
func (s *subscription) fail(err error) {
	if s.failed == nil {
		s.failed = err
		s.signal()
	}
}

func (s *subscription) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// name puts the URIs into the events that tell how many resources are followed.
func (s *subscription) name(events []*event.Event) []*event.Event {
	for i, e := range events {
		p, ok := e.Payload.(event.SubscriptionActive)
		if !ok {
			continue
		}
		st, _ := s.t.Snapshot().Server(s.id)
		p.Resources.URIs = make([]string, 0, len(st.Resources))
		for _, r := range st.Resources {
			p.Resources.URIs = append(p.Resources.URIs, r.URI)
		}
		p.Resources.Count = len(p.Resources.URIs)
		named := *e
		named.Payload = p
		events[i] = &named
	}
	return events
}

// run checks, once subscribed, that what was named exists, and makes the calls in
// every session.
func (s *subscription) run(ctx context.Context) error {
	done := 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		}
		s.mu.Lock()
		begun, failed := s.begun, s.failed
		s.mu.Unlock()
		if failed != nil {
			return failed
		}
		if begun == done {
			continue
		}
		first := done == 0
		done = begun
		if first {
			if err := s.exist(ctx); err != nil {
				return err
			}
		}
		if err := s.makeCalls(ctx); err != nil {
			if first {
				return err
			}
			s.log.Warn("call failed", "server", s.id, "err", err)
		}
	}
}

// exist makes sure that every URI that was given whole is there.
func (s *subscription) exist(ctx context.Context) error {
	st, _ := s.t.Snapshot().Server(s.id)
	for _, uri := range s.uris {
		if strings.ContainsAny(uri, "*[{") || !strings.Contains(uri, ":") {
			continue
		}
		if _, listed := st.Lists[catalog.Resources].Get(uri); listed {
			continue
		}
		if _, err := s.t.ReadResource(ctx, s.id, uri); errors.Is(err, session.ErrNotFound) {
			return &failure{exit: exitRefused, code: "not_found", err: fmt.Errorf("server %q has no resource %q", s.id, printable.Line(uri, 300)),
				hint: "mcptrack list resources " + s.id + " shows what it has"}
		}
	}
	return nil
}

func (s *subscription) makeCalls(ctx context.Context) error {
	for _, c := range s.calls {
		result, err := s.t.CallTool(ctx, s.id, c.Tool, c.Arguments)
		if err == nil {
			if text, failed := tracker.ToolFailure(result); failed {
				err = errors.New(text)
			}
		}
		if err != nil {
			return &failure{exit: exitRefused, code: "call_failed", err: fmt.Errorf("server %q, tool %q: %w", s.id, printable.Line(c.Tool, 100), err)}
		}
	}
	return nil
}
