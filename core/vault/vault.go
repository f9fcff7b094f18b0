package vault

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/filewatch"
	"github.com/mcptrack/mcptrack/core/glob"
	"github.com/mcptrack/mcptrack/core/printable"
)

// A Vault is the index of a folder of notes. Run keeps it in sync with the disk. Make
// it with [Open]. All methods are safe for concurrent use, whether Run runs or not.
type Vault struct {
	opts Options
	disk *disk
	scan *scanner
	tree *filewatch.Tree
	text noteTexts

	now   atomic.Pointer[snapshot] // the current index
	ready chan struct{}            // closed by Run after the first scan

	extras extras

	logged map[string]bool // messages already logged; used by Run only
}

// Listener receives changes. Run calls its functions one at a time; they must not
// block.
type Listener struct {
	// Subscribed reports whether a URI has a subscriber. Unlike the others it is also
	// called by Subscribable, from any goroutine.
	Subscribed func(uri string) bool
	// Updated is called after the content of the resources with the URIs changed.
	Updated func(uris ...string)
	// Listed is called with all notes, as items of resources/list, after a note was
	// added, removed or retitled. The receiver owns the slice and must not modify the
	// items.
	Listed func(notes []json.RawMessage)
}

// Open opens the folder without reading it; Run does. Errors of options are of type
// *[OptionError].
func Open(opts Options) (*Vault, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	d, err := openDisk(opts.Dir, opts.MaxNoteBytes)
	if err != nil {
		return nil, err
	}
	v := &Vault{
		opts: opts, disk: d, tree: filewatch.NewTree(opts.Dir, opts.tree()),
		ready: make(chan struct{}), logged: make(map[string]bool),
	}
	v.scan = &scanner{disk: d, rules: rules{globs: opts.Ignore}, md: newMarkdown(), most: opts.MaxEntries}
	v.now.Store(newSnapshot())
	v.text.start(d, v.scan.md, opts.MaxEntries)
	return v, nil
}

// Close releases the folder. It is called once, after Run.
func (v *Vault) Close() error {
	v.text.close()
	return v.disk.close()
}

// Ready returns a channel that is closed after the first complete scan of the folder.
func (v *Vault) Ready() <-chan struct{} { return v.ready }

// Mode returns how changes of the folder are found at present.
func (v *Vault) Mode() filewatch.Mode { return v.tree.Mode() }

// Run keeps the index in sync with the disk until ctx ends and returns the cause of
// ctx. Nothing that happens to the folder makes it return earlier. It is called once.
func (v *Vault) Run(ctx context.Context, l Listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	v.extras.listen(l.Subscribed)
	var wg sync.WaitGroup
	wg.Go(func() { cancel(v.tree.Run(ctx)) })
	defer wg.Wait()

	u := updater{Vault: v, Listener: l, pace: pacer{spacing: v.opts.Spacing}, retries: make(map[string]int)}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(u.wait(time.Now()))
		select {
		case b, ok := <-v.tree.Batches():
			if !ok {
				wg.Wait()
				return context.Cause(ctx)
			}
			for _, p := range b.Paths {
				delete(u.retries, p)
			}
			u.refresh(ctx, b.Paths, b.All)
		case <-timer.C:
			u.tick(ctx, time.Now())
		}
	}
}

// items returns the notes as items of resources/list, in path order.
func (v *Vault) items() []json.RawMessage {
	s := v.now.Load()
	items := make([]json.RawMessage, 0, len(s.recent))
	for _, e := range s.entries {
		if e.note != nil {
			items = append(items, e.note.item)
		}
	}
	return items
}

// Options configure a vault. Only Dir is required; zero fields mean the documented
// default.
type Options struct {
	// Dir is the folder of notes. Its path may contain symbolic links; links below it are
	// not followed.
	Dir string
	// Ignore lists globs of paths to exclude, relative to Dir and with slashes: *
	// matches within a segment, ** across segments, {a,b} either. A glob without a
	// slash also matches entries of that name in any folder.
	Ignore []string
	// MaxNoteBytes is the size of the largest note that is read; 4 MiB by default.
	MaxNoteBytes int64
	// MaxEntries limits the number of files and folders; 200,000 by default. Entries
	// beyond it, in path order, are skipped.
	MaxEntries int
	// Quiet is how long a file must be unchanged before it is read; 200 ms by default.
	Quiet time.Duration
	// Spacing is the least time between two updates of one resource that are published;
	// 250 ms by default.
	Spacing time.Duration
	// ListSpacing is the least time between two calls of Listener.Listed; 500 ms by
	// default.
	ListSpacing time.Duration
	// Logger gets warnings about skipped entries and about missing file events; nil
	// discards them.
	Logger *slog.Logger
}

// OptionError is an invalid option: a usage error.
type OptionError struct {
	Option string // "dir" or "ignore"
	Reason string // one line
}

func (e *OptionError) Error() string { return e.Option + ": " + e.Reason }

func (o Options) withDefaults() (Options, error) {
	if o.Dir == "" {
		return o, &OptionError{"dir", "no folder given"}
	}
	for _, g := range o.Ignore {
		if !glob.Valid(g) {
			return o, &OptionError{"ignore", fmt.Sprintf("invalid glob %q", printable.Line(g, 200))}
		}
	}
	if o.MaxNoteBytes <= 0 {
		o.MaxNoteBytes = 4 << 20
	}
	if o.MaxEntries <= 0 {
		o.MaxEntries = 200_000
	}
	if o.Quiet <= 0 {
		o.Quiet = 200 * time.Millisecond
	}
	if o.Spacing <= 0 {
		o.Spacing = 250 * time.Millisecond
	}
	if o.ListSpacing <= 0 {
		o.ListSpacing = 500 * time.Millisecond
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// tree returns the options of the vault's file watcher.
func (o Options) tree() filewatch.TreeOptions {
	r := rules{globs: o.Ignore}
	return filewatch.TreeOptions{
		Quiet: o.Quiet, Ignore: r.ignored, MaxDirs: o.MaxEntries, Logger: o.Logger,
	}
}

const (
	// retryDelay is the time until a path in a transient state (see scanner.scan) is
	// read again without an event.
	retryDelay = time.Second
	maxRetries = 3 // of a path, until its next event
)

// updater is the state of one Run, used by its goroutine only.
type updater struct {
	*Vault
	Listener
	pace pacer

	retry   []string       // paths to read again at retryAt
	retryAt time.Time      // zero: there are none
	retries map[string]int // how often a path was read again since its last event

	listDirty bool      // the list of notes differs from the published one
	listSent  time.Time // when the list was last published; zero: never
}

// wait returns the time until tick has something to do, at most an hour.
func (u *updater) wait(now time.Time) time.Duration {
	next := now.Add(time.Hour)
	if at, ok := u.pace.next(); ok && at.Before(next) {
		next = at
	}
	if !u.retryAt.IsZero() && u.retryAt.Before(next) {
		next = u.retryAt
	}
	if u.listDirty && u.listSent.Add(u.opts.ListSpacing).Before(next) {
		next = u.listSent.Add(u.opts.ListSpacing)
	}
	return next.Sub(now)
}

// tick does what is due at now: it reads paths again whose state was transient, or
// publishes updates that were delayed.
func (u *updater) tick(ctx context.Context, now time.Time) {
	if !u.retryAt.IsZero() && !now.Before(u.retryAt) {
		paths := u.retry
		u.retry, u.retryAt = nil, time.Time{}
		u.refresh(ctx, paths, false)
		return // refresh has published
	}
	u.publish(now)
}

// refresh updates the index from the disk, at and below paths, or wholly if all is set, and
// publishes the changes.
func (u *updater) refresh(ctx context.Context, paths []string, all bool) {
	if all {
		paths = []string{""}
	}
	if err := u.disk.reopen(); err != nil {
		u.log("read the vault", err)
		return // keep the last state: the folder may be unmounted for a moment
	}
	old := u.now.Load()
	scans, again, err := u.scan.scan(ctx, paths, old)
	if err != nil {
		if ctx.Err() == nil {
			u.log("read the vault", err)
		}
		return
	}
	now := time.Now()
	u.retryLater(now, again)
	next, changes := old.with(scans)
	u.now.Store(next) // before publishing: a read after a notification must see it
	u.logSkipped(changes)
	for uri := range u.affected(old, next, changes) {
		u.pace.add(uri)
	}
	for _, c := range changes {
		was, is := noteOf(c.old), noteOf(c.now)
		u.listDirty = u.listDirty || (was == nil) != (is == nil) || was != nil && string(was.item) != string(is.item)
	}
	select {
	case <-u.ready:
	default:
		u.listDirty = true
		u.listSent = time.Time{}
		u.publish(time.Now())
		close(u.ready)
	}
	u.publish(time.Now()) // the older now would space two updates closer than Spacing
	if len(changes) > manyNotes {
		debug.FreeOSMemory()
	}
}

// retryLater schedules paths in a transient state. After maxRetries the state is
// taken to be permanent.
func (u *updater) retryLater(now time.Time, paths []string) {
	for _, p := range paths {
		if u.retries[p]++; u.retries[p] > maxRetries {
			continue
		}
		u.retry = append(u.retry, p)
		if u.retryAt.IsZero() {
			u.retryAt = now.Add(retryDelay)
		}
	}
}

// publish sends what is due: the list first, so that a note is listed before its
// first update.
func (u *updater) publish(now time.Time) {
	if u.listDirty && !now.Before(u.listSent.Add(u.opts.ListSpacing)) {
		u.listDirty, u.listSent = false, now
		u.Listed(u.items())
	}
	if due := u.pace.take(now); len(due) > 0 {
		u.Updated(due...)
	}
}

// log logs a failure once per message.
func (u *updater) log(doing string, err error) {
	if text := doing + ": " + printable.Reason(printable.Unnamed(err), 300); !u.logged[text] {
		u.logged[text] = true
		u.opts.Logger.Warn(text, slog.String("path", printable.Line(u.opts.Dir, 300)))
	}
}

// logSkipped logs each reason for skipping an entry once, with an example.
func (u *updater) logSkipped(changes []change) {
	for _, c := range changes {
		if c.now == nil || c.now.left == nil || u.logged[c.now.left.Error()] {
			continue
		}
		why := c.now.left.Error()
		u.logged[why] = true
		u.opts.Logger.Warn("a file or folder is not part of the vault: "+why, slog.String("path", printable.Line(c.path, 300)))
	}
}

// pacer delays updates so that two updates of one resource are at least spacing apart.
// Updates of a resource that wait are coalesced.
type pacer struct {
	spacing time.Duration

	waiting map[string]struct{}  // URIs whose update is not sent yet
	sent    map[string]time.Time // when an update was sent, by URI, if that is less than spacing ago
}

func (p *pacer) add(uri string) {
	if p.waiting == nil {
		p.waiting = make(map[string]struct{})
	}
	p.waiting[uri] = struct{}{}
}

// next returns when the next update is due; ok is false if none waits.
func (p *pacer) next() (at time.Time, ok bool) {
	for uri := range p.waiting {
		if due := p.due(uri); !ok || due.Before(at) {
			at, ok = due, true
		}
	}
	return at, ok
}

func (p *pacer) due(uri string) time.Time {
	sent, ok := p.sent[uri]
	if !ok {
		return time.Time{}
	}
	return sent.Add(p.spacing)
}

// take returns the URIs whose update is due, sorted, and records them as sent.
func (p *pacer) take(now time.Time) (due []string) {
	for uri, at := range p.sent {
		if now.Sub(at) >= p.spacing {
			delete(p.sent, uri)
		}
	}
	for uri := range p.waiting {
		if _, early := p.sent[uri]; early {
			continue
		}
		due = append(due, uri)
		delete(p.waiting, uri)
		if p.sent == nil {
			p.sent = make(map[string]time.Time)
		}
		p.sent[uri] = now
	}
	slices.Sort(due)
	return due
}
