package webhook

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/glob"
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

// target is one webhook. Its fields are guarded by Hooks.mu.
type target struct {
	mark
	conf     config.Webhook
	secret   *standardwebhooks.Secret // nil: messages are not signed
	old      *standardwebhooks.Secret // signs, too, until oldUntil
	oldUntil time.Time
	counts   counts
	caller   caller
	status   status
	oldest   time.Time
	warned   bool // since the last success
	stop     context.CancelFunc
	ended    chan struct{} // closed when its goroutine has ended
}

// serve delivers to one webhook until ctx ends.
func (h *Hooks) serve(ctx context.Context, lease *natslog.Lease, k *target) {
	retry := backoff.New(100*time.Millisecond, 5*time.Second)
	for ctx.Err() == nil {
		if err := h.deliver(ctx, lease, k); err != nil && ctx.Err() == nil {
			backoff.Sleep(ctx, retry.Next())
		}
	}
}

// deliver runs a worker from the watermark on, or from now on if there is none.
func (h *Hooks) deliver(ctx context.Context, lease *natslog.Lease, k *target) error {
	h.mu.Lock()
	m := k.mark
	h.mu.Unlock()
	var cursor *string
	if m.Cursor != "" {
		cursor = &m.Cursor
	}
	at, truncated, err := h.opts.Reader.Start(ctx, cursor, 0, 0)
	if err != nil {
		return err
	}
	states, lost, err := h.settler(ctx, k.conf.Settle, m)
	if err != nil {
		return err
	}
	h.mu.Lock()
	k.GapDue = k.GapDue || truncated || lost
	k.Cursor = at.Cursor()
	gap := k.GapDue
	h.mu.Unlock()
	if m.Cursor == "" { // from now on nothing is lost
		if err := h.save(ctx); err != nil {
			return err
		}
	}
	h.changed()
	w := &worker{sender: h.opts.Sender, reader: h.opts.Reader, endpoint: h.endpoint(k, states)}
	w.allowed = stillHeld(lease)
	return w.run(ctx, at, gap)
}

// settler returns a settler with the states that were held back. lost means that some are no
// longer stored.
func (h *Hooks) settler(ctx context.Context, after time.Duration, m mark) (s *settler, lost bool, err error) {
	s = newSettler(after)
	maps.Copy(s.sent, m.Sent)
	for _, id := range m.Held {
		epoch, seq, err := event.ParseID(id)
		if err != nil || seq == 0 {
			continue
		}
		b, err := h.find(ctx, mcpevents.Position{Epoch: epoch, Seq: seq - 1})
		if err != nil {
			return nil, false, err
		}
		lost = lost || b.Truncated
		for _, o := range b.Occurrences {
			if !s.hold(o) {
				lost = true // it is to be sent at once now, and is behind the watermark
			}
		}
	}
	return s, lost, nil
}

// findWait is how long a newly started reader may take to open its log.
const findWait = 10 * time.Second

// find returns the event directly after a position; Truncated if it is no longer in the log, or
// the log is not open within findWait.
func (h *Hooks) find(ctx context.Context, at mcpevents.Position) (mcpevents.Batch, error) {
	over := time.NewTimer(findWait)
	defer over.Stop()
	for {
		b, moved, err := h.opts.Reader.Look(ctx, at, func(*mcpevents.Occurrence) bool { return true }, 1)
		if err != nil || b.At != at || b.Truncated {
			return b, err
		}
		select {
		case <-moved:
		case <-over.C:
			return mcpevents.Batch{At: at, Truncated: true}, nil
		case <-ctx.Done():
			return b, context.Cause(ctx)
		}
	}
}

func (h *Hooks) endpoint(k *target, states *settler) endpoint {
	conf, form := k.conf, formatOf(k.conf.Format)
	locked := func(f func()) {
		h.mu.Lock()
		defer h.mu.Unlock()
		f()
	}
	message := func(id string, body []byte) *Message {
		return &Message{URL: conf.URL.Reveal(), ID: id, Body: body, Header: form.header(), Private: conf.AllowPrivate}
	}
	e := endpoint{
		caller: &k.caller,
		match:  func(o *mcpevents.Occurrence) bool { return selects(conf, o) },
		shows:  h.opts.Scope.Shows,
		message: func(o *mcpevents.Occurrence, cursor string) *Message {
			body, err := form.event(o, cursor)
			if err != nil { // this format cannot represent its URI or name
				h.opts.Logger.Warn("an event cannot be encoded for a webhook", "id", o.ID, "format", string(conf.Format), "err", err)
				return nil
			}
			return message(o.ID, body)
		},
		gap: func(cursor string) *Message {
			h.counts.gaps.Add(1)
			k.counts.gaps.Add(1)
			id := "msg_gap_" + rand.Text()
			body, err := form.gap(id, cursor)
			if err != nil {
				return nil
			}
			return message(id, body)
		},
		missed: func() {
			locked(func() { k.GapDue = true })
			h.changed()
		},
		gapTried: func(taken bool) (again bool) {
			if taken {
				locked(func() { k.GapDue = false })
				h.changed()
			}
			return !taken
		},
		secrets: func() (out []standardwebhooks.Secret) {
			locked(func() {
				if k.secret != nil {
					out = append(out, *k.secret)
				}
				if k.old != nil && time.Now().Before(k.oldUntil) {
					out = append(out, *k.old)
				}
			})
			return out
		},
		noted: func(r Result) { h.note(k, r) },
		gaveUp: func() {
			h.counts.gaveUp.Add(1)
			k.counts.gaveUp.Add(1)
			warn := false
			locked(func() { warn, k.warned = !k.warned, true })
			if warn {
				h.opts.Logger.Warn("events could not be delivered to a webhook of the config", "host", hostOf(conf.URL.Reveal()), "error", string(h.lastError(k)))
			}
		},
		passed: func(at mcpevents.Position, oldest time.Time) {
			cursor := at.Cursor()
			locked(func() {
				k.oldest = oldest
				if k.Cursor != cursor || states.changed {
					k.Cursor = cursor
					h.changed()
				}
				if states.changed {
					states.changed = false
					k.Sent, k.Held = maps.Clone(states.sent), states.ids()
				}
			})
		},
		states: states,
	}
	if form.ordered {
		e.open = 1
	}
	return e
}

// selects reports whether an event is sent to a webhook.
func selects(w config.Webhook, o *mcpevents.Occurrence) bool {
	matches := func(globs []string, texts ...string) bool {
		return slices.ContainsFunc(globs, func(g string) bool {
			return slices.ContainsFunc(texts, func(text string) bool { return text != "" && glob.Match(g, text) })
		})
	}
	return o != nil && o.News() && (len(w.Types) == 0 || slices.Contains(w.Types, o.Name)) && (len(w.Servers) == 0 || matches(w.Servers, o.Server)) &&
		(len(w.URIs) == 0 || matches(w.URIs, o.URI(), o.Exported()))
}

// note counts an attempt.
func (h *Hooks) note(k *target, r Result) {
	h.counts.note(r)
	k.counts.note(r)
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now().UTC()
	switch {
	case r.Drop: // it responds, but does not want the event
		k.status.FailedSince = time.Time{}
	case r.Err == "":
		k.status, k.warned = status{LastDelivery: now}, false
	default:
		k.status.LastError = r.Err
		if k.status.FailedSince.IsZero() {
			k.status.FailedSince = now
		}
	}
}

func (h *Hooks) lastError(k *target) Error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return k.status.LastError
}

// earlier reports whether cursor a is before b in the same log. It is true if they cannot be
// compared.
func earlier(a, b string) bool {
	ea, sa, errA := event.ParseID(a)
	eb, sb, errB := event.ParseID(b)
	return errA == nil && (errB != nil || ea != eb || sa < sb)
}

// mark is how far the deliveries of a webhook are, as it is stored. It has neither the
// URL nor the secret.
type mark struct {
	Key    string `json:"key"` // of the URL and what selects events
	URL    string `json:"url"` // a digest
	Cursor string `json:"cursor"`
	GapDue bool   `json:"gapDue,omitempty"`
	// Sent and Held are those of the settler; Held by the ids of the events.
	Sent map[string]string `json:"sent,omitempty"`
	Held []string          `json:"held,omitempty"`
}

// newMark names a webhook.
func newMark(w config.Webhook) mark {
	digest := func(v any) string {
		data, _ := json.Marshal(v) // strings always encode
		sum := sha256.Sum256(data)
		return hex.EncodeToString(sum[:16])
	}
	url := w.URL.Reveal()
	return mark{Key: digest([]any{url, w.Format, w.Types, w.Servers, w.URIs}), URL: digest(url)}
}

// takeLocked takes the mark of a webhook out of those that are stored. If it is not the
// exact one it is the earliest of its URL, as the filters were changed.
func (h *Hooks) takeLocked(id mark, exact bool) (mark, bool) {
	at := -1
	for i, m := range h.marks {
		switch {
		case exact && m.Key == id.Key:
			at = i
		case !exact && m.URL == id.URL && (at < 0 || earlier(m.Cursor, h.marks[at].Cursor)):
			at = i
		}
	}
	if at < 0 {
		return mark{}, false
	}
	m := h.marks[at]
	h.marks = slices.Delete(h.marks, at, at+1)
	return m, true
}
