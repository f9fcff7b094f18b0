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

// A Vault is the index of a folder of notes. Run keeps it in sync with the disk. Create it with
// [Open]. All methods are safe for concurrent use, whether or not Run is running.
type Vault struct {
	opts Options
	disk *disk
	scan *scanner
	tree *filewatch.Tree
	text *noteTexts

	now   atomic.Pointer[snapshot] // the current snapshot of the index
	ready chan struct{}            // closed by Run after the first complete scan
	ended chan struct{}            // closed by Run when it returns
	name  string                   // of the folder; see skillSet
	// rescans carries requests of readers. Unbuffered, because a reader waits for Run; never closed.
	rescans chan rescanned

	logged map[string]bool // messages that were already logged; used only by Run
}

// Listener receives changes to the vault. Run calls its functions one at a time; they must not
// block.
type Listener struct {
	// Subscribed returns the URIs that have a subscriber.
	Subscribed func() []string
	// Updated is called after the content of the resources with these URIs has changed.
	Updated func(uris ...string)
	// Listed is called with all notes and the SKILL.md of all skills, as items of resources/list, and
	// with all skills, as items of skills/list, after a note was added, removed or given a new title,
	// or a skill has changed. The receiver owns the slices and must not modify the items.
	Listed func(resources, skills []json.RawMessage)
}

// Open opens the folder without reading it; Run reads it. Errors caused by invalid options are of
// type *[OptionError].
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
		ready: make(chan struct{}), ended: make(chan struct{}), rescans: make(chan rescanned),
		name: folderName(opts.Dir), logged: make(map[string]bool),
	}
	v.scan = &scanner{disk: d, rules: rules{globs: opts.Ignore}, md: newMarkdown(), most: opts.MaxEntries}
	v.now.Store(newSnapshot())
	v.text = newNoteTexts(d, v.scan.md)
	return v, nil
}

// Close closes the folder. Call it only once, after Run has returned.
func (v *Vault) Close() error { return v.disk.close() }

// Ready returns a channel that is closed after the first complete scan of the folder.
func (v *Vault) Ready() <-chan struct{} { return v.ready }

// Run keeps the index in sync with the disk until ctx ends, and then returns the cause of ctx. No
// error with the folder makes it return earlier. Call it only once.
func (v *Vault) Run(ctx context.Context, l Listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	wg.Go(func() { cancel(v.tree.Run(ctx)) })
	defer wg.Wait()

	defer close(v.ended)
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
		case r := <-v.rescans:
			u.refresh(ctx, []string{r.path}, false)
			close(r.done)
		case <-timer.C:
			u.tick(ctx, time.Now())
		}
	}
}

// Notes returns the number of notes.
func (v *Vault) Notes() int { return len(v.now.Load().recent) }

// items returns the SKILL.md of all skills, and the notes in path order, as items of resources/list.
func (v *Vault) items() []json.RawMessage {
	s := v.now.Load()
	items := make([]json.RawMessage, 0, len(s.skills.list)+len(s.recent))
	for _, k := range s.skills.list {
		items = append(items, k.main)
	}
	for _, e := range s.entries {
		if e.note != nil {
			items = append(items, e.note.item)
		}
	}
	return items
}

// Options configures a Vault. Only Dir is required; other zero fields take their documented
// defaults.
type Options struct {
	// Dir is the folder of notes. Its path may contain symbolic links; links inside the folder are
	// not followed.
	Dir string
	// Ignore is a list of globs for paths to exclude, relative to Dir and with slashes: * matches
	// within a segment, ** matches across segments, {a,b} matches a or b. A glob without a slash
	// also matches entries of that name in any subfolder.
	Ignore []string
	// MaxNoteBytes is the maximum size of a note; default 4 MiB. Larger notes are skipped.
	MaxNoteBytes int64
	// MaxEntries is the maximum number of files and folders; default 200,000. Further entries, in
	// path order, are skipped.
	MaxEntries int
	// Quiet is how long nothing may change before what has changed is read; default 200 ms.
	Quiet time.Duration
	// Spacing is the minimum interval between two published updates of the same resource; default
	// 250 ms.
	Spacing time.Duration
	// ListSpacing is the minimum interval between two calls to Listener.Listed; default 500 ms.
	ListSpacing time.Duration
	// Logger receives warnings about skipped entries and unreliable file events; nil discards them.
	Logger *slog.Logger
}

// OptionError reports an invalid option, which is a usage error.
type OptionError struct {
	Option string // "dir" or "ignore"
	Reason string // one line of text
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

// tree returns the options for the file watcher of the vault.
func (o Options) tree() filewatch.TreeOptions {
	r := rules{globs: o.Ignore}
	return filewatch.TreeOptions{
		Quiet: o.Quiet, Ignore: r.ignored, MaxDirs: o.MaxEntries, Logger: o.Logger,
	}
}

const (
	// retryDelay is how long to wait before a path in a transient state (see scanner.scan) is read
	// again without an event.
	retryDelay = time.Second
	maxRetries = 3 // maximum number of retries for a path until its next event
)

// updater holds the state of one call to Run. Only the goroutine of Run uses it.
type updater struct {
	*Vault
	Listener
	pace pacer

	retry   []string       // paths to read again at retryAt
	retryAt time.Time      // zero if retry is empty
	retries map[string]int // number of retries of a path since its last event

	digests    map[string]fileDigest // of the files of skills that are not notes, by path
	skillNotes map[string]string     // what the last scan found wrong with folders with a SKILL.md

	listDirty bool      // the list of notes or skills differs from the published list
	listSent  time.Time // when the list was last published; zero if never
}

// wait returns the time until tick must be called next, at most an hour.
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

// tick performs the work that is due at now: it rereads paths that were in a transient state, or
// publishes updates that were delayed.
func (u *updater) tick(ctx context.Context, now time.Time) {
	if !u.retryAt.IsZero() && !now.Before(u.retryAt) {
		paths := u.retry
		u.retry, u.retryAt = nil, time.Time{}
		u.refresh(ctx, paths, false)
		return // refresh has already published
	}
	u.publish(now)
}

// refresh updates the index from disk, either at and under paths or, if all is set, completely, and
// publishes the changes.
func (u *updater) refresh(ctx context.Context, paths []string, all bool) {
	if all {
		paths = []string{""}
	}
	if err := u.disk.reopen(); err != nil {
		u.log("read the vault", err)
		return // keep the last state, because the folder may be unmounted briefly
	}
	old := u.now.Load()
	scans, again, err := u.scan.scan(ctx, paths, old)
	if err != nil {
		if ctx.Err() == nil {
			u.log("read the vault", err)
		}
		return
	}
	next, changes := old.with(scans)
	if next != old {
		skills, more, err := u.findSkills(ctx, next, old.skills)
		if err != nil {
			return // ctx is done
		}
		next.skills, again = skills, append(again, more...)
		if skills != old.skills { // a host that has read a new file must not be given an older list
			u.listDirty, u.listSent = true, time.Time{}
		}
	}
	u.retryLater(time.Now(), again)
	u.now.Store(next) // must precede publishing: a read after a notification must return it
	u.logSkipped(changes)
	for _, uri := range u.affected(old, next, changes) {
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
	u.publish(time.Now()) // an outdated now could allow two updates closer than Spacing
	if len(changes) > manyNotes {
		debug.FreeOSMemory()
	}
}

// retryLater schedules another read of paths in a transient state. After maxRetries, the state is
// considered permanent.
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

// publish sends everything that is due. It sends the list first, so that a note is listed before
// its first update.
func (u *updater) publish(now time.Time) {
	if u.listDirty && !now.Before(u.listSent.Add(u.opts.ListSpacing)) {
		u.listDirty, u.listSent = false, now
		u.Listed(u.items(), u.skillItems())
	}
	if due := u.pace.take(now); len(due) > 0 {
		u.Updated(due...)
	}
}

// log logs an error unless the same message was logged before.
func (u *updater) log(doing string, err error) {
	if text := doing + ": " + printable.Reason(printable.Unnamed(err), 300); !u.logged[text] {
		u.logged[text] = true
		u.opts.Logger.Warn(text, slog.String("path", printable.Line(u.opts.Dir, 300)))
	}
}

// logSkipped logs each reason for skipping entries once, with one example.
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

// pacer delays updates so that two updates of the same resource are at least spacing apart. Delayed
// updates of a resource are merged into one.
type pacer struct {
	spacing time.Duration

	waiting map[string]struct{}  // URIs whose updates have not been sent yet
	sent    map[string]time.Time // when the last update was sent, by URI; omitted once spacing has passed
}

func (p *pacer) add(uri string) {
	if p.waiting == nil {
		p.waiting = make(map[string]struct{})
	}
	p.waiting[uri] = struct{}{}
}

// next returns when the next update is due. ok is false if no update is pending.
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

// take returns the sorted URIs whose updates are due, and records them as sent.
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
