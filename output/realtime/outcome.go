package realtime

import (
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/printable"
)

// observe processes a server event. It returns true for an event that answers a client event
// of ours, such as an error that names it: a proxy hides it from the application.
func (c *conversation) observe(e serverEvent) (ours bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.signal()
	now := time.Now()
	c.imports.observe(e)
	if e.opens != nil {
		c.speak(e.opens)
	}
	if f := c.flight; e.confirms != "" {
		if f != nil && e.confirms == eventIDOf(f.id) {
			c.delivered(f, now)
		}
		return strings.HasPrefix(e.confirms, itemEventPrefix)
	}
	switch e.Type {
	case "conversation.item.added", "conversation.item.done", "conversation.item.created":
		c.itemAdded(e, now)
	case "response.output_item.done":
		c.replies.item(e, now)
	case "response.created":
		c.replies.created(e.Response.ID)
	case "response.done":
		c.replies.done(e.Response.ID)
	case "input_audio_buffer.speech_started":
		c.replies.speech(true, now)
	case "input_audio_buffer.speech_stopped", "input_audio_buffer.committed", "input_audio_buffer.cleared":
		c.replies.speech(false, now)
	case "error":
		return c.errorEvent(e, now)
	}
	return false
}

// speak switches to the dialect that the session turned out to have. An item in flight is
// encoded again.
func (c *conversation) speak(d dialect) {
	c.muted = false
	if c.dialect == d {
		return
	}
	c.dialect = d
	if f := c.flight; f != nil {
		c.flight = nil
		c.queue.restore(f.batch)
		for _, p := range f.batch {
			p.alone = false
		}
	}
}

func (c *conversation) itemAdded(e serverEvent, now time.Time) {
	c.replies.item(e, now)
	f := c.flight
	switch {
	// LocalAI repeats the id of our event instead of giving events ids of its own.
	case f != nil && (e.Item.ID == f.id || e.EventID == eventIDOf(f.id)):
		c.delivered(f, now)
	case strings.HasPrefix(e.Item.ID, itemPrefix):
		c.foreign.add(e.Item.ID, now)
	}
}

// errorEvent handles an error: one that names the item in flight is about that item and
// nothing else.
func (c *conversation) errorEvent(e serverEvent, now time.Time) (ours bool) {
	id := e.Error.EventID
	f := c.flight
	switch {
	case f != nil && id == eventIDOf(f.id) && duplicate(e):
		// An id of events was used by an earlier attempt. One of contents may be of an older item,
		// also after an attempt that was not answered; a repeated message is better than none.
		if !f.byContent() || c.foreign.has(f.id, now) {
			c.delivered(f, now)
		} else {
			f.rekey(c.dialect, c.opts.Message)
		}
	case f != nil && id == eventIDOf(f.id) && transient(e):
		c.again(f, reason(e), now)
	case f != nil && id == eventIDOf(f.id):
		c.rejected(f, reason(e))
	case id != "" && id == c.replies.asked:
		c.replies.refused(e.Error.Code == "conversation_already_has_active_response", now)
	case id == "" && final(e.Error.Type+"."+e.Error.Code):
		c.fatal = reason(e) // if the connection ends now, this is why
	}
	return strings.HasPrefix(id, itemEventPrefix) || strings.HasPrefix(id, replyEventPrefix) || strings.HasPrefix(id, updateEventPrefix)
}

// duplicate reports whether an error says that an item with this id exists already.
func duplicate(e serverEvent) bool {
	text := strings.ToLower(e.Error.Code + " " + e.Error.Message)
	return strings.Contains(text, "already exist") || strings.Contains(text, "already_exist") || strings.Contains(text, "duplicate")
}

// transient reports whether an error may pass, so that another attempt can succeed.
func transient(e serverEvent) bool {
	return slices.ContainsFunc([]string{"rate_limit", "server_error", "overloaded", "service_unavailable"}, func(s string) bool {
		return strings.Contains(e.Error.Type, s) || strings.Contains(e.Error.Code, s)
	})
}

// final reports whether s, the type and code of an error or the reason of a close frame, says
// that another attempt would fail, too.
func final(s string) bool {
	return slices.ContainsFunc([]string{"invalid_request_error", "model_not_found", "authentication_error", "permission", "invalid_api_key"},
		func(part string) bool { return strings.Contains(s, part) })
}

func reason(e serverEvent) string {
	parts := []string{}
	for _, s := range []string{e.Error.Type, e.Error.Code, e.Error.Message} {
		if s != "" {
			parts = append(parts, printable.Line(s, 300))
		}
	}
	return strings.Join(parts, ": ")
}

func (c *conversation) delivered(f *flight, now time.Time) {
	c.flight = nil
	c.replies.wanted = c.replies.wanted || c.opts.Respond
	receipts := make([]Receipt, len(f.batch))
	for i, p := range f.batch {
		c.stats.Injected++
		c.handled(p)
		c.replaced(p.key(), f.id)
		receipts[i] = Receipt{Message: p.Message, Session: c.name, At: now, Merged: p.merged, Latency: max(0, now.Sub(p.since))}
		receipts[i].ItemID = f.id
	}
	c.hooks.injected(receipts)
}

// replaced records the item with the last message about a resource. The items before it say
// nothing about its present state any more: if an earlier content returns, it is sent again, even
// though an item with its id was seen a moment ago.
func (c *conversation) replaced(k key, item string) {
	seen, ok := c.queue.known[k]
	if !ok {
		return
	}
	if seen.item != item {
		delete(c.foreign, seen.item)
	}
	seen.item = item
	c.queue.known[k] = seen
}

// handled records that a message, and the older ones of its resource, need not be
// delivered any more.
func (c *conversation) handled(p *pending) {
	delete(c.queue.given, p.key())
	if !c.resumable {
		return
	}
	c.progress.add(&p.Message)
	if len(c.progress.newest) > maxNewest {
		c.progress.upTo(c.cursor())
	}
}

// recent holds, by the ids of items that other injectors added, when each was last seen. The
// lock of its owner must be held.
type recent map[string]time.Time

// Bounds of recent: how many items, and for how long.
const (
	maxRecent = 256
	recently  = 10 * time.Second
)

func (r recent) add(id string, now time.Time) {
	for k, at := range r {
		if now.Sub(at) > recently || len(r) >= maxRecent {
			delete(r, k)
		}
	}
	r[id] = now
}

func (r recent) has(id string, now time.Time) bool {
	at, ok := r[id]
	return ok && now.Sub(at) <= recently
}
