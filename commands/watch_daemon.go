package commands

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/daemon/ipc"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/reload"
	"github.com/mcptrack/mcptrack/output/remote"
)

// ownWatch returns why a command that follows the picked servers of a config must connect to them
// itself, or "" if it may follow them over a daemon. A daemon follows all lists of its servers, but
// only the resources that the config tracks.
func ownWatch(connect cli.ConnectFlags, cfg, picked *config.Config) string {
	if own := connect.Own(); own != "" {
		return own
	}
	if len(picked.Servers) == 0 {
		return "the config tracks no server yet"
	}
	for _, srv := range picked.Servers {
		if known, _ := cfg.Server(srv.ID); known.TrackResources != srv.TrackResources {
			return "this command follows more than the config tracks"
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
	case o.LockFlags.File != "":
		return "--lock is set"
	case o.Dir != "" || o.NATS != "":
		return "--data-dir or --nats is set"
	}
	return ownWatch(o.ConnectFlags, cfg, picked)
}

// fromDaemon prints the events of a running daemon: first the newest states of the servers, and then
// what happens. done is false if the command must follow the servers itself.
func (o *watchOptions) fromDaemon(ctx context.Context, env *cli.Env, g *cli.Globals, log *slog.Logger, s *stream, desired engine.Desired) (done bool, err error) {
	own := o.own(desired.Config, o.selection().Of(desired.Config))
	following, daemon := g.OpenDaemon(ctx, env, log, cli.DaemonUse{Verbose: o.verbose, Own: own})
	if daemon == nil {
		return false, nil
	}
	defer daemon.Close()
	w := &daemonWatch{watchOptions: o, log: log, client: daemon.Client(), stream: s}
	w.cfg.Store(desired.Config)
	keep := s.keep
	s.keep = func(e *event.Event) bool {
		return (e.ServerID == "" || w.follows(e.ServerID)) && (keep == nil || keep(e))
	}
	defer func() { s.keep = keep }()
	err = w.run(following, desired)
	_, unreachable := errors.AsType[*remote.UnreachableError](err)
	_, refused := errors.AsType[*remote.RefusedError](err)
	_, config := errors.AsType[*ipc.Refused](err)
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, errOtherLog), errors.Is(err, errNotThere):
		log.Info("not using the daemon", "err", err)
		return false, nil
	case errors.Is(context.Cause(following), cli.ErrDaemonGone), config, unreachable, refused, errors.Is(err, remote.ErrFeedEnded):
		why := "the daemon has ended"
		if config {
			why = "the daemon refuses the changed config"
		}
		log.Warn(why+"; this process now follows the servers", "err", err)
		o.since = "" // what is stored was printed
		return false, nil
	}
	return true, s.outcome(ctx, err)
}

var (
	errOtherLog = errors.New("the id of --since is from another log")
	errNotThere = errors.New("the daemon does not follow everything that the changed config names")
)

// followConfig follows the config of a command that reads the events of a daemon, until ctx ends or there is an
// error. It passes new configs to apply, and the events about them, which the daemon does not store, to publish.
func followConfig(ctx context.Context, desired engine.Desired, apply func(*config.Config) error, publish func(*event.Event) error) error {
	if desired.Follow == nil {
		return nil
	}
	following, end := context.WithCancelCause(ctx)
	defer end(nil)
	do := func(err error) {
		if err != nil {
			end(err)
		}
	}
	opts := *desired.Follow
	opts.Current = desired.Config
	opts.Apply = func(cfg *config.Config) { do(apply(cfg)) }
	opts.Publish = func(e event.Event) {
		e.Timestamp = time.Now()
		do(publish(&e))
	}
	err := reload.Run(following, opts)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// daemonWatch prints the events of a daemon.
type daemonWatch struct {
	*watchOptions
	log    *slog.Logger
	client remote.Client
	stream *stream
	cfg    atomic.Pointer[config.Config]
}

func (w *daemonWatch) picked() *config.Config { return w.selection().Of(w.cfg.Load()) }

func (w *daemonWatch) follows(server string) bool {
	_, ok := w.picked().Server(server)
	return ok
}

// run prints events until ctx ends or there is an error.
func (w *daemonWatch) run(ctx context.Context, desired engine.Desired) error {
	if err := w.begin(ctx); err != nil {
		return err
	}
	running, ctx := errgroup.WithContext(ctx)
	changed := make(chan struct{}, 1) // tells that the config changed; one signal covers any number of changes; never closed
	running.Go(func() error {
		return followConfig(ctx, desired, func(cfg *config.Config) error {
			w.cfg.Store(cfg)
			if picked := w.picked(); len(picked.Servers) > 0 && w.own(cfg, picked) != "" {
				return errNotThere
			}
			select {
			case changed <- struct{}{}:
			default:
			}
			return nil
		}, func(e *event.Event) error { return w.stream.take(journal.Entry{}.WithEvent(e)) })
	})
	running.Go(func() error {
		for {
			if again, err := w.feed(ctx, changed); !again {
				return err
			}
		}
	})
	return running.Wait()
}

// feed prints events until ctx ends, there is an error, or the feed does not name all servers of a changed config.
func (w *daemonWatch) feed(ctx context.Context, changed <-chan struct{}) (again bool, err error) {
	ctx, end := context.WithCancel(ctx)
	named := w.servers()
	var waiting sync.WaitGroup
	waiting.Go(func() {
		for !again {
			select {
			case <-changed:
				now := w.servers()
				again = named != nil && (now == nil || slices.ContainsFunc(now, func(id string) bool { return !slices.Contains(named, id) }))
			case <-ctx.Done():
				return
			}
		}
		end()
	})
	err = w.stream.from(ctx, w.client, remote.ReadOptions{From: w.after, Servers: named, Logger: w.log, Passed: w.stream.passed})
	end()
	waiting.Wait()
	w.resumeAt(w.stream.last)
	return again && err == nil, err
}

// resumeAt makes the next feed begin after an event, unless id is empty.
func (w *daemonWatch) resumeAt(id string) {
	if w.stream.last = ""; id != "" {
		w.after = remote.Position{ID: id}
	}
}

// begin prints the newest states of the servers, unless --since says where to begin.
func (w *daemonWatch) begin(ctx context.Context) error {
	epoch, newest, err := w.client.Newest(ctx)
	if err != nil {
		return err
	}
	switch {
	case w.after.ID != "" && !strings.HasPrefix(w.after.ID, epoch+"-"):
		return errOtherLog
	case w.since != "":
		return nil
	}
	var now []journal.Entry
	for _, srv := range w.picked().Servers {
		events, err := w.client.Standing(ctx, srv.ID)
		if err != nil {
			return err
		}
		now = append(now, events...)
	}
	sort.Slice(now, func(i, j int) bool { return now[i].Seq < now[j].Seq })
	for _, e := range now {
		if e.Seq > newest {
			break // the feed has it
		}
		if err := w.stream.take(e); err != nil {
			return err
		}
	}
	w.resumeAt(event.FormatID(epoch, newest))
	return nil
}

// servers returns the servers that the feed names, or nil if there are too many for a query. It does not
// name those that are not approved: the daemon accepts no connection for a config that has them.
func (w *daemonWatch) servers() (ids []string) {
	for _, srv := range w.picked().Servers {
		if srv.Unapproved == "" || srv.Superseded {
			ids = append(ids, srv.ID)
		}
	}
	if len(ids) > maxNamed {
		return nil
	}
	return ids
}

// maxNamed limits the servers that are named in the query of a feed.
const maxNamed = 24
