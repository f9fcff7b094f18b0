package commands

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/eventstream"
	"github.com/mcptrack/mcptrack/output/remote"
)

// ownWatch returns why a command that follows the picked servers of a config must connect to them
// itself, or "" if it may follow them over a daemon. A daemon follows all lists of its servers, but
// only the resources that the config tracks.
func ownWatch(connect cli.ConnectFlags, journal cli.JournalFlags, cfg, picked *config.Config) string {
	if own := connect.Own(); own != "" {
		return own
	}
	if journal.Dir != "" || journal.NATS != "" {
		return "--data-dir or --nats is set"
	}
	if len(picked.Servers) == 0 {
		return "the config tracks no server yet"
	}
	for _, srv := range picked.Servers {
		if known, _ := cfg.Server(srv.ID); known.TrackResources != srv.TrackResources {
			return "the config does not track all that is followed"
		}
	}
	return ""
}

// own returns why watch must connect to the servers itself, or "".
func (o *watchOptions) own(cfg, picked *config.Config) string {
	switch {
	case o.NoFollow:
		return "--no-follow-config is set"
	case o.HoldCommands:
		return "--no-exec-on-reload is set"
	}
	return ownWatch(o.ConnectFlags, o.JournalFlags, cfg, picked)
}

// ofDaemon prints the events of a running daemon: first the newest states of the servers, and then
// what happens. done is false if the command must follow the servers itself.
func (o *watchOptions) ofDaemon(ctx context.Context, env *cli.Env, g *cli.Globals, log *slog.Logger, s *stream, cfg *config.Config) (done bool, err error) {
	picked := o.selection().Of(cfg)
	parent := ctx
	ctx, daemon := g.OpenDaemon(ctx, env, log, cli.DaemonUse{Verbose: o.verbose, Own: o.own(cfg, picked)})
	if daemon == nil {
		return false, nil
	}
	defer daemon.Close()
	client := daemon.Client()
	s.texts = textsOf(ctx, client)
	defer func() { s.texts = nil }()
	keep := s.keep
	s.keep = func(e *event.Event) bool {
		_, follows := picked.Server(e.ServerID)
		return (follows || e.ServerID == "") && (keep == nil || keep(e))
	}
	defer func() { s.keep = keep }()

	now, since, err := states(ctx, client, picked)
	switch epoch, _, _ := event.ParseID(since); {
	case err != nil:
	case o.after.id != "" && !strings.HasPrefix(o.after.id, epoch+"-"):
		log.Info("not using the daemon: the id of --since is from another log")
		return false, nil
	case o.since != "":
		now, since = nil, cmp.Or(o.after.id, o.after.time.UTC().Format(time.RFC3339))
	}
	for _, x := range now {
		if err == nil {
			err = s.takeRemote(log, x)
		}
	}
	if err == nil {
		query := url.Values{"since": {since}}
		for _, srv := range picked.Servers {
			query.Add("server", srv.ID)
		}
		if len(picked.Servers) > maxNamed {
			query.Del("server")
		}
		feed := client.Base.JoinPath("events")
		feed.RawQuery = query.Encode()
		err = remote.Follow(ctx, remote.FeedOptions{URL: feed.String(), Client: client.HTTP, Logger: log, MustConnect: true},
			func(x eventstream.Event) error { return s.takeRemote(log, x) })
	}
	_, unreachable := errors.AsType[*remote.UnreachableError](err)
	_, status := errors.AsType[*remote.StatusError](err)
	_, refused := errors.AsType[*remote.FeedRefusedError](err)
	switch {
	case parent.Err() != nil:
	case errors.Is(context.Cause(ctx), cli.ErrDaemonGone), unreachable, status, refused, errors.Is(err, remote.ErrFeedEnded), errors.Is(err, remote.ErrNotServeSSE):
		log.Warn("the daemon has ended; this process now follows the servers", "err", err)
		o.since = "" // what is stored was printed
		return false, nil
	}
	return true, s.outcome(parent, err)
}

// maxNamed limits the servers that are named in the query of a feed.
const maxNamed = 24

// states returns the newest stored events about the states of servers, and what is followed of them,
// in their order, and the id of the event after which a feed continues.
func states(ctx context.Context, client remote.Client, servers *config.Config) (now []eventstream.Event, since string, err error) {
	var at struct {
		Epoch string
		Seq   uint64
	}
	if err := client.Get(ctx, []string{"api", "status"}, nil, &at); err != nil {
		return nil, "", err
	}
	since = event.FormatID(at.Epoch, at.Seq)
	type stored struct {
		eventstream.Event
		seq uint64
	}
	var found []stored
	for _, srv := range servers.Servers {
		var past struct{ Events []json.RawMessage } // newest first
		if err := client.Get(ctx, []string{"api", "history"}, url.Values{"server": {srv.ID}, "limit": {"500"}}, &past); err != nil {
			return nil, "", err
		}
		newest := map[event.Type]bool{}
		for _, data := range past.Events {
			var e event.Event
			if json.Unmarshal(data, &e) != nil || e.Seq > at.Seq {
				continue
			}
			state, ok := e.Payload.(event.ServerState)
			if t := e.Type(); (ok || t == event.TypeSubscriptionActive) && !newest[t] {
				newest[t] = true
				found = append(found, stored{eventstream.Event{ID: e.ID, Type: string(t), Data: string(data)}, e.Seq})
			}
			if ok && state.State == event.Connecting || newest[event.TypeServerState] && newest[event.TypeSubscriptionActive] {
				break // what is older belongs to another session
			}
		}
	}
	slices.SortFunc(found, func(a, b stored) int { return cmp.Compare(a.seq, b.seq) })
	for _, x := range found {
		now = append(now, x.Event)
	}
	return now, since, nil
}
