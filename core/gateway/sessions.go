package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/internal/fair"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/session"
)

// Limits for sessions that the gateway opens. Each may require a server process. Package fair determines the
// share of each principal.
const (
	maxOwnSessions       = 256 // for all servers together
	maxSessionsPerServer = 64
	// maxIdle is how long a session is kept for the next request of a modern client that needs it for itself.
	// maxUnused is the same for a session in which the server keeps state, such as tasks whose client has left,
	// and for one that all modern clients use.
	maxIdle     = time.Minute
	maxUnused   = 15 * time.Minute
	redialDelay = 30 * time.Second // delay before another attempt to open a session that failed
	dialTimeout = 15 * time.Second // timeout for opening a session, unless the server's ConnectTimeout is longer
)

var errNoSession = errors.New("cannot open a separate session for this client, and \"shared\": false in the config forbids using the shared one")

// ownSessions opens sessions with servers in addition to the tracker's, limits their number and closes them:
// one for each legacy client that cannot or must not share the tracker's, and for a modern client one at a
// time for a request during which a legacy server may ask.
//
// A server may support both protocol eras. Regardless of the era of the tracker's session, each client is
// served in its own era: clients of the other era use one session together, unless they have their own.
type ownSessions struct {
	*base
	tasks  *taskRegistry
	queues *queues

	mu        sync.Mutex
	total     fair.Limit             // counts all sessions, including sessions that are being closed
	perServer map[string]*fair.Limit // counts the sessions with each server, by id
	all       []*ownSession          // oldest first
}

// session returns the session with a server that belongs to the client that sent the request. It
// returns nil if the request must use another, because the client does not need a
// session of its own or because none can be opened. If the server must not be shared, the latter is
// an error. st is the state of the server for the request. apart is the result of
// Callers.apart.
func (c *ownSessions) session(ctx context.Context, st serverState, r *mcpserver.Request, server string, apart bool) (*ownSession, error) {
	srv, found := c.entry(server)
	if r.Client == nil || !found {
		return nil, nil
	}
	has, legacy := c.has(r.Client, server), st.asks || st.other == session.EraLegacy
	if !has && !srv.Unshared() {
		if c.opts.Callers == nil {
			apart = legacy && (r.Client.Remembered() != nil || string(declared(r.Client.Capabilities)) != "{}")
		} else if apart && !legacy { // while the tracker's session is lost, clients that do not share it need theirs
			known, _ := c.tracker.Snapshot().Server(server)
			legacy = known.Info.Era == session.EraLegacy
		}
		if !apart || !legacy {
			return nil, nil
		}
	}
	era := session.Era("")
	if has || legacy {
		era = session.EraLegacy
	}
	s := c.get(sessionUse{server: server, client: r.Client}, srv, r.Principal, func() json.RawMessage { return declared(r.Client.Capabilities) }, era)
	if s != nil && s.await(ctx) {
		return s, nil
	}
	if srv.Unshared() {
		return nil, errNoSession
	}
	return nil, nil
}

// find returns the session for a use that is not busy, or nil. c.mu must be held.
func (c *ownSessions) find(use sessionUse) *ownSession {
	for _, s := range slices.Backward(c.all) {
		if s.use == use && !s.busy {
			return s
		}
	}
	return nil
}

// has reports whether a client has a session of its own with a server, or one that is being opened.
func (c *ownSessions) has(client *mcpserver.Client, server string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.find(sessionUse{server: server, client: client})
	return s != nil && (!isClosed(s.ready) || s.usable())
}

// get returns the session for a use. If it is missing or outdated, get opens one for a principal in the
// background, with the client capabilities that capabilities returns. It returns nil if there is no room for one.
// A session for one request at a time must be released.
func (c *ownSessions) get(use sessionUse, srv config.Server, principal string, capabilities func() json.RawMessage, era session.Era) *ownSession {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.find(use)
	if s != nil && s.outdated(c.enabled.Load()) {
		c.drop(s)
		s = nil
	}
	if s == nil {
		if !c.makeRoom(srv.ID, principal) {
			return nil
		}
		s = &ownSession{srv: srv, use: use, client: use.client, shared: use.era != "", capabilities: capabilities(), ids: c.taskIDs(principal, srv.ID), era: era,
			queues: c.queues, level: newToldLevel(), ready: make(chan struct{}), began: time.Now()}
		s.life, s.end = context.WithCancel(c.life)
		if !c.run(func(context.Context) { c.live(s) }) {
			s.end()
			return nil
		}
		of := c.perServer[srv.ID]
		if of == nil {
			of = &fair.Limit{Max: maxSessionsPerServer}
			c.perServer[srv.ID] = of
		}
		c.total.Take(principal)
		of.Take(principal)
		c.all = append(c.all, s)
	}
	s.busy = use.request != ""
	return s
}

// makeRoom reports whether a principal may open another session with a server. If not, it closes one of the
// same principal that no client waits for, so that a later attempt can succeed. c.mu must be held.
func (c *ownSessions) makeRoom(server, principal string) bool {
	of := c.perServer[server]
	full := of != nil && !of.Room(principal)
	if !full && c.total.Room(principal) {
		return true
	}
	for _, left := range []bool{false, true} { // first those without tasks
		i := slices.IndexFunc(c.all, func(s *ownSession) bool {
			spare := s.use == sessionUse{} && left || s.use.request != "" && !s.busy && !left
			return spare && s.ids.principal == principal && (!full || s.srv.ID == server)
		})
		if i >= 0 {
			c.drop(c.all[i])
			break
		}
	}
	return false
}

// live dials a session, and closes it once it has ended or its client has left. The session counts towards
// the limits until its process has exited.
func (c *ownSessions) live(s *ownSession) {
	c.dial(s)
	close(s.ready)
	var left <-chan struct{}
	if s.client != nil {
		left = s.client.Done()
	}
	select {
	case <-left:
		c.leave(s)
	case <-s.life.Done():
	}
	<-s.life.Done()
	if s.conn != nil {
		_ = s.conn.Close()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.perServer[s.srv.ID]
	c.total.Give(s.ids.principal)
	if of.Give(s.ids.principal); of.All() == 0 {
		delete(c.perServer, s.srv.ID)
	}
}

// dial connects a session to its server and declares the client's capabilities.
func (c *ownSessions) dial(s *ownSession) {
	ctx, cancel := context.WithTimeout(s.life, max(dialTimeout, s.srv.ConnectTimeout))
	defer cancel()
	opts := c.opts.Session
	opts.Logger = c.opts.Logger.With("server", c.alias().line(s.srv.ID))
	opts.Client = &session.ClientSide{Capabilities: s.capabilities, Asked: s.roots.begin, Request: s.request, Message: s.message}
	srv := s.srv
	if s.era != "" {
		srv.Protocol, opts.Era = config.Protocol(s.era), s.era
	}
	conn, err := c.opts.Dial(ctx, srv, opts)
	s.tried = time.Now()
	if err != nil {
		if s.life.Err() == nil {
			c.opts.Logger.Warn("cannot open a separate session for a client; the client uses the shared session", "server", c.alias().line(s.srv.ID), "err", err)
		}
		return
	}
	if conn.Info().Era == session.EraLegacy && canAnswer(s.capabilities, mcp.MethodListRoots) {
		_, err := conn.Do(ctx, session.Request{Method: mcp.MethodPing})
		if _, answered := isRPC(err); err == nil || answered {
			s.roots.settle(ctx)
		}
	}
	s.conn = conn
}

// drop ends a session, unless it has ended. c.mu must be held.
func (c *ownSessions) drop(s *ownSession) {
	c.all = slices.DeleteFunc(c.all, func(o *ownSession) bool { return o == s })
	c.tasks.forget(s)
	s.end()
}

// leave is called when the client of a session has disconnected. It ends the session, unless tasks run in it.
func (c *ownSessions) leave(s *ownSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.tasks.unfinished(s) {
		c.drop(s)
		return
	}
	s.use = sessionUse{}
}

// Own returns the processes of the gateway's own sessions, which the tracker does not have, by server id.
func (g *Gateway) Own() map[string][]int {
	c := &g.sessions
	c.mu.Lock()
	defer c.mu.Unlock()
	pids := map[string][]int{}
	for _, s := range c.all {
		if isClosed(s.ready) && s.usable() && s.conn.Info().PID > 0 {
			pids[s.srv.ID] = append(pids[s.srv.ID], s.conn.Info().PID)
		}
	}
	return pids
}

// reconcile ends the sessions with servers whose config has changed, and those that were disconnected or
// that no client has used for a while.
func (c *ownSessions) reconcile() {
	c.mu.Lock()
	defer c.mu.Unlock()
	enabled := c.enabled.Load()
	for _, s := range slices.Clone(c.all) {
		idle := maxUnused
		if s.use.request != "" && !s.srv.Unshared() {
			idle = maxIdle
		}
		if !s.isIn(enabled) || s.outdated(enabled) || isClosed(s.ready) && s.use.client == nil && !s.busy && s.unused() > idle {
			c.drop(s)
		}
	}
}

// together returns the session with a server that all clients of an era use, if the tracker's is in the other era.
// It returns nil if the server is not known to support the clients' era, or if no session can be opened. Legacy
// clients, which are sent the input requests of a modern session, get no second process.
func (c *ownSessions) together(ctx context.Context, st serverState, server string, era session.Era) *ownSession {
	if st.other != era {
		return nil
	}
	srv, found := c.entry(server)
	if !found || srv.Unshared() {
		return nil
	}
	declares := json.RawMessage(nil)
	if era == session.EraLegacy {
		if srv.Transport == config.TransportStdio {
			return nil
		}
		if declares = json.RawMessage(`{}`); c.opts.Callers != nil {
			declares = declared(json.RawMessage(relayed), mcp.MethodListRoots) // which are of one client
		}
	}
	s := c.get(sessionUse{server: server, era: era}, srv, "", func() json.RawMessage { return declares }, era)
	if s == nil || !s.await(ctx) {
		return nil
	}
	return s
}

// acquire returns a session with a server for one request from a modern client, or nil if none can be opened.
// The caller must release it. Modern clients have no connections, so one session with a server can serve all
// clients with the same credentials, capabilities and log level, one request after another. era is the era
// for a new session; if empty, the server's era is used.
func (c *ownSessions) acquire(ctx context.Context, r *mcpserver.Request, server string, capabilities json.RawMessage, era session.Era) *ownSession {
	srv, found := c.entry(server)
	if !found {
		return nil
	}
	s := c.get(sessionUse{server: server, request: string(encode([]any{r.Principal, capabilities, logLevel(r)}))}, srv, r.Principal, func() json.RawMessage { return capabilities }, era)
	if s == nil {
		return nil
	}
	if !s.await(ctx) {
		c.release(s, true)
		return nil
	}
	return s
}

// release makes a session available for the next request. A session that is not clean is closed
// instead: a server that is still processing a cancelled request could send its questions to the
// client of the next request.
func (c *ownSessions) release(s *ownSession, clean bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.busy = false
	if !clean {
		c.drop(s)
	}
}

// rootsChanged tells the servers in a client's own sessions that its roots have changed.
func (c *ownSessions) rootsChanged(of *mcpserver.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.all {
		if s.use.client != of {
			continue
		}
		c.run(func(ending context.Context) {
			if s.await(ending) { // dialling has a timeout
				_, _ = s.conn.Do(ending, session.Request{Method: mcp.NotificationRootsChanged, Timeout: dialTimeout})
			}
		})
	}
}

// setLevel handles logging/setLevel requests. Servers are told the level before the client's next request.
func setLevel(r *mcpserver.Request) (json.RawMessage, error) {
	level := r.Members()["level"]
	if severity(level) < 0 {
		return nil, &mcpserver.Error{Code: mcp.CodeInvalidParams, Message: `"level" must be one of ` + severities}
	}
	r.Client.Remember(encode(map[string]json.RawMessage{"level": level}))
	return json.RawMessage("{}"), nil
}

// levelOf returns the level of a client's last logging/setLevel request, or nil if there was none.
func levelOf(of *mcpserver.Client) json.RawMessage { return fields(of.Remembered())["level"] }

// logLevel returns the level of the log messages that a modern client wants to receive during a
// request, or nil if it wants none.
func logLevel(r *mcpserver.Request) json.RawMessage {
	level := r.Meta(mcp.MetaLogLevel)
	if !r.Modern() || !isString(level) {
		return nil
	}
	return level
}
