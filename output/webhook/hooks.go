package webhook

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/events"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/webhooks"
)

// HookOptions configure Hooks. Reader and Sender are required.
type HookOptions struct {
	Reader *events.Reader
	Sender *Sender
	// Follow makes Run also run Reader, once there is a webhook.
	Follow bool
	// Scope decides which events are still shown.
	Scope events.Scope
	// File stores the watermarks; "": they are lost when the process ends.
	File string
	// Cluster is the log on a cluster: it stores the watermarks, in place of File, and one of
	// the processes that share it delivers. nil: this process delivers.
	Cluster *journal.Journal
	// Logger gets records that an operator should see; nil discards them. They contain hosts,
	// but no URLs or secrets.
	Logger *slog.Logger
}

// Hooks delivers to the webhooks of a config. They need no challenge, end when they leave the
// config, and attempts continue for as long as they are in it.
type Hooks struct {
	opts   HookOptions
	doc    document
	turns  *turns // nil: this process always delivers
	counts counts
	// latest are the webhooks to send to; used by Run.
	latest []config.Webhook
	// wanted passes the latest webhooks from Apply to Run. Capacity 1: Apply replaces a value
	// that Run has not received; never closed.
	wanted chan []config.Webhook
	// dirty wakes the goroutine that stores watermarks. Capacity 1; never closed.
	dirty chan struct{}

	mu     sync.Mutex // guards all below, and the targets
	marks  []mark     // of webhooks that are not running
	active []*target  // in the order of the config
	idle   int        // webhooks of the config that cannot be used, see config.Webhook.Missing
	failed bool       // the watermarks could not be stored, and it was logged
}

// NewHooks reads the stored watermarks, unless Cluster is set: then Run does.
func NewHooks(opts HookOptions) (*Hooks, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	const what = "delivery positions of webhooks"
	h := &Hooks{opts: opts, doc: &file{path: opts.File, what: what}, wanted: make(chan []config.Webhook, 1), dirty: make(chan struct{}, 1)}
	if opts.Cluster != nil {
		h.doc = &page{records: journal.NewRecords(opts.Cluster, recordsName), key: pageOfConfig, what: what}
		h.turns = newTurns(opts.Cluster, FromConfig, opts.Logger)
		return h, nil
	}
	kept, err := h.doc.load(context.Background())
	h.marks = kept.Webhooks
	return h, err
}

// Apply sets the webhooks. It never blocks; the latest wins. A webhook with the URL of an
// earlier one continues at its position, even if its secret or filters changed; a new one gets
// the events from now on.
func (h *Hooks) Apply(all []config.Webhook) {
	for {
		select {
		case h.wanted <- slices.Clone(all):
			return
		default:
		}
		select {
		case <-h.wanted:
		default:
		}
	}
}

// Run delivers until ctx ends, and returns when nothing is in progress and the watermarks
// are stored. It may be called once.
func (h *Hooks) Run(ctx context.Context) error {
	var reading sync.WaitGroup
	defer reading.Wait()
	read := sync.OnceFunc(func() {
		if h.opts.Follow {
			reading.Go(func() { _ = h.opts.Reader.Run(ctx) }) // until ctx ends
		}
	})
	if h.turns == nil {
		return h.run(ctx, nil, read)
	}
	for ctx.Err() == nil {
		if len(h.latest) > 0 {
			h.turns.once(ctx, func(ctx context.Context, lease *journal.Lease) error {
				kept, err := h.doc.load(ctx)
				if err != nil {
					return err
				}
				h.mu.Lock()
				h.marks = kept.Webhooks
				h.mu.Unlock()
				return h.run(ctx, lease, read)
			})
			continue
		}
		select { // wait: another process may have webhooks
		case h.latest = <-h.wanted:
		case <-ctx.Done():
		}
	}
	return nil
}

// run delivers until ctx ends or, under a lease, there is nothing to deliver or another
// process has taken over. read is called once there is a webhook.
func (h *Hooks) run(ctx context.Context, lease *journal.Lease, read func()) (err error) {
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	apply := func() {
		if len(h.latest) > 0 {
			read()
		}
		h.reconcile(work, lease, h.latest, &running)
		err = h.save(ctx)
	}
	if lease != nil {
		select {
		case h.latest = <-h.wanted: // it changed during the wait for the lease
		default:
		}
		if len(h.latest) > 0 {
			apply()
		}
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for ctx.Err() == nil && (lease == nil || len(h.latest) > 0 && !errors.Is(err, errTaken)) {
		select {
		case h.latest = <-h.wanted:
			apply()
		case <-tick.C:
			select {
			case <-h.dirty:
				err = h.save(ctx)
			default:
			}
		case <-ctx.Done():
		}
	}
	cancel()
	running.Wait()
	err = h.save(ctx)
	if lease != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.active, h.marks = nil, nil
		if err != nil {
			return nil // the error was logged, and the next holder continues from the stored watermarks
		}
	}
	return err
}

// reconcile starts, restarts and ends webhooks.
func (h *Hooks) reconcile(ctx context.Context, lease *journal.Lease, all []config.Webhook, running *sync.WaitGroup) {
	h.mu.Lock()
	before := h.active
	h.mu.Unlock()
	var keep []*target
	var start []config.Webhook
	idle := 0
	for _, w := range all {
		if len(w.Missing) > 0 {
			h.opts.Logger.Warn("a webhook of the config is ignored: it is not fully configured", "missing", w.Missing)
			idle++
			continue
		}
		i := slices.IndexFunc(before, func(k *target) bool { return k.conf.Equal(w) && !slices.Contains(keep, k) })
		if i >= 0 {
			keep = append(keep, before[i])
		} else {
			start = append(start, w)
		}
	}
	var ended []*target
	for _, k := range before {
		if !slices.Contains(keep, k) {
			k.stop()
			<-k.ended
			ended = append(ended, k)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range ended {
		h.marks = append(h.marks, k.mark)
	}
	// First find the marks with equal filters, so that no other webhook gets them.
	found := map[int]mark{}
	for _, exact := range []bool{true, false} {
		for n, w := range start {
			if _, ok := found[n]; ok {
				continue
			}
			if m, ok := h.takeLocked(newMark(w), exact); ok {
				found[n] = m
			}
		}
	}
	for n, w := range start {
		k := &target{mark: found[n], conf: w, ended: make(chan struct{})}
		id := newMark(w)
		k.Key, k.mark.URL = id.Key, id.URL
		if s, err := webhooks.ParseSecret(w.Secret.Reveal()); err == nil {
			k.secret = &s
		}
		for _, was := range ended {
			if was.secret != nil && was.mark.URL == k.mark.URL && was.conf.Secret != w.Secret {
				k.old, k.oldUntil = was.secret, time.Now().Add(oldSecretFor)
			}
		}
		var work context.Context
		work, k.stop = context.WithCancel(ctx)
		keep = append(keep, k)
		running.Go(func() {
			defer close(k.ended)
			h.serve(work, lease, k)
		})
	}
	h.active, h.idle = keep, idle
	if idle == 0 {
		h.marks = nil // of webhooks that were removed
	}
}

// save stores all watermarks, even if ctx has ended.
func (h *Hooks) save(ctx context.Context) error {
	err := h.doc.save(context.WithoutCancel(ctx), func() stored {
		h.mu.Lock()
		defer h.mu.Unlock()
		all := slices.Clone(h.marks)
		for _, k := range h.active {
			m := k.mark
			m.Sent, m.Held = maps.Clone(m.Sent), slices.Clone(m.Held)
			all = append(all, m)
		}
		slices.SortStableFunc(all, func(a, b mark) int { return cmp.Compare(a.Key, b.Key) })
		return stored{Webhooks: all}
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil && !h.failed && !errors.Is(err, errTaken) {
		h.opts.Logger.Error("cannot store which events webhooks have received; a restart may deliver some again", "err", err)
	}
	if h.failed = err != nil; h.failed {
		h.changed() // try again later
	}
	return err
}

func (h *Hooks) changed() {
	select {
	case h.dirty <- struct{}{}:
	default:
	}
}
