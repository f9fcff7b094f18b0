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
	"net/http"
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
	"github.com/mcptrack/mcptrack/core/records"
	"github.com/mcptrack/mcptrack/core/standardwebhooks"
)

// WebhookOptions configures Webhooks. Log, Records, Reader and Sender are required.
type WebhookOptions struct {
	// Log has the events. If several processes share a *natslog.Log, only one of the processes with
	// webhooks delivers.
	Log journal.Log
	// Records stores the delivery positions; see [OpenRecords].
	Records records.Store
	// Reader reads Log.
	Reader *mcpevents.Reader
	Sender *Sender
	// Follow makes Run start Reader.Run too, once the config has a webhook.
	Follow bool
	// Scope decides which events may still be sent.
	Scope mcpevents.Scope
	// Dashboard is the origin of the dashboard, such as https://mcptrack.example. If it is set, Slack
	// messages about changes that are not approved link to their review.
	Dashboard string
	// Logger receives records for operators; if nil, they are discarded. They contain hosts, but no
	// URLs or secrets.
	Logger *slog.Logger
}

// Webhooks delivers events to the webhooks in a config. They need no challenge, and are retried until
// they are removed from the config.
type Webhooks struct {
	opts       WebhookOptions
	checkpoint *checkpoint
	election   *leaderElection
	counts     counts
	latest     []config.Webhook // current config; used only by Run
	// wanted passes the configured webhooks from Apply to Run. It has capacity 1 and is never
	// closed; Apply replaces a value that Run has not received yet.
	wanted chan []config.Webhook

	mu     sync.Mutex        // guards all fields below and all fields of the hooks
	stored []webhookProgress // progress of webhooks that are not running
	active []*configWebhook  // running webhooks, in config order
}

// configWebhook is a running webhook from the config. Webhooks.mu guards its fields.
type configWebhook struct {
	webhookProgress
	conf      config.Webhook
	secret    *standardwebhooks.Secret // nil if messages are not signed
	old       *standardwebhooks.Secret // previous secret; also signs messages until oldUntil
	oldUntil  time.Time
	counts    counts
	responder responder
	status    status
	oldest    time.Time
	warned    bool // failures were logged since the last success
	stop      context.CancelFunc
	ended     chan struct{} // closed when the webhook's goroutine has ended
}

// webhookProgress is the stored progress of a webhook. It contains neither the URL nor the secret.
type webhookProgress struct {
	Key    string `json:"key"` // digest of the URL, format and filters
	URL    string `json:"url"` // digest of the URL
	Cursor string `json:"cursor"`
	GapDue bool   `json:"gapDue,omitempty"`
	// Sent and Held store the state of the stateDebouncer; Held contains event IDs.
	Sent map[string]string `json:"sent,omitempty"`
	Held []string          `json:"held,omitempty"`
}

// newWebhookProgress returns the initial progress of a webhook.
func newWebhookProgress(w config.Webhook) webhookProgress {
	digest := func(v any) string {
		data, _ := json.Marshal(v) // encoding strings cannot fail
		sum := sha256.Sum256(data)
		return hex.EncodeToString(sum[:16])
	}
	url := w.URL.Reveal()
	return webhookProgress{Key: digest([]any{url, w.Format, w.Types, w.Servers, w.URIs}), URL: digest(url)}
}

// NewWebhooks returns hooks that send nothing until Run is called.
func NewWebhooks(opts WebhookOptions) *Webhooks {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Webhooks{
		opts: opts, checkpoint: newCheckpoint(opts.Records, configCheckpoint, opts.Logger),
		election: newLeaderElection(opts.Log, FromConfig, opts.Logger), wanted: make(chan []config.Webhook, 1),
	}
}

// Apply replaces the configured webhooks. It never blocks; the latest call wins. A webhook whose
// URL was already configured continues from its position, even if its secret or filters changed. A
// webhook with a new URL starts with the next event.
func (h *Webhooks) Apply(all []config.Webhook) {
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

// Run delivers until ctx ends. When it returns, no delivery is in progress and the watermarks are
// stored. It logs and retries storage errors. It must be called at most once.
func (h *Webhooks) Run(ctx context.Context) error {
	var reading sync.WaitGroup
	defer reading.Wait()
	read := sync.OnceFunc(func() {
		if h.opts.Follow {
			reading.Go(func() { _ = h.opts.Reader.Run(ctx) }) // runs until ctx ends
		}
	})
	for {
		select {
		case h.latest = <-h.wanted:
		case <-ctx.Done():
			return nil
		}
		// If no webhooks remain, lead deletes the stored watermarks, unless another process may
		// still have webhooks.
		for lead := len(h.latest) > 0 || !h.election.shared(); lead && ctx.Err() == nil; lead = len(h.latest) > 0 {
			h.election.run(ctx, func(ctx context.Context, lease *natslog.Lease) error { return h.lead(ctx, lease, read) })
		}
	}
}

// lead delivers until ctx ends, nothing is left to deliver, or another process has taken over. It
// calls read as soon as there is a webhook.
func (h *Webhooks) lead(ctx context.Context, lease *natslog.Lease, read func()) error {
	if len(h.latest) == 0 {
		if kept, _, err := h.checkpoint.read(ctx); err != nil || len(kept.Webhooks) == 0 {
			return err // no stored progress to delete
		}
	}
	kept, _, err := h.checkpoint.load(ctx)
	if err != nil {
		return err
	}
	h.locked(func() { h.stored = kept.Webhooks })
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
	case h.latest = <-h.wanted: // the config changed while waiting for the lease
	default:
	}
	if len(h.latest) > 0 || !h.election.shared() {
		err = apply()
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for ctx.Err() == nil && len(h.latest) > 0 && !errors.Is(err, errSuperseded) {
		select {
		case h.latest = <-h.wanted:
			err = apply()
		case <-tick.C:
			select {
			case <-h.checkpoint.dirty:
				err = h.save(ctx)
			default:
			}
		case <-ctx.Done():
		}
	}
	cancel()
	running.Wait()
	_ = h.save(ctx) // save logs errors; the next process resumes from the stored positions
	h.locked(func() { h.active, h.stored = nil, nil })
	return nil
}

// reconcile starts, restarts and stops webhooks to match the config.
func (h *Webhooks) reconcile(ctx context.Context, lease *natslog.Lease, all []config.Webhook, running *sync.WaitGroup) {
	h.mu.Lock()
	before := h.active
	h.mu.Unlock()
	var keep []*configWebhook
	var start []config.Webhook
	incomplete := 0
	for _, w := range all {
		if len(w.Missing) > 0 {
			h.opts.Logger.Warn("a webhook in the config is ignored because its configuration is incomplete", "missing", w.Missing)
			incomplete++
			continue
		}
		i := slices.IndexFunc(before, func(k *configWebhook) bool { return k.conf.Equal(w) && !slices.Contains(keep, k) })
		if i >= 0 {
			keep = append(keep, before[i])
		} else {
			start = append(start, w)
		}
	}
	var ended []*configWebhook
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
		h.stored = append(h.stored, k.webhookProgress)
	}
	// Match exact filters first, so that a webhook cannot take the progress of another one with the
	// same URL.
	found := map[int]webhookProgress{}
	for _, exact := range []bool{true, false} {
		for n, w := range start {
			if _, ok := found[n]; ok {
				continue
			}
			if p, ok := h.takeStoredLocked(newWebhookProgress(w), exact); ok {
				found[n] = p
			}
		}
	}
	for n, w := range start {
		k := &configWebhook{webhookProgress: found[n], conf: w, ended: make(chan struct{})}
		id := newWebhookProgress(w)
		k.Key, k.URL = id.Key, id.URL
		if s, err := standardwebhooks.ParseSecret(w.Secret.Reveal()); err == nil {
			k.secret = &s
		}
		for _, was := range ended {
			if was.secret != nil && was.URL == k.URL && was.conf.Secret != w.Secret {
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
	h.active = keep
	if incomplete == 0 { // otherwise an incomplete webhook may still need its progress
		h.stored = nil
	}
}

// takeStoredLocked removes and returns the stored progress of a webhook. It prefers an exact match.
// Otherwise, unless exact is set, it uses the earliest progress with the same URL, because the
// filters may have changed.
func (h *Webhooks) takeStoredLocked(id webhookProgress, exact bool) (webhookProgress, bool) {
	at := -1
	for i, p := range h.stored {
		switch {
		case exact && p.Key == id.Key:
			at = i
		case !exact && p.URL == id.URL && (at < 0 || earlier(p.Cursor, h.stored[at].Cursor)):
			at = i
		}
	}
	if at < 0 {
		return webhookProgress{}, false
	}
	p := h.stored[at]
	h.stored = slices.Delete(h.stored, at, at+1)
	return p, true
}

// earlier reports whether cursor a precedes cursor b in the same log, or whether the two cannot be
// compared.
func earlier(a, b string) bool {
	ea, sa, errA := event.ParseID(a)
	eb, sb, errB := event.ParseID(b)
	return errA == nil && (errB != nil || ea != eb || sa < sb)
}

// save stores all delivery positions, even if ctx has ended.
func (h *Webhooks) save(ctx context.Context) error {
	return h.checkpoint.save(ctx, func() positions {
		h.mu.Lock()
		defer h.mu.Unlock()
		all := slices.Clone(h.stored)
		for _, k := range h.active {
			p := k.webhookProgress
			p.Sent, p.Held = maps.Clone(p.Sent), slices.Clone(p.Held)
			all = append(all, p)
		}
		slices.SortStableFunc(all, func(a, b webhookProgress) int { return cmp.Compare(a.Key, b.Key) })
		return positions{Webhooks: all}
	})
}

func (h *Webhooks) locked(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

// serve delivers to one webhook until ctx ends.
func (h *Webhooks) serve(ctx context.Context, lease *natslog.Lease, k *configWebhook) {
	retry := backoff.New(100*time.Millisecond, 5*time.Second)
	for ctx.Err() == nil {
		if err := h.deliver(ctx, lease, k); err != nil && ctx.Err() == nil {
			backoff.Sleep(ctx, retry.Next())
		}
	}
}

// deliver runs a worker that starts at the watermark, or with the next event if there is no
// watermark.
func (h *Webhooks) deliver(ctx context.Context, lease *natslog.Lease, k *configWebhook) error {
	h.mu.Lock()
	p := k.webhookProgress
	h.mu.Unlock()
	var cursor *string
	if p.Cursor != "" {
		cursor = &p.Cursor
	}
	at, truncated, err := h.opts.Reader.Start(ctx, cursor, 0, 0)
	if err != nil {
		return err
	}
	states, lost, err := h.restoreStates(ctx, k.conf.Settle, p)
	if err != nil {
		return err
	}
	gap := false
	h.locked(func() {
		k.GapDue = k.GapDue || truncated || lost
		k.Cursor = at.Cursor()
		gap = k.GapDue
	})
	if p.Cursor == "" { // store a position, so that no later event is lost
		if err := h.save(ctx); err != nil {
			return err
		}
	}
	h.checkpoint.changed()
	w := &worker{sender: h.opts.Sender, reader: h.opts.Reader, endpoint: h.endpoint(k, states)}
	if lease != nil {
		w.allowed = func() error {
			if !lease.Held() {
				return errSuperseded
			}
			return nil
		}
	}
	return w.run(ctx, at, gap)
}

// restoreStates returns a debouncer with the stored states. lost reports whether some of the held
// events are no longer in the log.
func (h *Webhooks) restoreStates(ctx context.Context, after time.Duration, p webhookProgress) (s *stateDebouncer, lost bool, err error) {
	s = newStateDebouncer(after)
	maps.Copy(s.sent, p.Sent)
	for _, id := range p.Held {
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
				lost = true // debouncing is now disabled, and the watermark is past this event
			}
		}
	}
	return s, lost, nil
}

// findWait limits how long a new reader may take to open its log.
const findWait = 10 * time.Second

// find returns the event directly after a position. The batch is Truncated if the event is no
// longer in the log, or if the log does not open within findWait.
func (h *Webhooks) find(ctx context.Context, at mcpevents.Position) (mcpevents.Batch, error) {
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

func (h *Webhooks) endpoint(k *configWebhook, states *stateDebouncer) endpoint {
	conf, form := k.conf, formatOf(k.conf.Format, h.opts.Dashboard)
	post := func(id string, body []byte) *message {
		return &message{url: conf.URL.Reveal(), id: id, body: body, header: http.Header{"Content-Type": {form.contentType}}, private: conf.AllowPrivate}
	}
	e := endpoint{
		responder: &k.responder,
		match:     func(o *mcpevents.Occurrence) bool { return selects(conf, o) },
		shows:     h.opts.Scope.Shows,
		message: func(o *mcpevents.Occurrence, cursor string) *message {
			body, err := form.event(o, cursor)
			if err != nil { // the format cannot represent the event's URI or name
				h.opts.Logger.Warn("an event cannot be encoded for a webhook", "id", o.ID, "format", string(conf.Format), "err", err)
				return nil
			}
			return post(o.ID, body)
		},
		gap: func(cursor string) *message {
			h.counts.gaps.Add(1)
			k.counts.gaps.Add(1)
			id := "msg_gap_" + rand.Text()
			body, err := form.gap(id, cursor)
			if err != nil {
				return nil
			}
			return post(id, body)
		},
		missed: func() {
			h.locked(func() { k.GapDue = true })
			h.checkpoint.changed()
		},
		gapTried: func(taken bool) (again bool) {
			if taken {
				h.locked(func() { k.GapDue = false })
				h.checkpoint.changed()
			}
			return !taken
		},
		secrets: func() (out []standardwebhooks.Secret) {
			h.locked(func() {
				if k.secret != nil {
					out = append(out, *k.secret)
				}
				if k.old != nil && time.Now().Before(k.oldUntil) {
					out = append(out, *k.old)
				}
			})
			return out
		},
		attempted: func(r result) {
			h.counts.note(r)
			k.counts.note(r)
			h.locked(func() {
				k.status.note(time.Now(), r)
				k.warned = k.warned && (r.err != "" || r.drop)
			})
		},
		abandoned: func() {
			h.counts.abandoned.Add(1)
			k.counts.abandoned.Add(1)
			var warn bool
			var last Error
			h.locked(func() { warn, k.warned, last = !k.warned, true, k.status.LastError })
			if warn {
				h.opts.Logger.Warn("events could not be delivered to a webhook in the config", "host", hostOf(conf.URL.Reveal()), "error", string(last))
			}
		},
		passed: func(at mcpevents.Position, oldest time.Time) {
			cursor := at.Cursor()
			h.locked(func() {
				k.oldest = oldest
				if k.Cursor != cursor || states.changed {
					k.Cursor = cursor
					h.checkpoint.changed()
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
		e.concurrent = 1
	}
	return e
}

// selects reports whether an event passes a webhook's filters.
func selects(w config.Webhook, o *mcpevents.Occurrence) bool {
	matches := func(globs []string, texts ...string) bool {
		return slices.ContainsFunc(globs, func(g string) bool {
			return slices.ContainsFunc(texts, func(text string) bool { return text != "" && glob.Match(g, text) })
		})
	}
	return o != nil && o.MayHaveChanged() && (len(w.Types) == 0 || slices.Contains(w.Types, o.Name) || slices.Contains(w.Types, string(o.Type()))) && (len(w.Servers) == 0 || matches(w.Servers, o.Server)) &&
		(len(w.URIs) == 0 || matches(w.URIs, o.URI(), o.Exported()))
}

// Endpoints returns the status of the webhooks in config order, without incomplete ones.
func (h *Webhooks) Endpoints() (all []EndpointStatus) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range h.active {
		e := newEndpointStatus(FromConfig, k.conf.URL.Reveal(), &k.counts, k.status, k.oldest)
		e.Format = k.conf.Format
		all = append(all, e)
	}
	return all
}

// Stats returns the current state.
func (h *Webhooks) Stats() Stats {
	out := h.counts.stats()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range h.active {
		out.Active++
		out.addLag(k.oldest)
	}
	return out
}

// Deliverers returns the process that delivers to the webhooks in the config, or nothing if the log
// is not on a cluster.
func (h *Webhooks) Deliverers() []Deliverer { return h.election.deliverers() }
