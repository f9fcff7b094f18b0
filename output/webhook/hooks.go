package webhook

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
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
	"github.com/mcptrack/mcptrack/core/printable"
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
	// Publish publishes that a webhook was switched off; nil if nobody needs to know. It must not block.
	Publish func(event.Payload)
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
	h.publish = opts.Publish
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

// digest returns a digest of strings, numbers and truth values.
func digest(v ...any) string {
	data, _ := json.Marshal(v) // cannot fail
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

// Apply replaces the configured webhooks. A webhook whose URL was already configured continues from its
// position, even if its secret or filters changed. A webhook with a new URL starts with the next event.
func (h *Webhooks) Apply(all []config.Webhook) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.endpoints
	var added []*endpoint
	h.endpoints, h.applied, h.incomplete = nil, true, false
	for _, w := range all {
		if len(w.Missing) > 0 {
			h.incomplete = true
			h.logger.Warn("a webhook in the config is ignored because its configuration is incomplete", "missing", w.Missing)
			continue
		}
		var e *endpoint
		if at := slices.IndexFunc(before, func(e *endpoint) bool { return e.conf.Equal(w) }); at >= 0 {
			e = before[at]
			before = slices.Delete(before, at, at+1)
		} else {
			e = h.endpoint(w)
			added = append(added, e)
		}
		h.endpoints = append(h.endpoints, e)
	}
	for _, e := range before {
		h.removeLocked(e)
		e.was = e
		h.kept = append(h.kept, e.progress)
	}
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

// endpoint returns the endpoint of a webhook that begins with the next event.
func (h *Webhooks) endpoint(w config.Webhook) *endpoint {
	url, secret := w.URL.Reveal(), w.Secret.Reveal()
	e := &endpoint{conf: &w, destination: &destination{
		url: url, private: w.AllowPrivate, format: formatOf(w.Format, h.opts.Dashboard), settle: w.Settle, schedule: longSchedule(), patient: true,
		match: func(o *mcpevents.Occurrence) bool { return selects(w, o) },
	}}
	e.URL, e.Key = digest(url), digest(url, w.Format, w.Types, w.Servers, w.URIs)
	e.Entry = digest(e.Key, secret, w.Settle, w.AllowPrivate)
	if s, err := standardwebhooks.ParseSecret(secret); err == nil {
		e.secret = &s
	}
	return e
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
	// The same filters first, so that a webhook cannot take the progress of another one with the same URL.
	for _, same := range []func(p progress, e *endpoint) bool{
		func(p progress, e *endpoint) bool { return p.Entry == e.Entry },
		func(p progress, e *endpoint) bool { return p.Key == e.Key },
		func(p progress, e *endpoint) bool { return p.URL == e.URL },
	} {
		for _, e := range all {
			if at := slices.IndexFunc(h.kept, func(p progress) bool { return same(p, e) }); at >= 0 && !adopted[e] {
				e.continueLocked(h.kept[at])
				h.kept, adopted[e] = slices.Delete(h.kept, at, at+1), true
			}
		}
	}
	if h.incomplete { // an incomplete webhook may still need its progress
		return
	}
	for _, p := range h.kept {
		for _, e := range h.endpoints {
			if p.URL == e.URL {
				h.inheritLocked(e, p)
			}
		}
		h.changed = true
	}
	h.kept = nil
}

// continueLocked makes an endpoint continue the progress of one that had the same URL.
func (e *endpoint) continueLocked(p progress) {
	if was := p.was; was != nil {
		e.count, e.results, e.old, e.oldUntil = was.count, was.results, was.old, was.oldUntil
		if was.secret != nil && was.conf.Secret != e.conf.Secret {
			e.old, e.oldUntil = was.secret, time.Now().Add(oldSecretFor)
		}
	}
	changed := p.Entry != e.Entry
	p.Entry, p.Key, p.URL, p.was = e.Entry, e.Key, e.URL, nil
	e.progress = p
	if changed {
		e.resumeLocked()
	}
}

// inheritLocked adds the events that a webhook with the same URL, which is no longer configured, was to be sent again.
func (h *Webhooks) inheritLocked(e *endpoint, from progress) {
	for _, a := range from.Later {
		switch {
		case slices.ContainsFunc(e.Later, func(b again) bool { return a.ID == b.ID }):
			continue
		case len(e.Later) < maxLater:
			e.Later = append(slices.Clone(e.Later), a)
		default:
			h.missedLocked(e)
		}
		e.worker = nil
		e.wakeLocked()
	}
}

func (h *Webhooks) view(*endpoint) (*mcpevents.Reader, mcpevents.Scope) {
	h.follow()
	return h.opts.Reader, h.opts.Scope
}

func (h *Webhooks) phaseLocked(e *endpoint) (phase, time.Time) {
	if e.Status.Suspended {
		return waiting, time.Time{}
	}
	return delivering, time.Time{}
}

// offAfter is how long all attempts must fail until a webhook is switched off, and offTries how many of this process:
// time while no process runs does not count alone.
const (
	offAfter = 24 * time.Hour
	offTries = 3
)

func (h *Webhooks) suspendsLocked(e *endpoint) bool {
	return e.Status.failures >= offTries && time.Since(e.Status.FailedSince) >= offAfter
}

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

// Again selects events that webhooks are sent again: the one with an id, or all that are later than a time or an id.
type Again struct {
	Hosts   []string `json:"webhooks,omitempty"` // hosts of the webhooks; all if it is empty
	EventID string   `json:"eventId,omitempty"`
	Since   string   `json:"since,omitempty"` // a time (RFC 3339) or an id
}

// Resent is what a webhook is sent again.
type Resent struct {
	Host    string               `json:"host"`
	Format  config.WebhookFormat `json:"format"`
	Problem string               `json:"problem,omitempty"` // why it is sent nothing; empty if it is
}

// Resend makes webhooks send events again, before new ones, and switches them on. Errors are for users.
func (h *Webhooks) Resend(ctx context.Context, q Again) ([]Resent, error) {
	if (q.EventID == "") == (q.Since == "") {
		return nil, errors.New("name either an event or since when events are sent again")
	}
	delivers := false
	h.locked(func() { delivers = h.ctx != nil })
	if !delivers {
		return nil, errors.New("this process does not deliver to webhooks: none are configured, or another process of the cluster delivers")
	}
	h.follow()
	from, o, err := h.find(ctx, q)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	out := []Resent{}
	for _, e := range h.endpoints {
		r := Resent{Host: hostOf(e.url), Format: e.format.name}
		if len(q.Hosts) > 0 && !slices.Contains(q.Hosts, r.Host) {
			continue
		}
		later := slices.DeleteFunc(slices.Clone(e.Later), func(a again) bool { return a.ID == q.EventID })
		switch at := (again{ID: e.Cursor}).position(); {
		case o != nil && !e.match(o):
			r.Problem = "its filters exclude the event"
		case o != nil && len(later) >= maxLater:
			r.Problem = fmt.Sprintf("%d events wait already", maxLater)
		case o != nil:
			later = append(later, again{ID: o.ID, Time: o.Time})
		case at.Epoch != from.Epoch || at.Seq > from.Seq: // otherwise all of them follow anyway
			if e.Cursor != "" && at.Epoch != from.Epoch {
				h.missedLocked(e)
			}
			later = slices.DeleteFunc(later, func(a again) bool { return !a.before(from) })
			e.Cursor, e.Sent = from.Cursor(), nil
		}
		if out = append(out, r); r.Problem == "" {
			e.Later, h.changed = later, true
			e.resumeLocked()
		}
	}
	if len(out) == 0 {
		return nil, errors.New("no webhook has this host")
	}
	return out, nil
}

// find returns the event that is to be sent again, or the position after which all are.
func (h *Webhooks) find(ctx context.Context, q Again) (at mcpevents.Position, o *mcpevents.Occurrence, err error) {
	unknown := errors.New("the log has no event with this id")
	last, _, err := h.opts.Reader.Start(ctx, nil, 0, 0)
	at = again{ID: q.EventID + q.Since}.position()
	t, noTime := time.Parse(time.RFC3339, q.Since)
	stored := true
	switch {
	case err != nil:
	case noTime == nil:
		at, err = h.opts.Reader.Since(ctx, t)
	case at.Epoch != last.Epoch || at.Seq == 0 || at.Seq > last.Seq:
		return at, nil, unknown
	case q.EventID != "":
		o, stored, err = readEvent(ctx, h.opts.Reader, at, func(*mcpevents.Occurrence) bool { return true })
	}
	switch {
	case err != nil:
		err = errors.New("the log cannot be read: " + printable.Reason(err, 300))
	case !stored:
		err = unknown
	case q.EventID != "" && o == nil:
		err = errors.New("webhooks are not sent events of this type")
	}
	return at, o, err
}
