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
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/natslog"
	"github.com/mcptrack/mcptrack/core/mcpevents"
	"github.com/mcptrack/mcptrack/core/standardwebhooks"
)

// HookOptions configure Hooks. Log, Reader and Sender are required.
type HookOptions struct {
	// Log stores in its records how far deliveries are. Several processes share a *natslog.Log: one
	// of those that have webhooks delivers. With any other log this process does.
	Log journal.Log
	// Reader reads Log.
	Reader *mcpevents.Reader
	Sender *Sender
	// Follow makes Run also run Reader, once there is a webhook.
	Follow bool
	// Scope decides which events are still shown.
	Scope mcpevents.Scope
	// Logger gets records that an operator should see; nil discards them. They contain hosts,
	// but no URLs or secrets.
	Logger *slog.Logger
}

// Hooks delivers to the webhooks of a config. They need no challenge, end when they leave the
// config, and attempts continue for as long as they are in it.
type Hooks struct {
	opts   HookOptions
	page   *page
	turns  *turns
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

// NewHooks returns webhooks to which nothing is sent before Run.
func NewHooks(opts HookOptions) *Hooks {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Hooks{opts: opts, page: newPage(opts.Log.Records(recordsName), pageOfConfig), turns: newTurns(opts.Log, FromConfig, opts.Logger),
		wanted: make(chan []config.Webhook, 1), dirty: make(chan struct{}, 1)}
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

// Run delivers until ctx ends, and returns when nothing is in progress and the watermarks are
// stored. What cannot be stored or read is logged, and tried again. It may be called once.
func (h *Hooks) Run(ctx context.Context) error {
	var reading sync.WaitGroup
	defer reading.Wait()
	read := sync.OnceFunc(func() {
		if h.opts.Follow {
			reading.Go(func() { _ = h.opts.Reader.Run(ctx) }) // until ctx ends
		}
	})
	for {
		select {
		case h.latest = <-h.wanted:
		case <-ctx.Done():
			return nil
		}
		// Without webhooks the watermarks are forgotten, unless another process may have some.
		for turn := len(h.latest) > 0 || !h.turns.shared(); turn && ctx.Err() == nil; turn = len(h.latest) > 0 {
			h.turns.once(ctx, func(ctx context.Context, lease *natslog.Lease) error { return h.run(ctx, lease, read) })
		}
	}
}

// run delivers until ctx ends, there is nothing to deliver, or another process has taken over. read
// is called once there is a webhook.
func (h *Hooks) run(ctx context.Context, lease *natslog.Lease, read func()) error {
	if len(h.latest) == 0 {
		if kept, _, err := h.page.read(ctx); err != nil || len(kept.Webhooks) == 0 {
			return err // there is nothing to forget
		}
	}
	kept, _, err := h.page.load(ctx)
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.marks = kept.Webhooks
	h.mu.Unlock()
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	apply := func() error {
		if len(h.latest) > 0 {
			read()
		}
		h.reconcile(work, lease, h.latest, &running)
		return h.save(ctx)
	}
	select {
	case h.latest = <-h.wanted: // it changed during the wait for the lease
	default:
	}
	if len(h.latest) > 0 || !h.turns.shared() {
		err = apply()
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for ctx.Err() == nil && len(h.latest) > 0 && !errors.Is(err, errTaken) {
		select {
		case h.latest = <-h.wanted:
			err = apply()
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
	_ = h.save(ctx) // it was logged, and who delivers next resumes from what was stored
	h.mu.Lock()
	defer h.mu.Unlock()
	h.active, h.marks = nil, nil
	return nil
}

// reconcile starts, restarts and ends webhooks.
func (h *Hooks) reconcile(ctx context.Context, lease *natslog.Lease, all []config.Webhook, running *sync.WaitGroup) {
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
		if s, err := standardwebhooks.ParseSecret(w.Secret.Reveal()); err == nil {
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
	err := h.page.save(context.WithoutCancel(ctx), func() stored {
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
	if err != nil && !h.failed && !expected(err) {
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
