package webhook

import (
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/glob"
	"github.com/mcptrack/mcptrack/core/journal/natslog"
	"github.com/mcptrack/mcptrack/core/mcpevents"
	"github.com/mcptrack/mcptrack/core/standardwebhooks"
)

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
	return o != nil && o.MayHaveChanged() && (len(w.Types) == 0 || slices.Contains(w.Types, o.Name)) && (len(w.Servers) == 0 || matches(w.Servers, o.Server)) &&
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
