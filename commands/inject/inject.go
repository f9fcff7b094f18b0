// Package inject implements the inject command, which adds updates as messages to live Realtime
// conversations. A source (source.go: the servers in the config, a feed or stdin) passes events to
// a sink (sink.go: a session, a proxy or a dry run), whose flags are in target.go. The protocol is
// implemented in output/realtime.
package inject

import (
	"context"
	"embed"
	"errors"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/output/realtime"
)

// Manual contains the help pages of this package, as Markdown.
//
//go:embed *.md
var Manual embed.FS

type options struct {
	cli.ConnectFlags
	targetFlags
	sourceFlags
	cli.Filter

	role         string
	respond      bool
	content      bool
	coalesce     time.Duration
	maxPerMinute int
	count        int
	dryRun       bool
	refreshTools bool

	config atomic.Pointer[config.Config] // current config, if servers are tracked
}

// Command returns the inject command.
func Command(env *cli.Env, g *cli.Globals) *cobra.Command {
	var opts options
	cmd := &cobra.Command{
		Use:   "inject",
		Short: "Add every update as a message to a live Realtime conversation",
		Long: `Adds a message to a live conversation for every update of a resource. The model knows of the
update on its next turn. inject prints a receipt for each message that the endpoint
acknowledged.

The conversation is a running call (--call-id), a GPT-Live session or ElevenLabs conversation
(--session-id), a new session (--model), or each session of the applications that connect
to --listen. The updates come from the servers of the config, from a running serve-sse
(--from), or from watch --json (--stdin).

See mcptrack help realtime for keys, endpoints and delivery.`,
		Example: `  # Show what would be sent; no key is needed
  mcptrack inject --demo --dry-run --count 3

  mcptrack inject --call-id rtc_abc123 --respond
  mcptrack inject --listen 127.0.0.1:8787 --upstream wss://api.openai.com

  # From a serve-sse elsewhere, or from a pipe
  mcptrack inject --model gpt-realtime --from https://mcp.example:8722
  mcptrack watch --json --changed-only | mcptrack inject --call-id rtc_1 --stdin`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := opts.parse(env, g); err != nil {
				return err
			}
			ctx, cancel := opts.Bound(cmd.Context())
			defer cancel()
			return runInject(ctx, env, g, &opts)
		},
	}
	opts.ConnectFlags.Add(cmd)
	opts.targetFlags.add(cmd)
	opts.sourceFlags.add(cmd, g)
	f := cmd.Flags()
	opts.AddServers(cmd)
	opts.AddChangedOnly(cmd)
	cli.AddChoice(cmd, &opts.role, "role", "user", "`ROLE` of the messages: user or system", "user", "system")
	f.BoolVar(&opts.respond, "respond", false, "ask the model to respond")
	f.BoolVar(&opts.content, "content", false, "add up to 2 KiB of the new text")
	f.DurationVar(&opts.coalesce, "coalesce", 2*time.Second, "`DURATION` within which updates become one message")
	f.IntVar(&opts.maxPerMinute, "max-per-minute", 30, "at most this `NUMBER` of items a minute; 0 is no limit")
	cli.AddCount(cmd, &opts.count, "messages")
	f.BoolVar(&opts.refreshTools, "refresh-tools", false, "with --listen: let sessions import changed tools again")
	f.BoolVar(&opts.dryRun, "dry-run", false, "print what would be sent")
	for _, name := range []string{"refresh-tools", "coalesce", "max-per-minute"} { // see mcptrack help realtime
		_ = f.MarkHidden(name)
	}
	_ = cmd.RegisterFlagCompletionFunc("server", cli.CompleteServers(env, g))
	cli.MainFlags(cmd, "call-id", "model", "listen", "upstream", "dry-run")
	return cmd
}

func (o *options) parse(env *cli.Env, g *cli.Globals) error {
	if err := errors.Join(o.ConnectFlags.Parse(), o.Filter.Parse(), o.sourceFlags.parse(g), cli.OneOf("role", o.role, string(realtime.RoleUser), string(realtime.RoleSystem))); err != nil {
		return err
	}
	switch {
	case o.count < 0 || o.maxPerMinute < 0 || o.coalesce < 0:
		return cli.Usage("--count, --max-per-minute and --coalesce must not be negative")
	case o.respond && (o.api() == realtime.GPTLive || o.api() == realtime.ElevenLabs):
		return cli.Usage("--respond is not available with --dialect %s: the model itself decides when to speak", o.api())
	case o.content && o.api() == realtime.GPTLive:
		return cli.Usage("--content is not available with --dialect gpt-live, which accepts only short texts")
	case o.content && o.from != "":
		return cli.UsageHint("read the config here, or pipe watch --content into --stdin", "--content is not available with --from: a feed does not include contents")
	case o.refreshTools && o.listen == "":
		return cli.Usage("--refresh-tools requires --listen")
	case o.dryRun && o.listen != "":
		return cli.Usage("--dry-run and --listen cannot be used together: a dry run makes no connections")
	case o.dryRun:
		return o.checkDialect()
	}
	return o.targetFlags.parse(env)
}

// message returns the options for converting updates to messages.
func (o *options) message() realtime.MessageOptions {
	return realtime.MessageOptions{Role: realtime.Role(o.role), Content: o.content, Scope: o.callID + o.sessionID}
}

// delivery returns the delivery options, without the callbacks.
func (o *options) delivery(g *cli.Globals) realtime.DeliveryOptions {
	d := realtime.DeliveryOptions{Message: o.message(), Respond: o.respond, Tracer: g.Tracer()}
	if d.Queue.Window = o.coalesce; o.coalesce == 0 {
		d.Queue.Window = -1
	}
	if d.Queue.Every = -1; o.maxPerMinute > 0 {
		d.Queue.Every = time.Minute / time.Duration(o.maxPerMinute)
	}
	return d
}

func runInject(ctx context.Context, env *cli.Env, g *cli.Globals, opts *options) error {
	log := g.Logger(env)
	r := &receipts{limit: opts.count, format: g.Format, out: env.Out, tty: env.OutTTY && !g.JSON && g.Format.Table()}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	r.end = end
	from, err := opts.source(ctx, env, g, log)
	if err != nil {
		return err
	}
	to, err := opts.sink(ctx, env, g, log, r, from.address)
	if err != nil {
		return err
	}
	if opts.dryRun {
		g.Tell(env, "printing what would be sent for updates of %s", from.name)
	} else { // after the line with the address
		g.Tell(env, "injecting updates of %s into %s", from.name, to.name)
	}
	deliver := func(e *event.Event) error {
		if (e.Type() == event.TypeResourceUpdated || opts.refreshTools && e.Type() == event.TypeToolsListChanged) && opts.Keep(e) {
			return to.offer(e)
		}
		to.passed(e.ID)
		return nil
	}
	running, delivering := errgroup.WithContext(ctx)
	feeding, stop := context.WithCancel(delivering)
	defer stop()
	running.Go(func() error {
		err := from.run(feeding, reader{to.after, to.passed, deliver})
		if err != nil && opts.listen != "" && opts.from != "" && from.reached.Load() {
			log.Warn("the source of updates failed", "err", err) // the applications' sessions continue without it
			err = nil
		}
		if err == nil && feeding.Err() == nil {
			to.finish()
		}
		return err
	})
	if to.run != nil {
		running.Go(func() error {
			defer stop()
			return to.run(delivering)
		})
	}
	err = running.Wait()
	switch {
	case !to.reached():
		return r.outcome(ctx, err, "the endpoint")
	case !from.reached.Load():
		return r.outcome(ctx, err, "the feed")
	}
	return r.outcome(ctx, err, "")
}

// serverURL returns the URL of a tracked server, or "" if it has none.
func (o *options) serverURL(id string) string {
	if cfg := o.config.Load(); cfg != nil {
		if srv, ok := cfg.Server(id); ok {
			return srv.URL.Reveal()
		}
	}
	return ""
}
