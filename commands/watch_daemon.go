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
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/daemon/ipc"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/eventstream"
	"github.com/mcptrack/mcptrack/core/reload"
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
	case o.LockFlags.File != "":
		return "--lock is set"
	}
	for _, about := range []event.Payload{event.ConfigReloaded{}, event.ConfigRejected{}} {
		if len(o.Types) > 0 && o.Keep(&event.Event{Payload: about}) {
			return "--type selects events about the config, which a daemon does not store"
		}
	}
	return ownWatch(o.ConnectFlags, o.JournalFlags, cfg, picked)
}

// ofDaemon prints the events of a running daemon: first the newest states of the servers, and then
// what happens. done is false if the command must follow the servers itself.
func (o *watchOptions) ofDaemon(ctx context.Context, env *cli.Env, g *cli.Globals, log *slog.Logger, s *stream, desired engine.Desired) (done bool, err error) {
	own := o.own(desired.Config, o.selection().Of(desired.Config))
	following, daemon := g.OpenDaemon(ctx, env, log, cli.DaemonUse{Verbose: o.verbose, Own: own})
	if daemon == nil {
		return false, nil
	}
	defer daemon.Close()
	w := &daemonWatch{watchOptions: o, log: log, client: daemon.Client(), stream: s, cfg: desired.Config, changed: make(chan struct{}, 1)}
	s.texts = textsOf(following, w.client)
	keep := s.keep
	s.keep = func(e *event.Event) bool {
		_, follows := w.picked().Server(e.ServerID)
		return (follows || e.ServerID == "") && (keep == nil || keep(e))
	}
	defer func() { s.keep, s.texts = keep, nil }()
	err = w.run(following, desired.Follow)
	_, unreachable := errors.AsType[*remote.UnreachableError](err)
	_, status := errors.AsType[*remote.StatusError](err)
	_, refused := errors.AsType[*remote.FeedRefusedError](err)
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
	case errors.Is(context.Cause(following), cli.ErrDaemonGone), unreachable, status, refused, errors.Is(err, remote.ErrFeedEnded), errors.Is(err, remote.ErrNotServeSSE):
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
	last   string // id of the last event that was received

	// changed tells run that the config changed, or that there is an event about the config. Capacity
	// 1, because one signal covers any number of changes; never closed.
	changed chan struct{}

	printing sync.Mutex // held while the stream prints

	mu     sync.Mutex // guards the fields below
	cfg    *config.Config
	events []*event.Event // about the config, to be printed
}

func (w *daemonWatch) picked() *config.Config {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.selection().Of(w.cfg)
}

// run prints events until ctx ends or there is an error. follow follows the config.
func (w *daemonWatch) run(ctx context.Context, follow *reload.Options) error {
	if err := w.begin(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var reloading sync.WaitGroup
	defer reloading.Wait()
	defer cancel()
	if follow != nil {
		opts := *follow
		opts.Current = w.cfg
		opts.Apply = func(cfg *config.Config) { w.change(func() { w.cfg = cfg }) }
		opts.Publish = func(e event.Event) {
			e.Timestamp = time.Now()
			w.change(func() { w.events = append(w.events, &e) })
		}
		reloading.Go(func() { _ = reload.Run(ctx, opts) })
	}
	for {
		named := w.named()
		feeding, end := context.WithCancelCause(ctx)
		var watching sync.WaitGroup
		watching.Go(func() {
			for {
				select {
				case <-w.changed:
					if err := w.adopt(named); err != nil {
						end(err)
						return
					}
				case <-feeding.Done():
					return
				}
			}
		})
		err := w.feed(feeding, named)
		why := context.Cause(feeding)
		end(nil)
		watching.Wait()
		switch {
		case err != nil || ctx.Err() != nil || why == nil:
			return err
		case !errors.Is(why, errConfig):
			return why
		}
	}
}

// adopt prints the events about the config. It returns errConfig if the feed does not name all servers
// of the config, and errNotThere if the daemon does not track all that is followed.
func (w *daemonWatch) adopt(named []string) error {
	w.mu.Lock()
	cfg, events := w.cfg, w.events
	w.events = nil
	w.mu.Unlock()
	if w.stream.raw == nil { // they have no id, because the daemon does not store them
		w.printing.Lock()
		err := w.stream.take(events)
		w.printing.Unlock()
		if err != nil {
			return err
		}
	}
	if picked := w.picked(); len(picked.Servers) > 0 && w.own(cfg, picked) != "" {
		return errNotThere
	}
	if now := w.named(); named != nil && (now == nil || !subset(now, named)) {
		return errConfig
	}
	return nil
}

func subset(some, of []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(of, s) })
}

// change changes the state of the config.
func (w *daemonWatch) change(f func()) {
	w.mu.Lock()
	f()
	w.mu.Unlock()
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// begin prints the newest states of the servers, unless --since says where to begin.
func (w *daemonWatch) begin(ctx context.Context) error {
	now, since, err := states(ctx, w.client, w.picked())
	if err != nil {
		return err
	}
	epoch, _, _ := event.ParseID(since) // fails if the log is not open, and then no id is from it
	switch {
	case w.after.id != "" && !strings.HasPrefix(w.after.id, epoch+"-"):
		return errOtherLog
	case w.since != "":
		w.last = cmp.Or(w.after.id, w.after.time.UTC().Format(time.RFC3339))
		return nil
	}
	w.last = since
	for _, x := range now {
		if err := w.stream.takeRemote(w.log, x); err != nil {
			return err
		}
	}
	return nil
}

// feed prints the events after the last one until ctx ends.
func (w *daemonWatch) feed(ctx context.Context, named []string) error {
	feed := w.client.Base.JoinPath("events")
	feed.RawQuery = url.Values{"since": {w.last}, "server": named}.Encode()
	return remote.Follow(ctx, remote.FeedOptions{URL: feed.String(), Client: w.client.HTTP, Logger: w.log, MustConnect: true}, func(x eventstream.Event) error {
		w.printing.Lock()
		defer w.printing.Unlock()
		w.last = cmp.Or(x.ID, w.last)
		return w.stream.takeRemote(w.log, x)
	})
}

// named returns the servers that the feed names, or nil if there are too many for a query. It does not
// name those that are not approved: the daemon accepts no connection for a config that has them.
func (w *daemonWatch) named() (ids []string) {
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

// states returns the newest stored events about the states of servers, what is followed of them, and what
// differs from the lock, in their order, and the id of the event after which a feed continues.
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
		newest, earlier := map[event.Type]bool{}, false
		compared := map[[2]string]bool{} // items, by section
		for _, data := range past.Events {
			var e event.Event
			if json.Unmarshal(data, &e) != nil || e.Seq > at.Seq {
				continue
			}
			show := func() {
				found = append(found, stored{eventstream.Event{ID: e.ID, Type: string(e.Type()), Data: string(data)}, e.Seq})
			}
			if p, ok := e.Payload.(event.LockDrift); ok {
				if item := [2]string{p.Section, p.Item}; !compared[item] {
					compared[item] = true
					if p.Change == event.DriftChanged {
						show()
					}
				}
				continue
			}
			if earlier {
				continue // it belongs to another session
			}
			state, ok := e.Payload.(event.ServerState)
			if t := e.Type(); (ok || t == event.TypeSubscriptionActive) && !newest[t] {
				newest[t] = true
				show()
			}
			earlier = ok && state.State == event.Connecting || newest[event.TypeServerState] && newest[event.TypeSubscriptionActive]
		}
	}
	slices.SortFunc(found, func(a, b stored) int { return cmp.Compare(a.seq, b.seq) })
	for _, x := range found {
		now = append(now, x.Event)
	}
	return now, since, nil
}
