package webhook

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/glob"
	"github.com/mcptrack/mcptrack/core/journal"
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

// Webhooks delivers events to the webhooks in a config. They need no challenge.
type Webhooks struct {
	*deliverer
	opts   WebhookOptions
	follow func() // makes the reader run

	applied    bool // there is a config; guarded by mu
	incomplete bool // a webhook of the config is ignored; guarded by mu
}

// NewWebhooks returns hooks that send nothing until Run is called.
func NewWebhooks(opts WebhookOptions) *Webhooks {
	h := &Webhooks{opts: opts, follow: func() {}}
	h.deliverer = newDeliverer(h, FromConfig, opts.Log, opts.Records, opts.Sender, opts.Logger)
	return h
}

// Run delivers until ctx ends. When it returns, no delivery is in progress and the watermarks are
// stored. It logs and retries storage errors. It must be called at most once.
func (h *Webhooks) Run(ctx context.Context) error {
	var reading sync.WaitGroup
	if h.opts.Follow {
		h.follow = sync.OnceFunc(func() {
			reading.Go(func() { _ = h.opts.Reader.Run(ctx) }) // runs until ctx ends
		})
	}
	h.run(ctx)
	reading.Wait()
	return nil
}

// identify returns the initial progress of a webhook.
func identify(w config.Webhook) progress {
	digest := func(v any) string {
		data, _ := json.Marshal(v) // encoding strings cannot fail
		sum := sha256.Sum256(data)
		return hex.EncodeToString(sum[:16])
	}
	url := w.URL.Reveal()
	return progress{Key: digest([]any{url, w.Format, w.Types, w.Servers, w.URIs}), URL: digest(url)}
}

// Apply replaces the configured webhooks. A webhook whose URL was already configured continues from its
// position, even if its secret or filters changed. A webhook with a new URL starts with the next event.
func (h *Webhooks) Apply(all []config.Webhook) {
	all = slices.Clone(all)
	missing := 0
	all = slices.DeleteFunc(all, func(w config.Webhook) bool {
		if len(w.Missing) == 0 {
			return false
		}
		missing++
		h.logger.Warn("a webhook in the config is ignored because its configuration is incomplete", "missing", w.Missing)
		return true
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.applied, h.incomplete = true, missing > 0
	before, next := slices.Clone(h.endpoints), make([]*endpoint, len(all))
	slices.SortStableFunc(before, func(a, b *endpoint) int { return earlier(a.progress, b.progress) })
	// The same filters first, so that a webhook cannot take the progress of another one with the same URL.
	for _, same := range []func(e *endpoint, w config.Webhook) bool{
		func(e *endpoint, w config.Webhook) bool { return e.conf.Equal(w) },
		func(e *endpoint, w config.Webhook) bool { return e.Key == identify(w).Key },
		func(e *endpoint, w config.Webhook) bool { return e.URL == identify(w).URL },
	} {
		for i, w := range all {
			if at := slices.IndexFunc(before, func(e *endpoint) bool { return same(e, w) }); next[i] == nil && at >= 0 {
				next[i] = before[at]
				before = slices.Delete(before, at, at+1)
			}
		}
	}
	for _, e := range before {
		h.removeLocked(e)
		if h.incomplete { // it may be the incomplete one
			h.kept = append(h.kept, e.progress)
		}
	}
	var added []*endpoint
	for i, w := range all {
		switch e := next[i]; {
		case e == nil:
			next[i] = &endpoint{progress: identify(w)}
			h.configureLocked(next[i], w)
			added = append(added, next[i])
		case !e.conf.Equal(w):
			h.configureLocked(e, w)
			h.changed = true
			e.wakeLocked()
		}
	}
	h.endpoints = next
	h.adoptLocked(added)
	for _, e := range added {
		h.startLocked(e)
	}
	h.wake()
}

// earlier orders progress by the position in the log; what has not begun is last. If webhooks with one URL
// become fewer, those that remain lose nothing.
func earlier(a, b progress) int {
	if a.Cursor == "" || b.Cursor == "" {
		return cmp.Compare(len(b.Cursor), len(a.Cursor))
	}
	epochA, seqA, _ := event.ParseID(a.Cursor)
	epochB, seqB, _ := event.ParseID(b.Cursor)
	return cmp.Or(cmp.Compare(epochA, epochB), cmp.Compare(seqA, seqB))
}

// configureLocked makes an endpoint deliver as configured.
func (h *Webhooks) configureLocked(e *endpoint, w config.Webhook) {
	if e.secret != nil && e.conf.Secret != w.Secret {
		e.old, e.oldUntil = e.secret, time.Now().Add(oldSecretFor)
	}
	e.secret = nil
	if s, err := standardwebhooks.ParseSecret(w.Secret.Reveal()); err == nil {
		e.secret = &s
	}
	id := identify(w)
	e.conf, e.Key, e.URL = &w, id.Key, id.URL
	e.destination = &destination{
		url: w.URL.Reveal(), private: w.AllowPrivate, format: formatOf(w.Format, h.opts.Dashboard), settle: w.Settle, schedule: schedule(),
		match: func(o *mcpevents.Occurrence) bool { return selects(w, o) },
	}
}

// ready lets a process without webhooks deliver, until it has deleted the stored progress, if no other
// process may have webhooks.
func (h *Webhooks) ready() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.applied || len(h.endpoints) == 0 && (h.log != nil || h.ctx != nil && !h.changed) {
		return errIdle
	}
	return nil
}

func (h *Webhooks) caughtUp(context.Context, uint64) error { return nil }

func (h *Webhooks) adoptLocked(all []*endpoint) {
	sort.SliceStable(h.kept, func(i, j int) bool { return earlier(h.kept[i], h.kept[j]) < 0 })
	adopted := map[*endpoint]bool{}
	for _, same := range []func(p progress, e *endpoint) bool{
		func(p progress, e *endpoint) bool { return p.Key == e.Key },
		func(p progress, e *endpoint) bool { return p.URL == e.URL },
	} {
		for _, e := range all {
			if at := slices.IndexFunc(h.kept, func(p progress) bool { return same(p, e) }); at >= 0 && !adopted[e] {
				p := h.kept[at]
				p.Key, p.URL = e.Key, e.URL
				e.progress, adopted[e] = p, true
				h.kept = slices.Delete(h.kept, at, at+1)
			}
		}
	}
	if len(h.kept) > 0 && !h.incomplete { // otherwise an incomplete webhook may still need its progress
		h.kept, h.changed = nil, true
	}
}

func (h *Webhooks) view(*endpoint) (*mcpevents.Reader, mcpevents.Scope) {
	h.follow()
	return h.opts.Reader, h.opts.Scope
}

func (h *Webhooks) phaseLocked(*endpoint) (phase, time.Time) { return delivering, time.Time{} }

func (h *Webhooks) end(context.Context, *endpoint) error { return nil }

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

// Endpoints returns the status of the webhooks in config order, without incomplete ones, if this process
// delivers to them.
func (h *Webhooks) Endpoints() (all []EndpointStatus) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.endpoints {
		if h.ctx != nil {
			all = append(all, e.report())
		}
	}
	return all
}
