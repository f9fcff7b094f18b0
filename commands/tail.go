package commands

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/eventstream"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/agent"
	"github.com/mcptrack/mcptrack/output/jsonl"
	"github.com/mcptrack/mcptrack/output/remote"
)

type tailOptions struct {
	remoteFlags
	agentFlags
	filter
	address *url.URL
	since   string
	count   int
	timeout time.Duration
	lines   bool // --output was given as table or wide: print lines also into a pipe
}

func newTail(env *Env, g *globals) *cobra.Command {
	var opts tailOptions
	cmd := &cobra.Command{
		Use:   "tail [URL]",
		Short: "Print the events of a running serve-sse as they happen",
		Long: `Follows the event feed of the serve-sse at URL (default http://127.0.0.1:8722) and
prints its events as watch does: as lines on a terminal, as NDJSON into a pipe. When the
connection is lost it reconnects and goes on after the last event, so nothing is missed
that the feed still has; what it no longer has is printed as a gap. The first connection
must succeed. With --agent it prints short lines for agents and, unless --since says
otherwise, begins after what its last run in this folder has reported; see mcptrack help
agents.

Exit codes: 0 stopped, --count was reached, or the feed ended; 1 failed; 2 wrong usage; 4
the URL could not be reached; 5 the request was refused (a token is needed, or this is
not a serve-sse); 6 --timeout expired.`,
		Example: `  mcptrack tail
  mcptrack tail --since 1h --type 'resource.*'
  mcptrack tail https://mcp.example --token-file token --json | jq .resourceUri
  mcptrack tail --since 3f9a1c20b7e4d581-42 --count 1
  mcptrack tail --agent --type resource.updated`,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			address := defaultServeURL
			if len(args) == 1 {
				address = args[0]
			}
			if err := errors.Join(opts.parse(cmd, address), opts.agentFlags.parse(cmd, g)); err != nil {
				return err
			}
			opts.lines = g.format.Table() && cmd.Flag("output").Changed
			return runTail(cmd.Context(), env, g, opts)
		},
	}
	opts.remoteFlags.add(cmd)
	opts.agentFlags.add(cmd)
	f := cmd.Flags()
	f.StringVar(&opts.since, "since", "", "begin after this `ID`, at this time (RFC 3339), or this long ago (2h, 7d); default: now")
	f.StringSliceVar(&opts.types, "type", nil, "only events of these `TYPES` (globs, separated by commas)")
	f.StringSliceVar(&opts.servers, "server", nil, "only these server `IDS` (globs, separated by commas)")
	f.IntVar(&opts.count, "count", 0, "exit after this `NUMBER` of events (default no limit)")
	f.DurationVar(&opts.timeout, "timeout", 0, "exit with 6 after this `DURATION`")
	_ = cmd.RegisterFlagCompletionFunc("type", completeTypes)
	return cmd
}

// defaultServeURL is where serve-sse listens unless --addr says otherwise.
const defaultServeURL = "http://127.0.0.1:8722"

func (o *tailOptions) parse(cmd *cobra.Command, address string) (err error) {
	o.types, o.servers = globs(o.types), globs(o.servers)
	if err = o.check(); err != nil {
		return err
	}
	if o.count < 0 || o.timeout < 0 {
		return usage("--count and --timeout must not be negative")
	}
	if o.address, err = parseServeURL("URL", address); err != nil {
		return err
	}
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
	for _, t := range o.types {
		query.Add("type", t)
	}
	for _, s := range o.servers {
		query.Add("server", s)
	}
	o.address.RawQuery = query.Encode()
	return nil
}

func runTail(ctx context.Context, env *Env, g *globals, opts tailOptions) error {
	token, err := opts.token(env, opts.address)
	if err != nil {
		return err
	}
	if opts.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, opts.timeout, errTimeout)
		defer cancel()
	}
	log := g.logger(env)
	print := newStream(env, g, streamFlags{})
	raw := g.format.Name == "json" || g.format.Table() && !env.OutTTY && !opts.lines
	printed, connected := 0, false
	options := remote.FeedOptions{URL: opts.address.String(), Header: bearer(token), Logger: log, MustConnect: true, Connected: func() { connected = true }}
	if opts.agent {
		err = tailAgent(ctx, env, log, opts, options)
	} else {
		err = remote.Follow(ctx, options, func(x eventstream.Event) error {
			e, err := tailEvent(x)
			switch {
			case err != nil:
				log.Warn("the feed sent something that is not an event", "err", err)
				return nil
			case e == nil || !opts.keep(e):
				return nil
			case raw: // with the members that only a newer mcptrack knows
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
	if refused, ok := errors.AsType[*remote.FeedRefusedError](err); ok {
		f := &failure{exit: exitRefused, code: "refused", err: fmt.Errorf("%s: %w", opts.address.Host, refused), hint: "check that it is the address of a serve-sse"}
		if refused.Status == http.StatusUnauthorized {
			f.hint = "set MCPTRACK_TOKEN, or specify the file with the token of the server with --token-file"
		}
		return f
	}
	switch {
	case errors.Is(err, errCounted), errors.Is(err, agent.ErrEnough), errors.Is(err, remote.ErrFeedEnded):
		return nil
	case err != nil && !connected:
		return &failure{exit: exitUnreachable, code: "unreachable", err: fmt.Errorf("%s cannot be reached: %w", opts.address.Host, err), hint: "is mcptrack serve-sse running there?"}
	case err == nil && errors.Is(context.Cause(ctx), errTimeout):
		return errTimeout
	}
	return err
}

// tailEvent decodes what a feed sent. It returns nil for what is not about a server,
// such as checkpoints, and for types that a newer mcptrack has.
func tailEvent(x eventstream.Event) (*event.Event, error) {
	if x.Type == "checkpoint" {
		return nil, nil
	}
	return jsonl.Decode([]byte(x.Data))
}
