package inject

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/eventstream"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/tracker"
	outsse "github.com/mcptrack/mcptrack/output/feed"
	"github.com/mcptrack/mcptrack/output/jsonl"
	"github.com/mcptrack/mcptrack/output/realtime"
	"github.com/mcptrack/mcptrack/output/remote"
)

// sourceFlags contains the flags that select the source of updates.
type sourceFlags struct {
	from          string
	fromTokenFile string
	stdin         bool
	cli.TrackFlags

	feed feedAddress // parsed value of --from
}

func (s *sourceFlags) add(cmd *cobra.Command, g *cli.Globals) {
	f := cmd.Flags()
	f.StringVar(&s.from, "from", "", "`URL` of a running serve-sse to receive updates from")
	f.StringVar(&s.fromTokenFile, "from-token-file", "", "`FILE` (mode 0600) with the token for --from, instead of MCPTRACK_TOKEN")
	f.BoolVar(&s.stdin, "stdin", false, "read updates from stdin, as NDJSON from watch --json")
	g.AddDemo(cmd)
	s.AddReload(cmd)
	_ = cmd.MarkFlagFilename("from-token-file")
}

func (s *sourceFlags) parse(g *cli.Globals) (err error) {
	n := 0
	for _, given := range []bool{s.from != "", s.stdin, g.Demo()} {
		if given {
			n++
		}
	}
	switch {
	case n > 1:
		return cli.Usage("--from, --stdin and --demo cannot be used together")
	case s.from == "" && s.fromTokenFile != "":
		return cli.Usage("--from-token-file requires --from")
	case s.from != "":
		s.feed, err = parseFeed(s.from)
	}
	return err
}

// updateSource passes events to a sink.
type updateSource struct {
	// run passes events to the sink until its context ends or there are no more events.
	run func(context.Context, *messageSink) error
	// reached reports whether the source has ever been reached. It is nil if the source needs no
	// connection.
	reached func() bool
}

func (o *options) source(ctx context.Context, env *cli.Env, g *cli.Globals) (*updateSource, error) {
	log := g.Logger(env)
	switch {
	case o.stdin:
		return &updateSource{run: func(ctx context.Context, s *messageSink) error {
			return jsonl.Read(ctx, env.In, log.With("input", "stdin"), o.offer(s))
		}}, nil
	case o.from != "":
		f, err := o.follower(env, log)
		if err != nil {
			return nil, err
		}
		return &updateSource{run: func(ctx context.Context, s *messageSink) error { return f.run(ctx, s, o.offer(s)) }, reached: f.reached.Load}, nil
	}
	cfg, err := g.Load(ctx, env, log)
	if err != nil {
		return nil, err
	}
	if err := o.checkMCP(cfg); err != nil {
		return nil, err
	}
	if err := o.selection().Check(cfg, log, !o.NoFollow); err != nil {
		return nil, err
	}
	o.config.Store(o.selection().Of(cfg))
	return &updateSource{run: func(ctx context.Context, s *messageSink) error { return o.track(ctx, env, g, cfg, o.offer(s)) }}, nil
}

// offer returns a function that passes the events that match the filters to the sink.
func (o *options) offer(s *messageSink) func(*event.Event) error {
	return func(e *event.Event) error {
		if (e.Type() == event.TypeResourceUpdated || (o.refreshTools || len(o.mcp) > 0) && e.Type() == event.TypeToolsListChanged) && o.Keep(e) {
			return s.offer(e)
		}
		s.pass(e.ID)
		return nil
	}
}

// track follows the servers in a config, as watch does.
func (o *options) track(ctx context.Context, env *cli.Env, g *cli.Globals, cfg *config.Config, offer func(*event.Event) error) error {
	log := g.Logger(env)
	desired, err := o.Desired(env, g, log, cfg, func(next *config.Config) *config.Config {
		o.config.Store(o.selection().Of(next))
		return o.config.Load()
	})
	if err != nil {
		return err
	}
	e, err := cli.NewUnstoredEngine(ctx, desired, tracker.Options{Dial: env.Dial, Session: o.ConnectFlags.SessionOptions(env, g), Logger: log, Texts: o.content, Window: o.window()}, nil)
	if err != nil {
		return err
	}
	return e.Run(ctx, engine.Events(func(_ context.Context, events iter.Seq2[journal.Entry, error]) error {
		for e, err := range journal.Events(events) {
			if err != nil {
				return err
			}
			if u, ok := e.Payload.(event.ResourceUpdated); ok && o.content {
				u.Content = u.Text
				e.Payload = u
			}
			if err := offer(&e); err != nil {
				return err
			}
		}
		return nil
	}))
}

// window returns the period within which the tracker coalesces changes of a resource. It is only a
// fraction of --coalesce, because the session coalesces them again: the two periods add up, and a
// message should arrive within 3 s.
func (o *options) window() time.Duration {
	return min(max(o.coalesce/4, 10*time.Millisecond), 500*time.Millisecond)
}

// feedAddress is the URL of a feed.
type feedAddress struct{ url *url.URL }

// parseFeed parses the value of --from: the URL of a feed, or the address of a serve-sse, whose
// /events is then used.
func parseFeed(text string) (feedAddress, error) {
	u, err := cli.ParseServeURL("--from", text)
	if err != nil {
		return feedAddress{}, err
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/events"
		if q := u.Query(); !q.Has("type") {
			q["type"] = []string{string(event.TypeResourceUpdated), string(event.TypeGap)}
			u.RawQuery = q.Encode()
		}
	}
	return feedAddress{u}, nil
}

// address returns the URL without its query.
func (f feedAddress) address() string {
	return printable.Line(f.url.Scheme+"://"+f.url.Host+f.url.EscapedPath(), 256)
}

// feedFollower passes the events of a feed to a sink.
type feedFollower struct {
	opts    remote.FeedOptions
	log     *slog.Logger
	reached atomic.Bool // set once the feed has been reached
}

func (o *options) follower(env *cli.Env, log *slog.Logger) (*feedFollower, error) {
	token, err := cli.ServeToken(env, o.feed.url, "from-token-file", o.fromTokenFile, o.insecure)
	if err != nil {
		return nil, err
	}
	if q := o.feed.url.Query(); o.refreshTools && q.Has("type") {
		q.Add("type", string(event.TypeToolsListChanged))
		o.feed.url.RawQuery = q.Encode()
	}
	f := &feedFollower{log: log.With("feed", o.feed.address())}
	f.opts = remote.FeedOptions{URL: o.feed.url.String(), Header: cli.Bearer(token), Logger: f.log, Connected: func() { f.reached.Store(true) }}
	return f, nil
}

// run follows the feed. A refused request ends the command. If the feed ends permanently, run
// returns as at the end of stdin.
func (f *feedFollower) run(ctx context.Context, s *messageSink, offer func(*event.Event) error) error {
	if s.resume != nil {
		f.opts.LastID = s.resume()
	}
	bad := 0
	err := remote.Follow(ctx, f.opts, func(x eventstream.Event) error {
		e, err := feedEvent(x)
		switch {
		case err != nil:
			if bad++; bad == 1 {
				f.log.Warn("the feed sent an invalid event", "err", err)
			}
		case e == nil:
			s.pass(x.ID)
		default:
			if gap, ok := e.Payload.(event.Gap); ok {
				f.log.Warn("some updates have expired from the feed", "from", gap.From, "to", gap.To, "reason", gap.Reason)
			}
			return offer(e)
		}
		return nil
	})
	if errors.Is(err, remote.ErrFeedEnded) {
		return nil
	}
	return cli.RemoteFailure(ctx, err, "from-token-file")
}

// feedEvent decodes an event from /events, or from /api/mcp/resource-events, the VibeChat feed. It
// returns nil for events that inject does not use.
func feedEvent(x eventstream.Event) (*event.Event, error) {
	var head struct {
		Type event.Type `json:"type"`
	}
	if err := json.Unmarshal([]byte(x.Data), &head); err != nil {
		return nil, err
	}
	switch head.Type {
	case event.TypeResourceUpdated, event.TypeToolsListChanged, event.TypeGap:
		return jsonl.Decode([]byte(x.Data))
	}
	return outsse.ParseVibeChat(x.ID, []byte(x.Data))
}

// idleSave is the interval at which progress is saved while nothing is delivered.
const idleSave = 5 * time.Second

// progressFile opens the file that records how far a feed was delivered to a target; each
// combination of feed and target has its own file. Without a feed, delivery cannot resume, because
// the event ids of tracked servers are valid for one run only.
func (o *options) progressFile(env *cli.Env) (*realtime.ProgressFile, error) {
	dir := env.StateDir()
	if o.from == "" || dir == "" {
		return &realtime.ProgressFile{}, nil
	}
	// Include only the query members that identify the conversation; others may vary or be secret.
	name := strings.Join([]string{o.feed.address(), o.endpoint.Address(), o.endpoint.Query.Get("call_id"), o.endpoint.Query.Get("model")}, "\x00")
	if agent := o.endpoint.Query.Get("agent_id"); agent != "" {
		name += "\x00" + agent
	}
	sum := sha256.Sum256([]byte(name))
	return realtime.OpenProgress(filepath.Join(dir, "inject", hex.EncodeToString(sum[:12])+".json"))
}
