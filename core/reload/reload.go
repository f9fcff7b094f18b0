package reload

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/filewatch"
)

// Options say what to follow and whom to tell. Apply and Publish are needed.
type Options struct {
	// Path is the file, which need not exist yet.
	Path string
	// Config are the surroundings that the file is read in.
	Config config.Options
	// Current is the config in force when Run begins; nil is an empty one.
	Current *config.Config
	// Apply is given every new config, and returns at once.
	Apply func(*config.Config)
	// Publish is given config.reloaded and config.rejected, and returns at once.
	Publish func(event.Event)
	// Kick asks for a reload at once, also of a file that did not change: what
	// the file refers to may have. Nil: never. Its sender does not close it.
	Kick <-chan struct{}
	// HoldCommands keeps commands that are new or changed from being started
	// until a Kick says that an operator wants them: whoever can write the file
	// could otherwise run anything.
	HoldCommands bool
	// Watch tunes how the file is watched; its Baseline is not used.
	Watch filewatch.FileOptions
	// Logger gets one line for every reload at info, and what is wrong at warn;
	// nil discards.
	Logger *slog.Logger
}

// reloader is the state of one Run, owned by its goroutine.
type reloader struct {
	opts    Options
	log     *slog.Logger
	file    *config.Config // the last good content of the file
	applied *config.Config // what was handed on: file without what is held back
	started bool           // something was delivered before
}

// Run follows the file until ctx ends and returns its cause.
func Run(ctx context.Context, opts Options) error {
	r := &reloader{opts: opts, log: opts.Logger, file: opts.Current, applied: opts.Current}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	if r.file == nil {
		r.file, r.applied = &config.Config{Path: opts.Path}, &config.Config{Path: opts.Path}
	}
	if opts.Watch.Logger == nil {
		opts.Watch.Logger = r.log
	}
	file := filewatch.NewFile(opts.Path, opts.Watch)
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { _ = file.Run(ctx) })
	kicked := false
	for {
		select {
		case change, ok := <-file.Changes():
			if !ok {
				return context.Cause(ctx)
			}
			r.take(change, kicked)
			kicked = false
		case <-opts.Kick:
			kicked = true
			file.Retry()
			file.Kick()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// take looks at one settled state of the file.
func (r *reloader) take(c filewatch.Change, kicked bool) {
	first := !r.started
	r.started = true
	next, problems := r.parse(c)
	if next == nil {
		if first && c.Missing && len(r.file.Servers) == 0 {
			return // never was there: whoever started us said so
		}
		r.log.Warn("config rejected; the last good one stays in force", "file", r.opts.Path, "problem", problems.Error())
		r.opts.Publish(event.Event{Payload: event.ConfigRejected{Problems: problems}})
		return
	}
	reloaded := diff(r.file, next)
	quiet := len(reloaded.Added)+len(reloaded.Removed)+len(reloaded.Changed) == 0
	if first && quiet {
		return // it is what Current was read from
	}
	r.file = next
	applied, held := next, []string(nil)
	if r.opts.HoldCommands && !kicked {
		applied, held = hold(r.applied, next)
	}
	r.applied = applied
	// Told before it is applied: what follows from it comes after it.
	reloaded.Duration = event.Milliseconds(time.Since(c.SeenAt))
	r.opts.Publish(event.Event{Payload: reloaded})
	r.opts.Apply(applied)
	r.log.Info("config reloaded", "file", r.opts.Path, "servers", len(next.Servers),
		"added", len(reloaded.Added), "removed", len(reloaded.Removed), "changed", len(reloaded.Changed))
	for _, id := range held {
		r.log.Warn("a new or changed command is held back; send SIGHUP to start it", "server", id)
	}
}

func (r *reloader) parse(c filewatch.Change) (*config.Config, config.Problems) {
	whole := func(code config.Code, message string) config.Problems {
		return config.Problems{{Severity: config.SeverityError, File: r.opts.Path, Line: 1, Column: 1, Code: code, Message: message}}
	}
	switch {
	case c.Err != nil:
		return nil, whole(config.CodeUnreadable, c.Err.Error())
	case c.Missing:
		return nil, whole(config.CodeNotFound, "the file is missing or empty")
	}
	return config.Parse(c.Data, r.opts.Path, r.opts.Config)
}

// diff tells the ids by which two configs differ, each sorted.
func diff(from, to *config.Config) event.ConfigReloaded {
	d := event.ConfigReloaded{Added: []string{}, Removed: []string{}, Changed: []string{}}
	for _, srv := range to.Servers {
		if old, ok := from.Server(srv.ID); !ok {
			d.Added = append(d.Added, srv.ID)
		} else if !srv.Equal(old) {
			d.Changed = append(d.Changed, srv.ID)
		}
	}
	for _, srv := range from.Servers {
		if _, ok := to.Server(srv.ID); !ok {
			d.Removed = append(d.Removed, srv.ID)
		}
	}
	slices.Sort(d.Added)
	slices.Sort(d.Removed)
	slices.Sort(d.Changed)
	return d
}

// hold takes back what would start a command that did not run so far: a new
// server is left out, a changed one stays as it is. It returns their ids. Who runs
// what is not tracked is not known here (a gateway may), so that it counts as
// running when it stays so, and as not running when it comes to be tracked.
func hold(running, next *config.Config) (*config.Config, []string) {
	out := &config.Config{Path: next.Path, Servers: make([]config.Server, 0, len(next.Servers))}
	var held []string
	for _, srv := range next.Servers {
		old, known := running.Server(srv.ID)
		starts := srv.Enabled && srv.Transport == config.TransportStdio
		ran := known && old.SameConnection(srv) && (old.Tracked() || !srv.Tracked())
		switch {
		case !starts || ran:
			out.Servers = append(out.Servers, srv)
		case known:
			held = append(held, srv.ID)
			out.Servers = append(out.Servers, old)
		default:
			held = append(held, srv.ID)
		}
	}
	return out, held
}
