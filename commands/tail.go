package commands

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/eventstream"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/agent"
	"github.com/mcptrack/mcptrack/output/jsonl"
	"github.com/mcptrack/mcptrack/output/remote"
)

func newTail(env *cli.Env, g *cli.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tail [URL]",
		Short: "Print the events of a running serve-sse (watch --url)",
		Long: `Follows the feed of a serve-sse, local or remote (URL, default
http://127.0.0.1:8722), and resumes after the last event if the connection is lost.
Prints events as watch does: as lines on a terminal, but as NDJSON into a pipe. Events
that the feed no longer has are printed as a gap. The first connection must succeed.
tail is watch --url; without --since it begins now. With --agent it prints short lines
for agents and, without --since, starts after the last event that its last run in this
folder reported; see mcptrack help agents.

Exit codes: 0 stopped, --count was reached, or the feed ended; 1 failed; 2 wrong usage; 4
the URL could not be reached; 5 the request was refused (a token is needed, or this is
not a serve-sse); 6 --timeout expired before --count was reached.`,
		Example: `  mcptrack tail
  mcptrack tail --since 1h --type 'resource.*'
  mcptrack tail https://mcp.example --token-file token --json | jq .resourceUri
  mcptrack tail --since 3f9a1c20b7e4d581-42 --count 1
  mcptrack tail --agent --type resource.updated`,
		Args: cli.Args(0, 1),
	}
	return watching(env, g, cmd, func(o *watchOptions, args []string) error { return o.TakeURL(args, cli.DefaultServeURL) })
}

// feed returns the URL of the feed of a serve-sse. base is its URL, or already that of the feed.
func (o *watchOptions) feed(base url.URL) *url.URL {
	if strings.Trim(base.Path, "/") == "" {
		base.Path = "/events"
	}
	query := base.Query()
	switch {
	case o.after.id != "":
		query.Set("since", o.after.id)
	case !o.after.time.IsZero():
		query.Set("since", o.after.time.UTC().Format(time.RFC3339))
	case o.stored:
		query.Set("since", "earliest")
	}
	if !o.stored { // otherwise events that do not pass tell where to stop
		for _, t := range o.Types {
			query.Add("type", t)
		}
		for _, s := range o.Servers {
			query.Add("server", s)
		}
	}
	base.RawQuery = query.Encode()
	return &base
}

// runWatchURL prints the events of a running serve-sse.
func runWatchURL(ctx context.Context, env *cli.Env, g *cli.Globals, opts watchOptions) error {
	client, err := opts.Client(env)
	if err != nil {
		return err
	}
	feed := opts.feed(*client.Base)
	api := *client.Base
	api.Path, api.RawPath, api.RawQuery = strings.TrimSuffix(strings.TrimSuffix(api.Path, "/"), "/events"), "", ""
	client.Base = &api
	log, s := g.Logger(env), opts.stream(env, g)
	if opts.name != "replay" && !opts.agent {
		shown, screen := newScreen(env, g)
		log, s = g.Logger(shown), opts.stream(shown, g)
		s.follow(shown, g, screen, nil, len(opts.Types) > 0)
	}
	if err := opts.checkServed(ctx, client); err != nil {
		return err
	}
	s.texts = textsOf(ctx, client)
	options := remote.FeedOptions{URL: feed.String(), Header: cli.Bearer(client.Token), Logger: log, MustConnect: true, Connected: func() { s.followed, s.connected = true, true }}
	follow := remote.Follow
	if opts.stored {
		follow = remote.Stored
	}
	if opts.agent {
		err = watchURLAgent(ctx, env, log, opts, feed, options)
	} else {
		err = follow(ctx, options, func(x eventstream.Event) error { return s.takeRemote(log, x) })
	}
	err = cli.FeedFailure(err, feed.Host, "token-file")
	_, refused := errors.AsType[*cli.Failure](err)
	switch {
	case refused:
		return err
	case errors.Is(err, remote.ErrNotServeSSE):
		return &cli.Failure{Exit: cli.ExitRefused, Code: "refused", Err: err}
	case errors.Is(err, agent.ErrEnough), errors.Is(err, remote.ErrFeedEnded):
		return nil
	case !s.connected && (err != nil || errors.Is(context.Cause(ctx), cli.ErrTimeout)):
		if err == nil {
			err = cli.ErrTimeout
		}
		return cli.Unreachable("is mcptrack serve-sse running there?", "%s cannot be reached: %w", feed.Host, err)
	}
	return s.outcome(ctx, err)
}

// textsOf returns a function for stream.texts that requests texts from a serve-sse or a daemon.
func textsOf(ctx context.Context, client remote.Client) func(*event.Event, catalog.Digest) *string {
	return func(e *event.Event, digest catalog.Digest) *string {
		if digest.IsZero() {
			return nil
		}
		text, ok, err := client.Text(ctx, e.ServerID, e.ResourceURI, digest)
		if err != nil || !ok {
			return nil
		}
		return &text
	}
}

// takeRemote prints an event from a feed.
func (s *stream) takeRemote(log *slog.Logger, x eventstream.Event) error {
	e, err := remoteEvent(x)
	switch {
	case err != nil:
		log.Warn("the feed sent an invalid event", "err", err)
		return nil
	case e == nil:
		return nil
	case s.raw == nil:
		return s.take([]*event.Event{e})
	}
	err = s.takeRaw(e, printable.JSON([]byte(x.Data))) // includes members that only a newer mcptrack understands
	if flushed := s.raw.Flush(); flushed != nil {
		return flushed
	}
	return err
}

// checkServed returns an error if a serve-sse does not know a named server. A gateway with --events,
// which lists no servers, is not checked.
func (o *watchOptions) checkServed(ctx context.Context, client remote.Client) error {
	if len(o.named) == 0 {
		return nil
	}
	var servers []struct{ ID string }
	if err := client.Get(ctx, []string{"api", "servers"}, nil, &servers); err != nil {
		return nil // the feed reports why
	}
	var known []string
	for _, srv := range servers {
		known = append(known, srv.ID)
	}
	for _, name := range o.named {
		if !slices.Contains(known, name) {
			return unknownStored(name, known)
		}
	}
	return nil
}

// remoteEvent decodes an event from a feed. It returns nil for events that do not concern a server,
// such as checkpoints, and for types from a newer mcptrack.
func remoteEvent(x eventstream.Event) (*event.Event, error) {
	if x.Type == "checkpoint" {
		return nil, nil
	}
	return jsonl.Decode([]byte(x.Data))
}
