package inject

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/tracker"
	"github.com/mcptrack/mcptrack/output/api"
	"github.com/mcptrack/mcptrack/output/dashboard"
	"github.com/mcptrack/mcptrack/output/jsonl"
	"github.com/mcptrack/mcptrack/output/remote"
)

// sourceFlags contains the flags that select the source of updates.
type sourceFlags struct {
	from          string
	fromTokenFile string
	stdin         bool
	cli.TrackFlags
}

func (s *sourceFlags) add(cmd *cobra.Command, g *cli.Globals) {
	f := cmd.Flags()
	f.StringVar(&s.from, "from", "", "`URL` of a running serve-sse with the updates")
	f.StringVar(&s.fromTokenFile, "from-token-file", "", "`FILE` (mode 0600) with the token for --from")
	f.BoolVar(&s.stdin, "stdin", false, "read updates of watch --json from stdin")
	g.AddDemo(cmd)
	cli.AddAllFlag(cmd, &s.AllServers)
	s.AddReload(cmd)
	_ = cmd.MarkFlagFilename("from-token-file")
}

func (s *sourceFlags) parse(g *cli.Globals) error {
	switch {
	case s.from != "" && s.stdin, g.Demo() && (s.from != "" || s.stdin):
		return cli.Usage("--from, --stdin and --demo cannot be used together")
	case s.from == "" && s.fromTokenFile != "":
		return cli.Usage("--from-token-file requires --from")
	}
	return nil
}

// source passes events to a function until its context ends or there are no more events.
type source struct {
	name    string      // for people, without secrets
	address string      // of a feed, without secrets; empty if the source cannot resume
	reached atomic.Bool // whether the source has ever been reached
	run     func(context.Context, reader) error
}

// reader takes the events of a source.
type reader struct {
	after   string                   // id of the event after which to begin; empty means with new events
	passed  func(id string)          // called with the id of an entry that is not delivered
	deliver func(*event.Event) error // an error ends the source
}

func (o *options) source(ctx context.Context, env *cli.Env, g *cli.Globals, log *slog.Logger) (*source, error) {
	s := &source{}
	switch {
	case o.stdin:
		s.name = "standard input"
		s.reached.Store(true)
		s.run = func(ctx context.Context, r reader) error {
			return jsonl.Read(ctx, env.In, log.With("input", "stdin"), r.deliver)
		}
		return s, nil
	case o.from != "":
		client, err := cli.ServeClient(env, "--from", o.from, "from-token-file", o.fromTokenFile, o.insecure)
		if err != nil {
			return nil, err
		}
		feed := client.Base.JoinPath("events")
		s.name, s.address = host(client.Base), printable.Line(feed.Scheme+"://"+feed.Host+feed.EscapedPath(), 256)
		s.run = func(ctx context.Context, r reader) error {
			err := s.follow(ctx, client, remote.Position{ID: r.after}, log.With("feed", s.address), o.types(), r)
			if errors.Is(err, remote.ErrFeedEnded) {
				return nil // as at the end of stdin
			}
			return cli.RemoteFailure(ctx, err, "from-token-file")
		}
		return s, nil
	}
	cfg, err := g.Load(ctx, env, log)
	if err != nil {
		return nil, err
	}
	picked := cli.Selection{Servers: o.Servers, All: o.AllServers}
	if err := picked.Check(cfg, log, !o.NoFollow); err != nil {
		return nil, err
	}
	pick := func(cfg *config.Config) *config.Config {
		o.config.Store(picked.Of(cfg))
		return o.config.Load()
	}
	s.name = followed(g, pick(cfg))
	s.reached.Store(true)
	s.run = func(ctx context.Context, r reader) error {
		desired, err := o.Desired(env, g, log, cfg, pick)
		if err != nil {
			return err
		}
		e, err := cli.NewUnstoredEngine(ctx, desired, tracker.Options{Dial: env.Dial, Session: o.SessionOptions(env, g), Logger: log, Texts: o.content, Window: o.window()}, nil)
		if err != nil {
			return err
		}
		client := api.Local(e.Log(), dashboard.Options{})
		return e.Run(ctx, engine.Source(func(ctx context.Context) error {
			return s.follow(ctx, client, remote.Position{All: true}, log, nil, r)
		}))
	}
	return s, nil
}

// follow passes the events of a client to a reader.
func (s *source) follow(ctx context.Context, client remote.Client, from remote.Position, log *slog.Logger, types []string, r reader) error {
	options := remote.ReadOptions{From: from, Types: types, Passed: r.passed, Connected: func() { s.reached.Store(true) }, Retry: true, Logger: log}
	return client.Follow(ctx, options, func(entry journal.Entry) error {
		e, err := entry.Event()
		if err != nil { // another program's
			r.passed(entry.ID)
			return nil
		}
		if gap, ok := e.Payload.(event.Gap); ok {
			log.Warn("the feed no longer stores some updates", "from", gap.From, "to", gap.To, "reason", gap.Reason)
		}
		return r.deliver(&e)
	})
}

// types returns the types of the events that are read from a feed.
func (o *options) types() []string {
	types := []string{string(event.TypeResourceUpdated), string(event.TypeGap)}
	if o.refreshTools {
		types = append(types, string(event.TypeToolsListChanged))
	}
	return types
}

// window returns the period within which the tracker coalesces changes of a resource. It is only a
// fraction of --coalesce, because the session coalesces them again: the two periods add up, and a
// message should arrive within 3 s.
func (o *options) window() time.Duration {
	return min(max(o.coalesce/4, 10*time.Millisecond), 500*time.Millisecond)
}

// followed names the servers of a config.
func followed(g *cli.Globals, cfg *config.Config) string {
	if g.Demo() {
		return "the demo server"
	}
	var ids []string
	for _, srv := range cfg.Servers {
		ids = append(ids, printable.Line(srv.ID, 64))
	}
	return cmp.Or(cli.Join(ids, 5), "no server yet")
}

// host returns the host of a URL, whose other parts may be secret.
func host(u *url.URL) string { return printable.Line(u.Host, 200) }
