package gateway

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/session"
)

// lend returns a session with a server for one request of a client of the modern era; nil
// if none can be opened. The caller must give it back. Modern clients have no sessions, so
// a session with a server may serve all clients with the same credentials, capabilities
// and log level, one request after the other.
func (c *clients) lend(ctx context.Context, r *mcpserver.Request, server string, capabilities json.RawMessage) *own {
	var level map[string]json.RawMessage
	if l := logLevel(r); l != nil {
		level = map[string]json.RawMessage{"level": l}
	}
	group := string(encode([]any{server, r.Principal, capabilities, level}))
	failed := [2]string{r.Principal, server}
	c.mu.Lock()
	srv, found := entryOf(c.g.wanted(), server)
	if !found || c.ctx.Err() != nil || time.Since(c.failed[failed]) < ownRetry {
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
	if !c.room(server, r.Principal) {
		c.mu.Unlock()
		return nil
	}
	o := newOwn(srv, capabilities, nil)
	if v := c.g.view.Load(); v.asks[server] && !(srv.Unshared && v.other[server] == session.EraModern) { // in the modern era servers send no requests
		o.era = session.EraLegacy
	}
	o.group, o.ids = group, c.g.taskIDs(r.Principal, server)
	c.wg.Add(1)
	c.begin(o, level)
	c.mu.Unlock()
	if ready(ctx, o) == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		defer c.wg.Done()
		c.end(o)
		if ctx.Err() == nil {
			c.failed[failed] = time.Now()
		}
		return nil
	}
	return o
}

// giveBack takes back a session that was lent and keeps it for the next request. If it is
// not clean, it is ended: a server that still works on a cancelled request would ask the
// client of the next one.
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
