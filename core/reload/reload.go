// Package reload applies a config file whenever the file changes.
//
// The whole file is validated before anything changes. A missing, partial or invalid file has no
// effect: the last valid config stays in use, and the problems are published once for each content.
// Configs are applied in the order in which the file was saved; if it is saved several times in
// quick succession, possibly only the last config is applied (core/filewatch decides when a file
// has settled). config.reloaded is published before the config is applied, so that it precedes all
// resulting events.
//
// Entries that the user has not approved are held back (see [Hold]): the previously approved entry
// stays in use, and the rest of the config is applied.
//
// The files that the config refers to (envFile, ${file:PATH}, and missing folders and programs) are
// checked every second. If a change to one of these files changes the config, the config is
// reloaded.
//
// Ownership: Run owns the watch on the file and stops it before it returns.
package reload

import (
	"context"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/filewatch"
)

// Options configure [Run]. Path, Apply and Publish are required.
type Options struct {
	// Path is the path of the config file, which need not exist yet.
	Path string
	// Config is passed to the parser of the config file.
	Config config.Options
	// Current is the config in use when Run is called; nil means an empty config.
	Current *config.Config
	// Apply receives every new config. It must return immediately.
	Apply func(*config.Config)
	// Publish receives config.reloaded and config.rejected. It must return immediately.
	Publish func(event.Event)
	// Kick requests an immediate reload even if the file did not change, because variables or
	// programs that it refers to may have changed. The channel must not be closed; it may be nil.
	Kick <-chan struct{}
	// Hold, if not nil, holds back entries that the user has not approved.
	Hold *Hold
	// Logger receives one record per reload at level info, and problems at level warn; nil discards
	// them.
	Logger *slog.Logger
}

// reloader holds the state of one call to Run. It is owned by Run's goroutine.
type reloader struct {
	opts    Options
	log     *slog.Logger
	file    *config.Config // last valid content of the file
	applied *config.Config // config applied last: file without the entries that are held back
	held    []string       // keys of the held-back entries that were logged
	started bool           // filewatch has delivered the first state of the file
	data    []byte         // last valid content; nil if none was delivered
	refers  referred       // files that the config refers to
}

// Run reloads the config whenever the file changes, until ctx ends. It returns the cause of ctx.
func Run(ctx context.Context, opts Options) error {
	r := &reloader{opts: opts, log: opts.Logger, file: opts.Current, applied: opts.Current}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	if r.file == nil {
		r.file, r.applied = &config.Config{Path: opts.Path}, &config.Config{Path: opts.Path}
	}
	file := filewatch.NewFile(opts.Path, filewatch.FileOptions{MaxBytes: config.SizeLimit(opts.Path), Logger: r.log})
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { _ = file.Run(ctx) })
	defer r.refers.stop()
	kicked := false
	for {
		r.refers.follow(r.watched())
		select {
		case <-r.refers.tick():
			if r.refers.check() && r.data != nil {
				r.again()
			}
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

// watched returns the files, other than the config file, whose changes may affect the config or its
// approval.
func (r *reloader) watched() []string {
	if r.opts.Hold == nil || r.opts.Hold.File == "" {
		return r.file.Files
	}
	return append(slices.Clone(r.file.Files), r.opts.Hold.File)
}

// again parses the last valid content again, because a file that it refers to or an approval has
// changed. It publishes nothing if the resulting config is the same.
func (r *reloader) again() {
	next, _ := config.LoadData(r.data, r.opts.Path, r.opts.Config)
	if next == nil {
		return // because of Config.Strict, or because others can now change the file; the old config stays in use
	}
	if !Same(r.file, next) {
		r.adopt(next, diff(r.file, next), time.Now(), false)
		return
	}
	r.file = next // the config is the same, but its intents may differ
	if applied, _ := r.opts.Hold.hold(r.applied, next, false); !Same(r.applied, applied) {
		r.apply(false)
	}
}

// take handles a settled state of the file. kicked is true if it was requested by a Kick.
func (r *reloader) take(c filewatch.Change, kicked bool) {
	first := !r.started
	r.started = true
	next, problems := r.parse(c)
	if next == nil {
		if first && c.Missing && len(r.file.Servers) == 0 {
			return // the file has never existed; the caller reports this
		}
		r.log.Warn("config rejected; the last valid config stays in use", "file", r.opts.Path, "problem", problems.Error())
		r.opts.Publish(event.Event{Payload: event.ConfigRejected{Problems: reported(problems)}})
		return
	}
	if problems.Errors() > 0 { // in the file of a host
		r.log.Warn("servers in the config are invalid and not used", "file", r.opts.Path, "problem", problems.Error())
	}
	reloaded := diff(r.file, next)
	r.data = c.Data
	if first && Same(r.file, next) {
		return // Current was already read from this content
	}
	r.adopt(next, reloaded, c.SeenAt, kicked)
}

// adopt puts a config into use. reloaded describes how it differs from the previous config, and
// seen is when the change was detected.
func (r *reloader) adopt(next *config.Config, reloaded event.ConfigReloaded, seen time.Time, kicked bool) {
	r.file = next
	// Publish before applying the config, so that this event precedes all events that result from
	// the config.
	reloaded.Duration = event.Milliseconds(time.Since(seen))
	r.opts.Publish(event.Event{Payload: reloaded})
	r.apply(kicked)
	r.log.Info("config reloaded", "file", r.opts.Path, "servers", len(next.Servers),
		"added", len(reloaded.Added), "removed", len(reloaded.Removed), "changed", len(reloaded.Changed))
}

// apply applies the config without the entries that are held back. kicked is true if an operator
// requested the reload.
func (r *reloader) apply(kicked bool) {
	applied, held := r.opts.Hold.hold(r.applied, r.file, kicked)
	r.applied = applied
	r.opts.Apply(applied)
	logged := r.held
	r.held = nil
	for _, w := range held {
		if r.held = append(r.held, w.key); !slices.Contains(logged, w.key) {
			r.log.Warn("a new or changed entry in the config is not approved; "+w.meanwhile, append(w.subject, "hint", w.hint)...)
		}
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
	return config.LoadData(c.Data, r.opts.Path, r.opts.Config)
}

// reported converts problems to the type used in events.
func reported(problems config.Problems) []event.Problem {
	out := make([]event.Problem, len(problems))
	for i, p := range problems {
		out[i] = event.Problem{
			Severity: string(p.Severity), File: p.File, Line: p.Line, Column: p.Column,
			Path: p.Path, Code: string(p.Code), Message: p.Message, Hint: p.Hint,
		}
	}
	return out
}

// Same reports whether two configs have the same effect.
func Same(from, to *config.Config) bool {
	d := diff(from, to)
	return len(d.Added)+len(d.Removed)+len(d.Changed) == 0 && slices.EqualFunc(from.Webhooks, to.Webhooks, config.Webhook.Equal) &&
		slices.EqualFunc(from.Hooks, to.Hooks, config.Hook.Equal) && slices.EqualFunc(from.Clients, to.Clients, config.Client.Equal)
}

// diff returns the sorted IDs of the servers that were added, removed or changed.
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

// checkInterval is how often the files that a config refers to are checked. They are polled because
// they may be in any folder, and because few configs refer to files.
const checkInterval = time.Second

// stamp holds the metadata used to detect a change to a file; it is zero if the file does not
// exist.
type stamp struct {
	modified time.Time
	size     int64
	mode     fs.FileMode
}

// referred watches the files that the config refers to.
type referred struct {
	files   []string
	stamps  map[string]stamp // by path, as of the last check
	changed bool             // a file has changed, but check has not reported it yet
	ticker  *time.Ticker     // nil if there are no files
}

// tick returns a channel that receives when check is due, or nil if there are no files.
func (r *referred) tick() <-chan time.Time {
	if r.ticker == nil {
		return nil
	}
	return r.ticker.C
}

// follow sets the files to check. New files are treated as changed, because they may have changed
// after the config was read.
func (r *referred) follow(files []string) {
	if slices.Equal(files, r.files) {
		return
	}
	r.stop()
	r.files, r.stamps, r.changed = files, stamps(files), true
	if len(files) > 0 {
		r.ticker = time.NewTicker(checkInterval)
	}
}

// check checks the files. It reports whether any of them has changed and all have been unchanged
// for one interval since.
func (r *referred) check() bool {
	if now := stamps(r.files); !maps.Equal(now, r.stamps) {
		r.stamps, r.changed = now, true
		return false
	}
	settled := r.changed
	r.changed = false
	return settled
}

func (r *referred) stop() {
	if r.ticker != nil {
		r.ticker.Stop()
		r.ticker = nil
	}
}

func stamps(files []string) map[string]stamp {
	out := make(map[string]stamp, len(files))
	for _, file := range files {
		s := stamp{}
		if info, err := os.Stat(file); err == nil {
			s = stamp{info.ModTime(), info.Size(), info.Mode()}
		}
		out[file] = s
	}
	return out
}
