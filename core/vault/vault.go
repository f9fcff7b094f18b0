package vault

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/filewatch"
)

// A Vault is the index of a folder of notes, kept in line with the disk by Run.
// Make it with [Open]. All methods may be called from any goroutine, while Run runs
// and when it does not.
type Vault struct {
	opts Options
	disk *disk
	scan *scanner
	tree *filewatch.Tree
	text noteTexts

	now   atomic.Pointer[snapshot]
	ready chan struct{} // closed by Run when the first look is over

	extras extras

	told map[string]bool // what was left out and logged; of Run alone
}

// Listener is told what changes. Its functions are called by Run, one at a time,
// and must not wait.
type Listener struct {
	// Subscribed says whether anybody wants to hear of a URI. Unlike the others it is
	// also called by Subscribable, from any goroutine.
	Subscribed func(uri string) bool
	// Updated tells that resources changed. What they are now can be read before.
	Updated func(uris ...string)
	// Listed tells all notes, as items of resources/list, when one came, went or has
	// another title. The receiver owns the slice and must not write to the items.
	Listed func(notes []json.RawMessage)
}

// Open opens the folder. It reads nothing yet: Run does. Errors of options are of
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
		ready: make(chan struct{}), told: make(map[string]bool),
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

// Ready is closed when the whole folder was looked at for the first time.
func (v *Vault) Ready() <-chan struct{} { return v.ready }

// Mode says how changes are found.
func (v *Vault) Mode() filewatch.Mode { return v.tree.Mode() }

// Run keeps the index in line with the disk until ctx ends, and returns its cause.
// Nothing that happens to the folder makes it return earlier. It is called once.
func (v *Vault) Run(ctx context.Context, l Listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	v.extras.listen(l.Subscribed)
	var wg sync.WaitGroup
	wg.Go(func() { cancel(v.tree.Run(ctx)) })
	defer wg.Wait()

	k := keeper{Vault: v, Listener: l, pace: pacer{spacing: v.opts.Spacing}, tries: make(map[string]int)}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(k.wait(time.Now()))
		select {
		case b, ok := <-v.tree.Batches():
			if !ok {
				wg.Wait()
				return context.Cause(ctx)
			}
			for _, p := range b.Paths {
				delete(k.tries, p)
			}
			k.look(ctx, b.Paths, b.All)
		case <-timer.C:
			k.tick(ctx, time.Now())
		}
	}
}

// items are the notes as resources/list has them, in the order of their paths.
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
