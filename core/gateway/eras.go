package gateway

import (
	"context"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
)

// A server may speak both eras. Whichever the shared session is in, clients of either era are
// served in theirs: legacy clients that can be asked something have sessions of their own anyway,
// and modern clients share another one.

// modernOnly is a server that turned the legacy era down.
type modernOnly struct {
	entry  config.Server
	server string // its name and version
}

// otherEra returns the era that a server speaks besides the one in which it is connected. Servers
// of the modern era do not always say so: until the legacy one was tried, they may speak it.
func (c *clients) otherEra(srv config.Server, info session.Info) session.Era {
	if info.Other != "" || info.Era != session.EraModern || srv.Protocol == config.ProtocolModern {
		return info.Other
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.modernOnly[srv.ID]
	if ok && known.entry.Equal(srv) && known.server == nameOf(info) {
		return ""
	}
	delete(c.modernOnly, srv.ID) // of another server
	return session.EraLegacy
}

// inLegacy reports whether a session with a server can be of the legacy era.
func (c *clients) inLegacy(v *view, srv config.Server) bool {
	if v.asks[srv.ID] {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known, refused := c.modernOnly[srv.ID]
	return v.other[srv.ID] == session.EraLegacy && !(refused && known.entry.Equal(srv))
}

func nameOf(info session.Info) string { return info.ServerName + "\x00" + info.ServerVersion }

// learn takes in what dialling a client's own session in the legacy era showed. If the server
// does not speak it, the session is forgotten.
func (c *clients) learn(of *client, o *own) {
	if !o.wrong {
		return
	}
	st, _ := c.g.tracker.Snapshot().Server(o.srv.ID)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.modernOnly[o.srv.ID] = modernOnly{o.srv, nameOf(st.Info)}
	c.g.kick()
	if o.s == nil && of.own[o.srv.ID] == o {
		delete(of.own, o.srv.ID)
		c.end(o)
	}
}

// inModern returns the session in which clients of the modern era share a server whose shared
// session is of the legacy era; nil if the server speaks only that, or if no session can be
// opened.
func (c *clients) inModern(ctx context.Context, v *view, server string) *own {
	if v.other[server] != session.EraModern {
		return nil
	}
	srv, found := entryOf(c.g.wanted(), server)
	if !found || srv.Unshared {
		return nil
	}
	c.mu.Lock()
	o := c.shared[server]
	if o != nil && isClosed(o.ready) {
		if ok, again := o.usable(); ok && !o.srv.Equal(srv) || !ok && again {
			delete(c.shared, server)
			c.end(o)
			o = nil
		}
	}
	if o == nil {
		if c.ctx.Err() != nil || !c.room(server, "") {
			c.mu.Unlock()
			return nil
		}
		o = newOwn(srv, nil, nil)
		o.era = session.EraModern
		o.ids = c.g.taskIDs("", server)
		c.shared[server] = o
		c.begin(o, nil)
	}
	c.mu.Unlock()
	if ready(ctx, o) == nil {
		return nil
	}
	o.speakFor(nil, false) // it is in use
	return o
}
