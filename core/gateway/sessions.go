package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/internal/fair"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/session"
)

// Limits for sessions that belong to one client. Each session may require a server process. Package
// fair determines the share of each principal.
const (
	maxClientSessions    = 256 // for all servers together
	maxSessionsPerServer = 64
	// maxIdle is how long a session is kept for the next request from modern clients, which have no
	// sessions of their own. maxDetached is how long a session with running tasks is kept after its
	// client has left.
	maxIdle     = time.Minute
	maxDetached = 15 * time.Minute
)

var errNoSession = errors.New("cannot open a separate session for this client, and \"shared\": false in the config forbids using the shared one")

// clientSessions manages the sessions that the gateway opens for one client each, and limits their
// number.
//
// A server may support both protocol eras. Regardless of the era of the shared session, each client
// is served in the client's own era: legacy clients that can be asked for input have their own
// sessions anyway, and modern clients share a second session.
type clientSessions struct {
	*base
	tasks *taskRegistry

	mu        sync.Mutex
	total     fair.Limit             // counts all sessions, including sessions that are being closed
	perServer map[string]*fair.Limit // counts the sessions with each server, by id
	clients   map[*mcpserver.Client]*connectedClient
	detached  []*clientSession          // sessions with running tasks whose client has left, oldest first
	idle      []*clientSession          // pooled sessions for the next modern request, oldest first
	failed    map[[2]string]time.Time   // when acquire last failed to open a session, by principal and server id
	shared    map[string]*clientSession // sessions in the modern era, by server id; see sharedModern
	// modernOnly contains the servers that do not support the legacy era, by id.
	modernOnly map[string]modernOnly
}

// modernOnly describes a server that rejected the legacy era.
type modernOnly struct {
	entry  config.Server
	server string // name and version that the server reported
}

// connectedClient holds the sessions that belong to one connected legacy client.
type connectedClient struct {
	byServer map[string]*clientSession // keyed by server id
	adopted  []*clientSession          // sessions with running tasks, taken over from clients that have left
}

func (k *connectedClient) sessions() []*clientSession {
	list := slices.Clone(k.adopted)
	for _, s := range k.byServer {
		list = append(list, s)
	}
	return list
}

func (c *clientSessions) init(b *base, tasks *taskRegistry) {
	c.base, c.tasks = b, tasks
	c.total.Max = maxClientSessions
	c.clients, c.perServer, c.failed = map[*mcpserver.Client]*connectedClient{}, map[string]*fair.Limit{}, map[[2]string]time.Time{}
	c.shared, c.modernOnly = map[string]*clientSession{}, map[string]modernOnly{}
}

// close stops the background work, closes all sessions, and waits for them.
func (c *clientSessions) close() {
	c.mu.Lock()
	c.stop()
	for _, s := range slices.Concat(c.detached, c.idle) {
		c.end(s)
	}
	c.detached, c.idle = nil, nil
	for server, s := range c.shared {
		delete(c.shared, server)
		c.end(s)
	}
	c.mu.Unlock()
	c.wg.Wait()
}

// session returns the session with a server that belongs to the client that sent the request. It
// returns nil if the request must use the shared session, because the client does not need a
// session of its own or because none can be opened. If the server must not be shared, the latter is
// an error. st is the state of the server in the view for the request. apart is the result of
// Callers.apart.
func (c *clientSessions) session(ctx context.Context, st serverState, r *mcpserver.Request, server string, apart bool) (*clientSession, error) {
	srv, found := c.entry(server)
	if r.Client == nil || !found {
		return nil, nil
	}
	if c.opts.Callers != nil && !apart && !srv.Unshared() && !c.has(r.Client, server) {
		return nil, nil
	}
	legacy := c.speaksLegacy(st, srv) || c.has(r.Client, server)
	if !legacy && c.opts.Callers != nil { // while the shared session is lost, clients that do not share it need theirs
		known, _ := c.tracker.Snapshot().Server(server)
		legacy = known.Info.Era == session.EraLegacy
	}
	if !legacy && !srv.Unshared() {
		return nil, nil
	}
	s := c.sessionOf(ctx, r, srv, legacy)
	if s == nil && srv.Unshared() {
		return nil, errNoSession
	}
	return s, nil
}

// sessionOf is like session. legacy means that the server supports, or may support, the legacy era.
func (c *clientSessions) sessionOf(ctx context.Context, r *mcpserver.Request, srv config.Server, legacy bool) *clientSession {
	c.mu.Lock()
	known := c.clients[r.Client]
	level := levelOf(r.Client)
	wanted := srv.Unshared() || c.opts.Callers != nil || string(declared(r.Client.Capabilities)) != "{}" || level != nil
	if !wanted || c.life.Err() != nil {
		c.mu.Unlock()
		return nil
	}
	if known == nil {
		known = c.add(r.Client)
	}
	s := c.current(known.byServer, srv, r.Principal, level, func() *clientSession {
		s := newClientSession(srv, declaredLegacy(r.Client.Capabilities), &legacyClient{client: r.Client})
		if legacy {
			s.era = session.EraLegacy
		}
		return s
	})
	c.mu.Unlock()
	if s == nil {
		return nil
	}
	ok := s.await(ctx)
	if isClosed(s.ready) && legacy {
		c.recordEra(known, s)
	}
	if !ok {
		return nil
	}
	return s
}

// has reports whether a client has a session of its own with a server, or one that is being opened.
func (c *clientSessions) has(client *mcpserver.Client, server string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.clients[client]
	if known == nil || known.byServer[server] == nil {
		return false
	}
	s := known.byServer[server]
	if !isClosed(s.ready) {
		return true
	}
	ok, _ := s.usable()
	return ok
}

// current returns the session with a server from a map, or nil if the session limit is reached. If
// the session is missing or outdated, a new one is opened, with level as the params of a
// logging/setLevel request; nil means that none is sent. c.mu must be held.
func (c *clientSessions) current(sessions map[string]*clientSession, srv config.Server, principal string, level map[string]json.RawMessage, create func() *clientSession) *clientSession {
	s := sessions[srv.ID]
	if s != nil && s.outdated(srv) {
		delete(sessions, srv.ID)
		c.end(s)
		s = nil
	}
	if s == nil && c.makeRoom(srv.ID, principal) {
		s = create()
		s.ids = c.taskIDs(principal, srv.ID)
		sessions[srv.ID] = s
		c.begin(s, level)
	}
	return s
}

// makeRoom reports whether a principal may open another session with a server. If not, it closes an
// idle or detached session of the same principal, so that a later attempt can succeed. c.mu must be
// held.
func (c *clientSessions) makeRoom(server, principal string) bool {
	of := c.perServer[server]
	full := of != nil && !of.Room(principal)
	if !full && c.total.Room(principal) {
		return true
	}
	for _, list := range []*[]*clientSession{&c.idle, &c.detached} {
		i := slices.IndexFunc(*list, func(s *clientSession) bool { return s.ids.principal == principal && (!full || s.srv.ID == server) })
		if i >= 0 {
			c.end((*list)[i])
			*list = slices.Delete(*list, i, i+1)
			break
		}
	}
	return false
}

// begin registers a new session, for which there must be room, and dials it in the background.
// level contains the params of a logging/setLevel request; nil means that none is sent. c.mu must
// be held.
func (c *clientSessions) begin(s *clientSession, level map[string]json.RawMessage) {
	of := c.perServer[s.srv.ID]
	if of == nil {
		of = &fair.Limit{Max: maxSessionsPerServer}
		c.perServer[s.srv.ID] = of
	}
	c.total.Take(s.ids.principal)
	of.Take(s.ids.principal)
	c.wg.Go(func() { c.dial(s, level) })
}

// dial connects a session to its server and declares the client's capabilities. level contains the
// params of the client's last logging/setLevel request; nil if there was none.
func (c *clientSessions) dial(s *clientSession, level map[string]json.RawMessage) {
	defer close(s.ready)
	ctx, cancel := context.WithTimeout(c.life, max(dialTimeout, s.srv.ConnectTimeout))
	defer cancel()
	opts := c.opts.Session
	opts.Logger = c.opts.Logger.With("server", c.alias().line(s.srv.ID))
	opts.Client = &session.ClientSide{Capabilities: s.capabilities, Asked: s.roots.begin, Request: s.request, Message: s.message}
	srv := s.srv
	if s.era != "" {
		srv.Protocol, opts.Era = config.Protocol(s.era), s.era
	}
	s.wg.Go(s.run)
	conn, err := c.opts.Dial(ctx, srv, opts)
	if s.wrongEra = errors.Is(err, session.ErrEra); s.wrongEra && srv.Unshared() {
		opts.Era = ""
		conn, err = c.opts.Dial(ctx, s.srv, opts)
	}
	s.tried = time.Now()
	if err != nil && s.wrongEra {
		return
	}
	if err != nil {
		c.opts.Logger.Warn("cannot open a separate session for a client; the client uses the shared session", "server", c.alias().line(s.srv.ID), "err", err)
		return
	}
	if level != nil {
		_, _ = conn.Do(ctx, session.Request{Method: mcp.MethodSetLevel, Params: level}) // an error means that the server does not support logging
	}
	if conn.Info().Era == session.EraLegacy && canAnswer(s.capabilities, mcp.MethodListRoots) {
		_, err := conn.Do(ctx, session.Request{Method: mcp.MethodPing})
		if _, answered := isRPC(err); err == nil || answered {
			s.roots.settle(ctx)
		}
	}
	s.conn = conn
}

// end closes a session in the background. The caller must already have removed it from all lists.
// The session counts towards the limits until its process has exited. c.mu must be held.
func (c *clientSessions) end(s *clientSession) {
	c.tasks.forget(s)
	c.wg.Go(func() {
		s.close()
		c.mu.Lock()
		defer c.mu.Unlock()
		of := c.perServer[s.srv.ID]
		c.total.Give(s.ids.principal)
		if of.Give(s.ids.principal); of.All() == 0 {
			delete(c.perServer, s.srv.ID)
		}
	})
}

// add registers a client until it disconnects. Then its sessions with running tasks are detached,
// and all others are closed. c.mu must be held.
func (c *clientSessions) add(of *mcpserver.Client) *connectedClient {
	known := &connectedClient{byServer: map[string]*clientSession{}}
	c.clients[of] = known
	c.wg.Go(func() {
		select {
		case <-of.Done():
		case <-c.life.Done():
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.clients, of)
		for _, s := range known.sessions() {
			if c.life.Err() == nil && c.tasks.unfinished(s) {
				s.setClient(nil, true)
				c.detached = append(c.detached, s)
			} else {
				c.end(s)
			}
		}
	})
	return known
}

// Own returns the processes of the gateway's own sessions, which the tracker does not have, by server id.
func (g *Gateway) Own() map[string][]int {
	c := &g.sessions
	c.mu.Lock()
	defer c.mu.Unlock()
	sessions := slices.Concat(c.detached, c.idle, slices.Collect(maps.Values(c.shared)))
	for _, k := range c.clients {
		sessions = append(sessions, k.sessions()...)
	}
	pids := map[string][]int{}
	for _, s := range sessions {
		if isClosed(s.ready) && s.conn != nil && s.conn.Err() == nil && s.conn.Info().PID > 0 {
			pids[s.srv.ID] = append(pids[s.srv.ID], s.conn.Info().PID)
		}
	}
	return pids
}

// takeOver transfers a detached session to the client that requests a task in it. From then on, the
// session belongs to this client.
func (c *clientSessions) takeOver(r *mcpserver.Request, s *clientSession) {
	if r.Client == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.detached, s)
	if i < 0 || c.life.Err() != nil {
		return
	}
	known := c.clients[r.Client]
	if known == nil {
		known = c.add(r.Client)
	}
	c.detached = slices.Delete(c.detached, i, i+1)
	if known.byServer[s.srv.ID] == nil {
		known.byServer[s.srv.ID] = s
	} else {
		known.adopted = append(known.adopted, s)
	}
	s.setClient(&legacyClient{client: r.Client}, false)
}

// reconcile closes the sessions with servers whose config has changed, and the detached and idle
// sessions that were disconnected or have expired.
func (c *clientSessions) reconcile(enabled []config.Server) {
	c.mu.Lock()
	defer c.mu.Unlock()
	stale := func(s *clientSession) bool { return !slices.ContainsFunc(enabled, s.srv.Equal) }
	for _, known := range c.clients {
		for id, s := range known.byServer {
			if stale(s) {
				delete(known.byServer, id)
				c.end(s)
			}
		}
		known.adopted = c.sweep(known.adopted, stale)
	}
	maps.DeleteFunc(c.failed, func(_ [2]string, at time.Time) bool { return time.Since(at) > redialDelay })
	maps.DeleteFunc(c.modernOnly, func(_ string, of modernOnly) bool { return !slices.ContainsFunc(enabled, of.entry.Equal) })
	maps.DeleteFunc(c.shared, func(_ string, s *clientSession) bool {
		over := stale(s) || isClosed(s.ready) && (s.conn == nil || s.conn.Err() != nil || s.using.Load() == 0 && s.unused() > maxDetached)
		if over {
			c.end(s)
		}
		return over
	})
	c.detached = c.sweep(c.detached, func(s *clientSession) bool { return stale(s) || s.conn.Err() != nil || s.unused() > maxDetached })
	c.idle = c.sweep(c.idle, func(s *clientSession) bool { return stale(s) || s.conn.Err() != nil || s.unused() > s.maxIdle() })
}

// sweep closes the sessions in a list for which over returns true, and returns the others. c.mu
// must be held.
func (c *clientSessions) sweep(list []*clientSession, over func(*clientSession) bool) []*clientSession {
	return slices.DeleteFunc(list, func(s *clientSession) bool {
		if over(s) {
			c.end(s)
			return true
		}
		return false
	})
}

// otherEra returns the era that a server supports in addition to the era in which it is connected,
// or "" if there is none. Modern servers do not always announce the legacy era, so it is assumed to
// be supported until an attempt fails.
func (c *clientSessions) otherEra(srv config.Server, info session.Info) session.Era {
	if info.Other != "" || info.Era != session.EraModern || srv.Protocol == config.ProtocolModern {
		return info.Other
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.modernOnly[srv.ID]
	if ok && known.entry.Equal(srv) && known.server == nameOf(info) {
		return ""
	}
	delete(c.modernOnly, srv.ID) // the entry refers to a different server
	return session.EraLegacy
}

// speaksLegacy reports whether a session with a server can use the legacy era.
func (c *clientSessions) speaksLegacy(st serverState, srv config.Server) bool {
	if st.asks {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known, refused := c.modernOnly[srv.ID]
	return st.other == session.EraLegacy && !(refused && known.entry.Equal(srv))
}

func nameOf(info session.Info) string { return info.ServerName + "\x00" + info.ServerVersion }

// recordEra records the outcome of dialling a client's session in the legacy era. If the server
// does not support that era, the session is discarded.
func (c *clientSessions) recordEra(of *connectedClient, s *clientSession) {
	if !s.wrongEra {
		return
	}
	st, _ := c.tracker.Snapshot().Server(s.srv.ID)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.modernOnly[s.srv.ID] = modernOnly{s.srv, nameOf(st.Info)}
	c.kick()
	if s.conn == nil && of.byServer[s.srv.ID] == s {
		delete(of.byServer, s.srv.ID)
		c.end(s)
	}
}

// sharedModern returns the session that modern clients share if the server's shared session is in
// the legacy era. It returns nil if the server supports only that era, or if no session can be
// opened.
func (c *clientSessions) sharedModern(ctx context.Context, st serverState, server string) *clientSession {
	if st.other != session.EraModern {
		return nil
	}
	srv, found := c.entry(server)
	if !found || srv.Unshared() {
		return nil
	}
	c.mu.Lock()
	if c.life.Err() != nil {
		c.mu.Unlock()
		return nil
	}
	s := c.current(c.shared, srv, "", nil, func() *clientSession {
		s := newClientSession(srv, nil, nil)
		s.era = session.EraModern
		return s
	})
	c.mu.Unlock()
	if s == nil || !s.await(ctx) {
		return nil
	}
	s.setClient(nil, false) // mark the session as in use
	return s
}

// acquire returns a pooled session with a server for one request from a modern client, or nil if
// none can be opened. The caller must release it. Modern clients have no sessions of their own, so
// one session with a server can serve all clients with the same credentials, capabilities and log
// level, one request after another. era is the era for a new session; if empty, the server's era is
// used.
func (c *clientSessions) acquire(ctx context.Context, r *mcpserver.Request, server string, capabilities json.RawMessage, era session.Era) *clientSession {
	var level map[string]json.RawMessage
	if l := logLevel(r); l != nil {
		level = map[string]json.RawMessage{"level": l}
	}
	key := string(encode([]any{server, r.Principal, capabilities, level}))
	failed := [2]string{r.Principal, server}
	c.mu.Lock()
	srv, found := c.entry(server)
	if !found || c.life.Err() != nil || time.Since(c.failed[failed]) < redialDelay {
		c.mu.Unlock()
		return nil
	}
	for i, s := range slices.Backward(c.idle) {
		if s.poolKey == key && s.srv.Equal(srv) && s.conn.Err() == nil {
			c.idle = slices.Delete(c.idle, i, i+1)
			c.wg.Add(1)
			c.mu.Unlock()
			return s
		}
	}
	if !c.makeRoom(server, r.Principal) {
		c.mu.Unlock()
		return nil
	}
	s := newClientSession(srv, capabilities, nil)
	s.era, s.poolKey, s.ids = era, key, c.taskIDs(r.Principal, server)
	c.wg.Add(1)
	c.begin(s, level)
	c.mu.Unlock()
	if s.await(ctx) {
		return s
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.wg.Done()
	c.end(s)
	if ctx.Err() == nil {
		c.failed[failed] = time.Now()
	}
	return nil
}

// release returns a session to the pool for the next request. A session that is not clean is closed
// instead: a server that is still processing a cancelled request could send its questions to the
// client of the next request.
func (c *clientSessions) release(s *clientSession, clean bool) {
	s.setClient(nil, false)
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.wg.Done()
	if c.life.Err() != nil || s.conn.Err() != nil || !clean {
		c.end(s)
		return
	}
	c.idle = append(c.idle, s)
}

// fromClient forwards a notification from a client to the servers that it concerns, in the sessions
// that belong to the client.
func (c *clientSessions) fromClient(of *mcpserver.Client, method string, params json.RawMessage) {
	switch method {
	case mcp.NotificationRootsChanged:
		c.forEach(of, func(ctx context.Context, s *clientSession) { _, _ = s.conn.Do(ctx, session.Request{Method: method}) })
	case mcp.NotificationTaskStatus:
		id := taskID(params)
		c.forEach(of, func(ctx context.Context, s *clientSession) {
			if client, _, _ := s.currentClient(); client != nil && id != "" {
				if client, ok := client.(*legacyClient); ok && client.knows(id) {
					_, _ = s.conn.Do(ctx, session.Request{Method: method, Params: fields(params)})
				}
			}
		})
	}
}

// forEach calls f for each usable session that belongs to a client, in the background.
func (c *clientSessions) forEach(of *mcpserver.Client, f func(ctx context.Context, s *clientSession)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.clients[of]
	if known == nil || c.life.Err() != nil {
		return
	}
	for _, s := range known.sessions() {
		c.wg.Go(func() {
			if !s.await(c.life) { // dialling has a timeout
				return
			}
			ctx, cancel := context.WithTimeout(c.life, 10*time.Second)
			defer cancel()
			f(ctx, s)
		})
	}
}

// setLevel handles logging/setLevel requests. It sets the log level in the client's own sessions
// with servers. Unless clients share sessions (see Callers), requests use such sessions after that.
func (c *clientSessions) setLevel(r *mcpserver.Request) (json.RawMessage, error) {
	params := fields(r.Params)
	if !isString(params["level"]) {
		return nil, &mcpserver.Error{Code: mcp.CodeInvalidParams, Message: `"level" must be a string`}
	}
	r.Client.Remember(encode(map[string]json.RawMessage{"level": params["level"]}))
	c.forEach(r.Client, func(ctx context.Context, s *clientSession) {
		// Concurrent calls must leave the most recent level set, so repeat until it is.
		for level := levelOf(r.Client); level != nil; {
			_, _ = s.conn.Do(ctx, session.Request{Method: mcp.MethodSetLevel, Params: level}) // an error means that the server does not support logging
			latest := levelOf(r.Client)
			if string(latest["level"]) == string(level["level"]) {
				return
			}
			level = latest
		}
	})
	return json.RawMessage("{}"), nil
}

// levelOf returns the params of a client's last logging/setLevel request, or nil if there was none.
func levelOf(of *mcpserver.Client) map[string]json.RawMessage {
	if level := of.Remembered(); level != nil {
		return fields(level)
	}
	return nil
}

// logLevel returns the level of the log messages that a modern client wants to receive during a
// request, or nil if it wants none.
func logLevel(r *mcpserver.Request) json.RawMessage {
	level := fields(fields(r.Params)["_meta"])[mcp.MetaLogLevel]
	if !r.Modern() || !isString(level) {
		return nil
	}
	return level
}
