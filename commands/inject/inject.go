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
	"github.com/mcptrack/mcptrack/core/printable"
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
	allServers   bool
	refreshTools bool
	mcp          []string // ids of servers whose tools the session may use

	config atomic.Pointer[config.Config] // current config, if servers are tracked
}

func (o *options) selection() cli.Selection {
	return cli.Selection{Servers: o.Servers, All: o.allServers}
}

// Command returns the inject command.
func Command(env *cli.Env, g *cli.Globals) *cobra.Command {
	var opts options
	cmd := &cobra.Command{
		Use:   "inject",
		Short: "Add every update as a message to a live Realtime conversation",
		Long: `Sends "Resource URI updated for MCP server ID at TIME" into a Realtime session for every
update, so that the model is aware of it on its next turn. The session is one of:

  --call-id ID    the running WebRTC or SIP call with that id, as a sideband
  --session-id ID the running GPT-Live session with that id, as a sideband
  --model NAME    a new session; with --mcp it can use the tools of servers of
                  the config, which are imported again when they change
  --listen ADDR --upstream URL
                  every session of the applications that connect to ADDR instead
                  of URL: everything is forwarded unchanged, including audio
  --url URL       another endpoint with the same API, with --header, --query and
                  --auth-header (the header with the key, without "Bearer")
  --dialect elevenlabs
                  agents of ElevenLabs: --agent-id ID for a new conversation,
                  --session-id ID for a running one, or --listen

The key comes from OPENAI_API_KEY (ELEVENLABS_API_KEY) or --api-key-file. With --listen
the applications send their own; with --token-file they send the token instead, and inject
adds the key.

Updates come from the tracked servers in the config, as with watch; with --from from a
running serve-sse (its token in MCPTRACK_TOKEN), where a restart resumes; with --stdin as
NDJSON from watch. For each resource only the newest update waits, and all waiting updates
are sent as one item.

Prints a receipt for every message that the endpoint acknowledged and, on a terminal, from
where and into what it injects.`,
		Example: `  # Print what would be sent, without a key or a config
  mcptrack inject --demo --dry-run --count 3

  # Into a running call; the second asks the model to respond
  mcptrack inject --call-id rtc_abc123
  mcptrack inject --call-id rtc_abc123 --respond

  # Between an application, which connects to ws://127.0.0.1:8787, and OpenAI
  mcptrack inject --listen 127.0.0.1:8787 --upstream wss://api.openai.com

  # A session with the tools of a server, and an agent of ElevenLabs
  mcptrack inject --model gpt-realtime --mcp docs
  mcptrack inject --listen 127.0.0.1:8787 --dialect elevenlabs \
    --upstream wss://api.elevenlabs.io

  # From a serve-sse elsewhere, or from a pipe
  mcptrack inject --model gpt-realtime --from https://mcp.example:8722
  mcptrack watch --json --changed-only | mcptrack inject --call-id rtc_1 --stdin

  # Azure, LocalAI
  mcptrack inject --url wss://NAME.openai.azure.com/openai/v1 \
      --auth-header api-key --model my-deployment
  mcptrack inject --url ws://127.0.0.1:8080/v1 --model my-pipeline`,
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
	cli.AddAllFlag(cmd, &opts.allServers)
	opts.AddServers(cmd)
	f.BoolVar(&opts.ChangedOnly, "changed-only", false, "omit updates that did not change the content")
	cli.AddChoice(cmd, &opts.role, "role", "user", "`ROLE` of the messages: user or system", "user", "system")
	f.BoolVar(&opts.respond, "respond", false, "ask the model to respond (default: it learns of the updates on its next turn)")
	f.BoolVar(&opts.content, "content", false, "add the new content of text resources to the message, up to 2 KiB")
	f.DurationVar(&opts.coalesce, "coalesce", 2*time.Second, "`DURATION` within which updates of a resource are merged into one message; 0 merges only updates that are waiting to be sent")
	f.IntVar(&opts.maxPerMinute, "max-per-minute", 30, "maximum `NUMBER` of items per minute, after a burst of 5; 0 means no limit")
	cli.AddCount(cmd, &opts.count, "messages")
	f.BoolVar(&opts.refreshTools, "refresh-tools", false, "with --listen, have sessions import the tools of MCP servers again when they change")
	f.StringSliceVar(&opts.mcp, "mcp", nil, "let a new session use the tools of these servers in the config, specified by their `IDS`, without approval")
	f.BoolVar(&opts.dryRun, "dry-run", false, "print what would be sent as NDJSON, immediately and without connecting to an endpoint")
	_ = cmd.RegisterFlagCompletionFunc("server", cli.CompleteServers(env, g))
	_ = cmd.RegisterFlagCompletionFunc("mcp", cli.CompleteServers(env, g))
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
	case len(o.mcp) > 0 && (o.model == "" && o.url == "" || o.callID != "" || o.dialect != "" && o.api() != realtime.OpenAI):
		return cli.Usage("--mcp applies only to a new session of --dialect openai: use it with --model or --url, without --call-id")
	case len(o.mcp) > 0 && (o.from != "" || o.stdin || g.Demo() || o.dryRun):
		return cli.Usage("--mcp uses the servers in the config; omit --from, --stdin, --demo and --dry-run")
	case o.content && o.from != "":
		return cli.UsageHint("read the config here, or pipe watch --content into --stdin", "--content is not available with --from: a feed does not include contents")
	case o.refreshTools && o.listen == "":
		return cli.Usage("--refresh-tools requires --listen; with --mcp the tools are always refreshed")
	case o.dryRun:
		return o.targetFlags.checkUnused()
	}
	return o.targetFlags.parse(env)
}

// message returns the options for converting updates to messages.
func (o *options) message() realtime.MessageOptions {
	return realtime.MessageOptions{
		Role: realtime.Role(o.role), Content: o.content, Scope: o.callID + o.sessionID,
		ByContent: o.from == "" && !o.stdin, // event ids of tracked servers are valid for one run only
	}
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

// messageSink is the destination of events: one session, the sessions of a proxy, or stdout.
type messageSink struct {
	offer func(*event.Event) error // accepts an event; an error ends the command
	pass  func(id string)          // records that events up to an id need no delivery
	// finish is called when no more events will be offered.
	finish func()
	// run delivers messages until ctx ends or nothing is left to deliver. If nil, offer itself
	// delivers.
	run func(ctx context.Context) error
	// resume returns the event id after which to resume. It is nil if the sink cannot resume.
	resume func() string
	// reached reports whether the endpoint has ever been reached.
	reached func() bool
}

func runInject(ctx context.Context, env *cli.Env, g *cli.Globals, opts *options) error {
	r := &receipts{limit: opts.count, format: g.Format, out: env.Out, tty: env.OutTTY && !g.JSON && g.Format.Table()}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	r.end = end
	source, err := opts.source(ctx, env, g)
	if err != nil {
		return err
	}
	s, err := opts.sink(ctx, env, g, r)
	if err != nil {
		return err
	}
	running, delivering := errgroup.WithContext(ctx)
	feeding, stop := context.WithCancel(delivering)
	defer stop()
	running.Go(func() error {
		err := source.run(feeding, s)
		if err != nil && opts.listen != "" && source.reached != nil && source.reached() {
			// The feed was reached before, so the applications' sessions continue without it.
			g.Logger(env).Warn("the source of updates failed", "err", err)
			err = nil
		}
		if err == nil && feeding.Err() == nil {
			s.finish()
		}
		return err
	})
	if s.run != nil {
		running.Go(func() error {
			defer stop()
			return s.run(delivering)
		})
	}
	err = running.Wait()
	switch {
	case !s.reached():
		return r.outcome(ctx, err, "the endpoint")
	case source.reached != nil && !source.reached():
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

// checkMCP checks that the endpoint can connect to the servers in --mcp, and that their tools are
// tracked.
func (o *options) checkMCP(cfg *config.Config) error {
	selected := o.selection().Of(cfg)
	for _, id := range o.mcp {
		name := printable.Line(id, 128)
		srv, ok := cfg.Server(id)
		if !ok {
			return cli.Usage("--mcp: there is no server %q in %s", name, printable.Line(cfg.Path, 200))
		}
		if tracked, ok := selected.Server(id); !ok || !tracked.TrackTools {
			return cli.UsageHint("set \"trackTools\": true in the server's config entry, or use --all", "--mcp: the tools of server %q are not tracked", name)
		}
		if srv.Transport != config.TransportHTTP && srv.Transport != config.TransportSSE {
			return cli.Usage("--mcp: server %q is a program on this machine, to which the endpoint cannot connect; specify servers with a URL", name)
		}
	}
	return nil
}

// mcpServers returns a function that returns the current servers in --mcp, or nil without --mcp.
func (o *options) mcpServers() func() []realtime.MCPServer {
	if len(o.mcp) == 0 {
		return nil
	}
	return func() []realtime.MCPServer {
		var servers []realtime.MCPServer
		cfg := o.config.Load()
		for _, id := range o.mcp {
			srv, ok := cfg.Server(id)
			if !ok || srv.Unusable() != nil || srv.URL.IsZero() {
				continue // removed from the config
			}
			m := realtime.MCPServer{ID: id, URL: srv.URL.Reveal(), Header: map[string]string{}}
			for name, value := range srv.Headers {
				m.Header[name] = value.Reveal()
			}
			servers = append(servers, m)
		}
		return servers
	}
}
