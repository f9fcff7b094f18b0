package commands

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

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
	case o.LockFlags.File != "":
		return "--lock is set"
	case o.Dir != "" || o.NATS != "":
		return "--data-dir or --nats is set"
	}
	for _, about := range []event.Payload{event.ConfigReloaded{}, event.ConfigRejected{}} {
		if len(o.Types) > 0 && o.Keep(&event.Event{Payload: about}) {
			return "--type selects events about the config, which a daemon does not store"
		}
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
	w := &daemonWatch{watchOptions: o, log: log, client: daemon.Client(), stream: s, cfg: desired.Config, changed: make(chan struct{}, 1)}
	keep := s.keep
	s.keep = func(e *event.Event) bool {
		_, follows := w.picked().Server(e.ServerID)
		return (follows || e.ServerID == "") && (keep == nil || keep(e))
	}
	defer func() { s.keep = keep }()
	err = w.run(following, desired.Follow)
	_, unreachable := errors.AsType[*remote.UnreachableError](err)
	_, refused := errors.AsType[*remote.RefusedError](err)
	_, config := errors.AsType[*ipc.Refused](err)
	switch {
	case ctx.Err() != nil:
	case config:
		log.Warn("the daemon refuses the changed config; this process now follows the servers", "err", err)
		o.since = "" // what is stored was printed
		return false, nil
	case errors.Is(err, errOtherLog), errors.Is(err, errNotThere):
		log.Info("not using the daemon", "err", err)
		return false, nil
	case errors.Is(context.Cause(following), cli.ErrDaemonGone), unreachable, refused, errors.Is(err, remote.ErrFeedEnded):
		log.Warn("the daemon has ended; this process now follows the servers", "err", err)
		o.since = "" // what is stored was printed
		return false, nil
	}
	return true, s.outcome(ctx, err)
}

var (
	errOtherLog = errors.New("the id of --since is from another log")
	errNotThere = errors.New("the daemon does not track all that is followed since the config changed")
	// errConfig ends a feed because the config changed.
	errConfig = errors.New("the config changed")
)

// daemonWatch prints the events of a daemon, and follows the config to know of which servers.
type daemonWatch struct {
	*watchOptions
	log    *slog.Logger
	client remote.Client
	stream *stream

	// changed tells run that the config or events changed. Capacity 1, because one signal covers any number of
	// changes; never closed.
	changed chan struct{}

	mu     sync.Mutex // guards the fields below
	cfg    *config.Config
	events []journal.Entry // about the config, to be printed; without ids, because the daemon does not store them
}

func (w *daemonWatch) picked() *config.Config {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.selection().Of(w.cfg)
}

// change changes the fields that mu guards.
func (w *daemonWatch) change(f func()) {
	w.mu.Lock()
	f()
	w.mu.Unlock()
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// run prints events until ctx ends or there is an error. follow follows the config.
func (w *daemonWatch) run(ctx context.Context, follow *reload.Options) error {
	if err := w.begin(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	if follow != nil {
		opts := *follow
		opts.Current = w.cfg
		opts.Apply = func(cfg *config.Config) { w.change(func() { w.cfg = cfg }) }
		opts.Publish = func(e event.Event) {
			e.Timestamp = time.Now()
			w.change(func() { w.events = append(w.events, journal.Entry{}.WithEvent(&e)) })
		}
		running.Go(func() { _ = reload.Run(ctx, opts) })
	}
	for {
		servers := w.servers()
		feeding, end := context.WithCancelCause(ctx)
		adopting := make(chan struct{}) // closed when adopt is no longer called
		running.Go(func() {
			defer close(adopting)
			for {
				select {
				case <-w.changed:
					if err := w.adopt(servers); err != nil {
						end(err)
						return
					}
				case <-feeding.Done():
					return
				}
			}
		})
		err := w.stream.from(feeding, w.client, remote.ReadOptions{From: w.after, Servers: servers, Logger: w.log, Passed: w.stream.passed})
		why := context.Cause(feeding)
		end(nil)
		<-adopting
		w.resumeAt(w.stream.last)
		switch {
		case ctx.Err() != nil || err != nil && !errors.Is(err, errConfig):
			return err
		case why != nil && !errors.Is(why, errConfig):
			return why
		}
	}
}

// resumeAt makes the next feed begin after an event, unless id is empty.
func (w *daemonWatch) resumeAt(id string) {
	if w.stream.last = ""; id != "" {
		w.after = remote.Position{ID: id}
	}
}

// adopt prints the events about the config. It returns errConfig if the feed does not name all servers of the
// config, and errNotThere if the daemon does not track all that is followed now.
func (w *daemonWatch) adopt(named []string) error {
	w.mu.Lock()
	cfg, events := w.cfg, w.events
	w.events = nil
	w.mu.Unlock()
	for _, e := range events {
		if err := w.stream.take(e); err != nil {
			return err
		}
	}
	if picked := w.picked(); len(picked.Servers) > 0 && w.own(cfg, picked) != "" {
		return errNotThere
	}
	if now := w.servers(); named != nil && (now == nil || slices.ContainsFunc(now, func(id string) bool { return !slices.Contains(named, id) })) {
		return errConfig
	}
	return nil
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
	slices.SortFunc(now, func(a, b journal.Entry) int { return cmp.Compare(a.Seq, b.Seq) })
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
