package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/hook"
	"github.com/mcptrack/mcptrack/core/journal"
)

// hooks holds what the hooks of the config touch.
type hooks struct {
	mu   sync.Mutex
	byID map[string][]config.Touch
}

func (h *hooks) apply(all []config.Hook) {
	byID := map[string][]config.Touch{}
	for _, one := range all {
		if len(one.Missing) == 0 {
			byID[one.ID] = append(byID[one.ID], one.Touches...)
		}
	}
	h.mu.Lock()
	h.byID = byID
	h.mu.Unlock()
}

func (h *hooks) touches(id string) []config.Touch {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.byID[id]
}

// Receive publishes that a hook received a message, and makes the tracker read the resources that the
// hook touches. If servers are shared, any process may receive the message: each process that reads the
// event in the log makes its own tracker read them, as its own config says. The body is stored beside
// the log if it is JSON and contains no secret of the hook or of a server that it touches. Receive
// returns immediately.
func (e *Engine) Receive(d hook.Delivery) {
	digest := catalog.Digest(sha256.Sum256(d.Body))
	if json.Valid(d.Body) && !e.secretIn(readings(d.Body), d.Hooks) {
		e.log.Contents().Put(digest, string(d.Body))
	}
	e.tracker.Publish(event.Event{Payload: event.HookReceived{
		HookID: d.Hooks[0].ID, DeliveryID: d.ID, ContentType: d.ContentType, Size: len(d.Body), Digest: digest,
	}})
	if e.sharing == nil {
		for _, h := range d.Hooks {
			e.touch(h.Touches)
		}
	}
}

// readings returns a JSON text and what its readers may take it for: its strings without escapes, and
// these without percent-encoding.
func readings(text []byte) string {
	all := bytes.NewBuffer(bytes.Clone(text))
	dec := json.NewDecoder(bytes.NewReader(text))
	for token, err := dec.Token(); err == nil; token, err = dec.Token() {
		if s, ok := token.(string); ok {
			all.WriteString("\n" + s)
			if decoded, err := url.PathUnescape(s); err == nil && decoded != s {
				all.WriteString("\n" + decoded)
			}
		}
	}
	return all.String()
}

// secretIn reports whether a text contains a secret of the hooks or of a server that they touch.
func (e *Engine) secretIn(text string, all []config.Hook) bool {
	for _, h := range all {
		if slices.ContainsFunc(h.Secrets, func(s config.Secret) bool {
			return strings.Contains(text, strings.TrimPrefix(s.Reveal(), "whsec_"))
		}) {
			return true
		}
		for _, t := range h.Touches {
			if e.texts.secretIn(t.Server, text) {
				return true
			}
		}
	}
	return false
}

// touch makes the tracker read resources. It ignores servers that this process does not follow.
func (e *Engine) touch(touches []config.Touch) {
	for _, t := range touches {
		e.tracker.Touch(t.Server, t.URI)
	}
}

// followHooks makes the tracker read what the messages to the hooks of all processes touch, until ctx
// ends.
func (e *Engine) followHooks(ctx context.Context) error {
	from, retry := e.first, backoff.New(100*time.Millisecond, 10*time.Second)
	for {
		for entry, err := range e.log.Follow(ctx, from) {
			switch {
			case ctx.Err() != nil || errors.Is(err, journal.ErrClosed):
				return nil
			case err != nil:
				e.opts.Logger.Debug("cannot read messages to hooks from the log", "err", err)
			case entry.Gap == nil && !entry.Again:
				retry.Reset()
				from = entry.Seq + 1
				e.touchFor(entry)
			}
		}
		if !backoff.Sleep(ctx, retry.Next()) {
			return nil
		}
		if b, err := e.log.Bounds(ctx); err == nil && b.Last+1 < from { // the log was replaced
			from = 0
		}
	}
}

// touchFor makes the tracker read what an event in the log touches.
func (e *Engine) touchFor(entry journal.Entry) {
	if entry.Type() != event.TypeHookReceived {
		return
	}
	if ev, err := entry.Event(); err == nil {
		if p, ok := ev.Payload.(event.HookReceived); ok {
			e.touch(e.hooks.touches(p.HookID))
		}
	}
}
