package vault

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/filewatch"
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
