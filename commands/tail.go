package commands

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/eventstream"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/agent"
	"github.com/mcptrack/mcptrack/output/jsonl"
	"github.com/mcptrack/mcptrack/output/remote"
)

type tailOptions struct {
	cli.RemoteFlags
	agentFlags
	cli.Filter
	client  remote.Client
	address *url.URL // of the feed
	since   string
	count   int
	timeout time.Duration
	raw     bool // print events exactly as the feed sent them
}

func newTail(env *cli.Env, g *cli.Globals) *cobra.Command {
	var opts tailOptions
	cmd := &cobra.Command{
		Use:   "tail [URL]",
		Short: "Print the events of a running serve-sse as they happen",
		Long: `Follows the feed of a serve-sse, local or remote (URL, default
http://127.0.0.1:8722), and resumes after the last event if the connection is lost.
Prints events as watch does: as lines on a terminal, as NDJSON into a pipe. Events that
the feed no longer has are printed as a gap. The first connection must succeed. With
--agent it prints short lines for agents and, without --since, starts after the last
event that its last run in this folder reported; see mcptrack help agents.

Exit codes: 0 stopped, --count was reached, or the feed ended; 1 failed; 2 wrong usage; 4
the URL could not be reached; 5 the request was refused (a token is needed, or this is
not a serve-sse); 6 --timeout expired.`,
		Example: `  mcptrack tail
  mcptrack tail --since 1h --type 'resource.*'
  mcptrack tail https://mcp.example --token-file token --json | jq .resourceUri
  mcptrack tail --since 3f9a1c20b7e4d581-42 --count 1
  mcptrack tail --agent --type resource.updated`,
		Args: cli.Args(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(opts.TakeURL(args, cli.DefaultServeURL), opts.parse(cmd, env), opts.agentFlags.parse(cmd, g)); err != nil {
				return err
			}
			opts.raw = rawEvents(cmd, env, g)
			return runTail(cmd.Context(), env, g, opts)
		},
	}
	opts.RemoteFlags.Add(cmd)
	opts.agentFlags.add(cmd)
	opts.AddTypes(cmd)
	opts.AddServers(cmd)
	f := cmd.Flags()
	f.StringVar(&opts.since, "since", "", "begin after this `ID`, at this time (RFC 3339), or this long ago (2h, 7d); default: now")
	f.IntVar(&opts.count, "count", 0, "exit after this `NUMBER` of events (default no limit)")
	f.DurationVar(&opts.timeout, "timeout", 0, "exit with 6 after this `DURATION`")
	return cmd
}

func (o *tailOptions) parse(cmd *cobra.Command, env *cli.Env) (err error) {
	if err = o.Parse(); err != nil {
		return err
	}
	if o.count < 0 || o.timeout < 0 {
		return cli.Usage("--count and --timeout must not be negative")
	}
	if o.client, err = o.Client(env); err != nil {
		return err
	}
	address := *o.client.Base
	o.address = &address
	if strings.Trim(o.address.Path, "/") == "" {
		o.address.Path = "/events"
	}
	since, err := parseSince(cmd, o.since)
	if err != nil {
		return err
	}
	query := o.address.Query()
	switch {
	case since.id != "":
		query.Set("since", since.id)
	case !since.time.IsZero():
		query.Set("since", since.time.UTC().Format(time.RFC3339))
	}
	for _, t := range o.Types {
		query.Add("type", t)
	}
	for _, s := range o.Servers {
		query.Add("server", s)
	}
	o.address.RawQuery = query.Encode()
	return nil
}

func runTail(ctx context.Context, env *cli.Env, g *cli.Globals, opts tailOptions) error {
	if opts.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, opts.timeout, cli.ErrTimeout)
		defer cancel()
	}
	log := g.Logger(env)
	print := newStream(env, g, streamFlags{})
	printed, connected := 0, false
	options := remote.FeedOptions{URL: opts.address.String(), Header: cli.Bearer(opts.client.Token), Logger: log, MustConnect: true, Connected: func() { connected = true }}
	var err error
	if opts.agent {
		err = tailAgent(ctx, env, log, opts, options)
	} else {
		err = remote.Follow(ctx, options, func(x eventstream.Event) error {
			e, err := tailEvent(x)
			switch {
			case err != nil:
				log.Warn("the feed sent an invalid event", "err", err)
				return nil
			case e == nil || !opts.Keep(e):
				return nil
			case opts.raw: // includes members that only a newer mcptrack understands
				_, err = env.Out.Write(append(printable.JSON([]byte(x.Data)), '\n'))
			default:
				err = print.write(e)
			}
			if err != nil {
				return err
			}
			if printed++; printed == opts.count {
				return errCounted
			}
			return nil
		})
	}
	err = cli.FeedFailure(err, opts.address.Host, "token-file")
	_, refused := errors.AsType[*cli.Failure](err)
	switch {
	case refused:
		return err
	case errors.Is(err, errCounted), errors.Is(err, agent.ErrEnough), errors.Is(err, remote.ErrFeedEnded):
		return nil
	case err != nil && !connected:
		return cli.Unreachable("is mcptrack serve-sse running there?", "%s cannot be reached: %w", opts.address.Host, err)
	case err == nil && errors.Is(context.Cause(ctx), cli.ErrTimeout):
		return cli.ErrTimeout
	}
	return err
}

// tailEvent decodes an event from a feed. It returns nil for events that do not concern a server,
// such as checkpoints, and for types from a newer mcptrack.
func tailEvent(x eventstream.Event) (*event.Event, error) {
	if x.Type == "checkpoint" {
		return nil, nil
	}
	return jsonl.Decode([]byte(x.Data))
}
