package gateway

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/mcptrack/mcptrack/core/serve"
)

// lend returns a session with a server for one request of a client of the modern era,
// which has to be given back; nil if there is none. Such clients have no sessions, so one
// may serve any with the same credentials and capabilities, one after the other.
func (c *clients) lend(ctx context.Context, r *serve.Request, server string, capabilities json.RawMessage) *own {
	var level map[string]json.RawMessage
	if l := logLevel(r); l != nil {
		level = map[string]json.RawMessage{"level": l}
	}
	group := string(encode([]any{server, r.Principal, capabilities, level}))
	c.mu.Lock()
	srv, found := entryOf(c.g.wanted(), server)
	if !found || c.ctx.Err() != nil || time.Since(c.failed[server]) < ownRetry {
		c.mu.Unlock()
		return nil
	}
	for i, o := range slices.Backward(c.idle) {
		if o.group == group && o.srv.Equal(srv) && o.s.Err() == nil {
			c.idle = slices.Delete(c.idle, i, i+1)
			c.wg.Add(1)
			c.mu.Unlock()
			return o
		}
	}
	if !c.room(server) {
		c.mu.Unlock()
		return nil
	}
	o := newOwn(srv, capabilities, nil)
	o.group = group
	c.wg.Add(1)
	c.begin(o, level)
	c.mu.Unlock()
	if ready(ctx, o) == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		defer c.wg.Done()
		c.end(o)
		if ctx.Err() == nil {
			c.failed[server] = time.Now()
		}
		return nil
	}
	return o
}

// giveBack keeps a session for the next request. It ends one that is not clean: a server
// that goes on with a request that was cancelled would ask the client of the next one.
func (c *clients) giveBack(o *own, clean bool) {
	o.speakFor(nil, false)
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.wg.Done()
	if c.ctx.Err() != nil || o.s.Err() != nil || !clean {
		c.end(o)
		return
	}
	c.idle = append(c.idle, o)
}
