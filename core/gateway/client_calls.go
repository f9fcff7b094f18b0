package gateway

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/session"
)

// fromClient forwards a notification of a client to the servers that it concerns, in the
// sessions that belong to the client.
func (c *clients) fromClient(of *mcpserver.Client, method string, params json.RawMessage) {
	switch method {
	case mcp.NotificationRootsChanged:
		c.forEach(of, func(ctx context.Context, o *own) { _, _ = o.s.Do(ctx, session.Request{Method: method}) })
	case mcp.NotificationTaskStatus:
		id := taskID(params)
		c.forEach(of, func(ctx context.Context, o *own) {
			if p, _, _ := o.speaksFor(); p != nil && id != "" {
				if p, ok := p.(*legacyPeer); ok && p.knows(id) {
					_, _ = o.s.Do(ctx, session.Request{Method: method, Params: fields(params)})
				}
			}
		})
	}
}

// takeOver gives a parked session to the client that asks for a task in it: from then on
// the session speaks for this client, in place of the one that has left.
func (c *clients) takeOver(r *mcpserver.Request, o *own) {
	if r.Client == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.parked, o)
	if i < 0 || c.ctx.Err() != nil {
		return
	}
	known := c.all[r.Client]
	if known == nil {
		known = c.add(r.Client)
	}
	c.parked = slices.Delete(c.parked, i, i+1)
	if known.own[o.srv.ID] == nil {
		known.own[o.srv.ID] = o
	} else {
		known.more = append(known.more, o)
	}
	o.speakFor(&legacyPeer{client: r.Client}, false)
}

// forEach calls f for each usable session that belongs to a client, in the background.
func (c *clients) forEach(of *mcpserver.Client, f func(ctx context.Context, o *own)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.all[of]
	if known == nil || c.ctx.Err() != nil {
		return
	}
	for _, o := range known.sessions() {
		c.wg.Go(func() {
			if ready(c.ctx, o) == nil { // dialling takes a limited time
				return
			}
			ctx, cancel := context.WithTimeout(c.ctx, 10*time.Second)
			defer cancel()
			f(ctx, o)
		})
	}
}

// setLevel answers logging/setLevel. The level is set in the client's own sessions with
// servers; a client that has set one gets such sessions from its next request on.
func (c *clients) setLevel(r *mcpserver.Request) (json.RawMessage, error) {
	params := fields(r.Params)
	if !isString(params["level"]) {
		return nil, &mcpserver.Error{Code: mcp.CodeInvalidParams, Message: `"level" must be a string`}
	}
	r.Client.Remember(encode(map[string]json.RawMessage{"level": params["level"]}))
	c.forEach(r.Client, func(ctx context.Context, o *own) {
		// Whoever sets a level last must set the latest.
		for level := levelOf(r.Client); level != nil; {
			_, _ = o.s.Do(ctx, session.Request{Method: mcp.MethodSetLevel, Params: level}) // an error: the server has no logging
			latest := levelOf(r.Client)
			if string(latest["level"]) == string(level["level"]) {
				return
			}
			level = latest
		}
	})
	return json.RawMessage("{}"), nil
}

// levelOf returns the params of the last logging/setLevel of a client; nil: none.
func levelOf(of *mcpserver.Client) map[string]json.RawMessage {
	if level := of.Remembered(); level != nil {
		return fields(level)
	}
	return nil
}
