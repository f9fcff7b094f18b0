package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/tracker"
)

const (
	// maxRoots is the maximum size of a client's roots.
	maxRoots = 64 << 10
	// maxLevelWait limits how long a server takes to set its log level.
	maxLevelWait = 10 * time.Second
	// severities are the log levels of MCP, the most verbose first.
	severities = "debug info notice warning error critical alert emergency"
)

// relayed is what the sessions that clients share declare: all that a client can be asked for.
const relayed = `{"elicitation":{"form":{},"url":{}},"roots":{"listChanged":true},"sampling":{"tools":{}}}`

// Callers lets all clients of the gateways of one tracker share its sessions with servers, whatever the
// clients declare. The gateways use it together.
//
// What a server asks is asked of the client whose requests are in progress in the session, or of the
// only client that is connected if there are none. If it is not clear which client is meant, or that one
// cannot be asked, the server receives an error. A request that was cancelled counts for 20 s more. A
// server that asks while requests of several clients are in progress is used by one client from then
// on: clients that have used it continue, and new ones have sessions of their own.
//
// A server that asks for roots is told the folder in which all its clients work, if exactly this is the
// root of the clients that use the session; the first of them decides. Clients with other roots, or with none
// while the server is told the folder, have sessions of their own with such a server.
//
// The server is told the most verbose log level that a client has set, before a request of that client. While only
// one client has requests in progress, it receives the messages from its own level on, or all if it has set
// none.
//
// Its methods are safe for concurrent use.
type Callers struct {
	mu      sync.Mutex
	oneEach func(server string)      // see Serve
	servers map[string]*sharedServer // by id in the tracker
	clients map[*mcpserver.Client]*caller
}

// Shared describes a server whose session clients share.
type Shared struct {
	// Folder is the folder in which all its clients work, or "" if they work in several: then it is told
	// no roots.
	Folder string
	// Alone means that only one client uses the server, which is asked for its roots as for anything else.
	Alone bool
	// OneEach means that a second client has a session of its own.
	OneEach bool
}

// sharedServer is a server whose session its clients share. Callers.mu guards it.
type sharedServer struct {
	Shared
	requests requests
	users    map[*mcpserver.Client]bool // clients that have used the session
	asked    *rootsAnswers              // of the present session
	told     bool                       // the present session was told the folder, or to ask again
	none     bool                       // a client without roots uses the present session, which is told none
	level    toldLevel                  // of the present session
}

// caller is a connected legacy client. It is replaced when the client's roots have changed.
type caller struct {
	base    *base           // of its gateway
	roots   json.RawMessage // nil if the client has not answered
	refused error           // why it has not, if it was asked
}

// NewCallers returns a Callers without servers.
func NewCallers() *Callers {
	return &Callers{oneEach: func(string) {}, servers: map[string]*sharedServer{}, clients: map[*mcpserver.Client]*caller{}}
}

// Serve sets the servers that clients share, by their ids in the tracker. oneEach is called when a
// server turns out to need a session for each client. It may be called for several servers at a time,
// and delays the error that the server receives.
func (c *Callers) Serve(servers map[string]Shared, oneEach func(server string)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.oneEach = oneEach
	for id := range c.servers {
		if _, still := servers[id]; !still {
			delete(c.servers, id)
		}
	}
	for id, shared := range servers {
		s := c.servers[id]
		if s == nil {
			s = &sharedServer{users: map[*mcpserver.Client]bool{}, asked: &rootsAnswers{}, level: newToldLevel()}
			c.servers[id] = s
		}
		shared.OneEach = shared.OneEach || s.OneEach
		s.Shared = shared
	}
}

// ClientSide returns the client on whose behalf the tracker opens a session with a server; see
// tracker.Options.ClientSide. It returns nil if clients do not share the session.
func (c *Callers) ClientSide(server string) *session.ClientSide {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.servers[server]
	if s == nil {
		return nil
	}
	s.told, s.none, s.asked, s.level = false, false, &rootsAnswers{}, newToldLevel() // this session has not asked yet
	s.requests.forgetLate()
	asked := s.asked
	return &session.ClientSide{Capabilities: json.RawMessage(relayed), Events: true, Asked: asked.begin,
		Request: func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
			defer asked.end(method)
			return c.request(ctx, server, method, params)
		}}
}

// join registers a client of a gateway until leave is called.
func (c *Callers) join(client *mcpserver.Client, of *base) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clients[client] = &caller{base: of}
}

func (c *Callers) leave(client *mcpserver.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.clients, client)
	for _, s := range c.servers {
		if delete(s.users, client); len(s.users) == 0 {
			s.none = false
		}
	}
}

// rootsChanged is called when a client has announced that its roots have changed. It returns the ids of
// the servers to tell.
func (c *Callers) rootsChanged(client *mcpserver.Client) (tell []string) {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.clients[client]; k != nil {
		c.clients[client] = &caller{base: k.base}
	}
	for id, s := range c.servers {
		if s.Alone && s.users[client] {
			tell = append(tell, id)
		}
	}
	return tell
}

var errOtherRoots = errors.New("cannot open a separate session for this client, and its roots are not the folder that the server was told")

// apart reports whether the client of a request needs a session of its own with a server, which is
// connected. If it must not use the shared session in any case, err says why.
func (c *Callers) apart(ctx context.Context, server string, r *mcpserver.Request) (apart bool, err error) {
	if c == nil || r.Client == nil {
		return false, nil
	}
	c.mu.Lock()
	s, k := c.servers[server], c.clients[r.Client]
	if s == nil || k == nil {
		c.mu.Unlock()
		return false, nil
	}
	if s.OneEach && len(s.users) > 0 && !s.users[r.Client] {
		c.mu.Unlock()
		return true, nil
	}
	s.users[r.Client] = true
	folder, asked := s.Folder, s.asked
	if s.Alone {
		folder = "" // it is told the roots of its client
	}
	c.mu.Unlock()
	if folder == "" {
		return false, nil
	}
	if asked.settle(ctx); !asked.any() {
		return false, nil
	}
	own := false // the folder is the client's only root
	if canAnswer(r.Client.Capabilities, mcp.MethodListRoots) {
		roots, err := c.rootsOf(ctx, r.Client, r)
		own = err == nil && isOnly(roots, folder)
		if err == nil && !own && string(roots) != "[]" {
			return true, c.without(s, r.Client, errOtherRoots)
		}
	}
	c.mu.Lock()
	told := s.told
	if told != own && (told || s.none) {
		c.mu.Unlock()
		return true, c.without(s, r.Client, nil)
	}
	s.told, s.none = own, !own
	c.mu.Unlock()
	if own && !told { // it asked when no client had the folder as its root
		asked.again()
		_, _ = k.base.tracker.Do(ctx, server, session.Request{Method: mcp.NotificationRootsChanged})
		_, _ = k.base.tracker.Do(ctx, server, session.Request{Method: mcp.MethodPing}) // if the session has ended, the next one asks
		asked.settle(ctx)
	}
	return false, nil
}

// without returns err after it has noted that a client does not use the session with a server.
func (c *Callers) without(s *sharedServer, client *mcpserver.Client, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(s.users, client)
	return err
}

// tellLevel tells a legacy server the log level that a client wants, unless the session was told this level or a
// more verbose one.
func (c *Callers) tellLevel(ctx context.Context, server string, client *mcpserver.Client, of *tracker.Tracker) {
	if c == nil || client == nil {
		return
	}
	c.mu.Lock()
	s := c.servers[server]
	if s == nil {
		c.mu.Unlock()
		return
	}
	told := s.level
	c.mu.Unlock()
	told.tell(ctx, levelOf(client), true, func(q session.Request) error {
		_, err := of.Do(ctx, server, q)
		return err
	})
}

// toldLevel contains the log level that a session with a legacy server was told last, or nil, while no level is being
// told. It has capacity 1 and is never closed.
type toldLevel chan json.RawMessage

func newToldLevel() toldLevel {
	t := make(toldLevel, 1)
	t <- nil
	return t
}

// tell tells the server a level with do, unless it is nil or the server was told it, or a more verbose one if clients
// share the session. One level is told after the other, because the last one applies.
func (t toldLevel) tell(ctx context.Context, level json.RawMessage, shared bool, do func(session.Request) error) {
	if level == nil {
		return
	}
	var told json.RawMessage
	select {
	case told = <-t:
	case <-ctx.Done():
		return
	}
	if !bytes.Equal(told, level) && !(shared && covers(told, level)) {
		err := do(session.Request{Method: mcp.MethodSetLevel, Params: map[string]json.RawMessage{"level": level}, Timeout: maxLevelWait})
		if ctx.Err() == nil && !errors.Is(err, tracker.ErrNotConnected) { // another error means that the server does not support logging
			told = level
		}
	}
	t <- told
}

// severity returns the position of a log level in severities, or -1 if it is none.
func severity(level json.RawMessage) int {
	if !isString(level) {
		return -1
	}
	var name string
	_ = json.Unmarshal(level, &name)
	return slices.Index(strings.Fields(severities), name)
}

// covers reports whether a log level that a server was told is as verbose as another. It is nil if there was none.
func covers(told, level json.RawMessage) bool {
	return told != nil && severity(told) <= severity(level)
}

// hears reports whether a legacy client wants a log message. It gets those without a valid level.
func hears(client *mcpserver.Client, message json.RawMessage) bool {
	of := severity(fields(message)["level"])
	return of < 0 || of >= severity(levelOf(client))
}

// takes reports whether a modern client with these capabilities can use the session with a server and be
// asked there: not for roots, which belong to a connection.
func (c *Callers) takes(server string, capabilities json.RawMessage) bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.servers[server]
	return s != nil && !s.OneEach && !(s.asked.any() && canAnswer(capabilities, mcp.MethodListRoots))
}

// begin registers a request in the session that clients share. end must be called when it has ended.
// If ctx has ended by then, the server may not have answered. round is set if a modern client can be asked.
func (c *Callers) begin(ctx context.Context, server string, r *mcpserver.Request, round *inputRound) (end func()) {
	if c == nil {
		return func() {}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.servers[server]
	if s == nil {
		return func() {}
	}
	return s.requests.begin(&inFlight{client: r.Client, via: r, round: round, ctx: ctx})
}

func (c *Callers) request(ctx context.Context, server, method string, params json.RawMessage) (json.RawMessage, error) {
	c.mu.Lock()
	s := c.servers[server]
	folder := method == mcp.MethodListRoots && s != nil && !s.Alone
	c.mu.Unlock()
	if folder {
		return c.folder(ctx, server)
	}
	f, err := c.asked(server)
	if err != nil {
		return nil, err
	}
	return f.ask(ctx, method, params)
}

// asked returns the request because of which a server asks, or why that is not clear.
func (c *Callers) asked(server string) (*inFlight, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.servers[server]
	if s == nil {
		return nil, &session.RPCError{Code: mcp.CodeMethodNotFound, Message: "method not found"}
	}
	f, err := s.requests.asked()
	if connected := c.connected(server); errors.Is(err, errNobody) && len(connected) == 1 {
		return &inFlight{client: connected[0]}, nil
	}
	if first, oneEach := !s.OneEach, c.oneEach; errors.Is(err, errSeveral) && first {
		s.OneEach = true
		c.mu.Unlock()
		oneEach(server)
		c.mu.Lock()
	}
	return f, err
}

// connected returns the clients that have a server. c.mu must be held.
func (c *Callers) connected(server string) (clients []*mcpserver.Client) {
	for client, k := range c.clients {
		if _, has := k.base.entry(server); has {
			clients = append(clients, client)
		}
	}
	return clients
}

// folder answers a server that asks for roots: with the folder of its clients, if it is the only root of
// one of them, and no client without roots uses the session.
func (c *Callers) folder(ctx context.Context, server string) (json.RawMessage, error) {
	c.mu.Lock()
	s := c.servers[server]
	if s == nil || s.none || s.Folder == "" {
		c.mu.Unlock()
		return nil, errOtherFolder
	}
	folder, clients := s.Folder, c.connected(server)
	c.mu.Unlock()
	for _, client := range clients {
		if !canAnswer(client.Capabilities, mcp.MethodListRoots) {
			continue
		}
		if roots, err := c.rootsOf(ctx, client, nil); err == nil && isOnly(roots, folder) {
			c.mu.Lock()
			defer c.mu.Unlock()
			s.told = true
			return encode(map[string]json.RawMessage{"roots": roots}), nil
		}
	}
	return nil, errOtherFolder
}

var errOtherFolder error = &session.RPCError{Code: mcp.CodeInternal, Message: "no client of this session has the folder that they share as its root"}

// isOnly reports whether a client's roots are one folder and nothing else.
func isOnly(roots json.RawMessage, folder string) bool {
	var list []struct{ URI string }
	if json.Unmarshal(roots, &list) != nil || len(list) != 1 {
		return false
	}
	u, err := url.Parse(list[0].URI)
	if err != nil || u.Scheme != "file" || u.Host != "" && u.Host != "localhost" {
		return false
	}
	path := filepath.FromSlash(u.Path)
	if runtime.GOOS == "windows" {
		path = strings.TrimPrefix(path, `\`)
	}
	a, err := os.Stat(path)
	b, other := os.Stat(folder)
	return err == nil && other == nil && os.SameFile(a, b)
}

// rootsOf returns the roots of a client, which is asked for them once, and again after a change.
func (c *Callers) rootsOf(ctx context.Context, client *mcpserver.Client, via *mcpserver.Request) (json.RawMessage, error) {
	c.mu.Lock()
	k := c.clients[client]
	if k == nil {
		c.mu.Unlock()
		return nil, mcpserver.ErrUnreachable
	}
	roots, refused := k.roots, k.refused
	c.mu.Unlock()
	if roots != nil || refused != nil {
		return roots, refused
	}
	limited, cancel := context.WithTimeout(ctx, maxRootsWait)
	defer cancel()
	raw, err := askLegacy(limited, client, via, mcp.MethodListRoots, nil)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if roots = fields(raw)["roots"]; err == nil && (len(roots) == 0 || len(roots) > maxRoots) {
		err = errors.New("the client's answer contains no roots, or too many")
	}
	if err == nil {
		roots = encode(roots)
	} else {
		roots = nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.roots == nil { // a later question may have been answered earlier
		k.roots, k.refused = roots, err
	}
	return roots, err
}

// recipients returns the clients of a gateway that a notification from a server is for. A log message is
// for the client whose requests are in progress, if it is the only one and wants the message. The end of an
// elicitation is for the client that knows its id, which is sent to all.
func (c *Callers) recipients(server, method string, params json.RawMessage, of *base) (clients []*mcpserver.Client) {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.servers[server]
	if s == nil {
		return nil
	}
	if method == mcp.NotificationMessage {
		if f, err := s.requests.asked(); err == nil {
			clients = append(clients, f.client)
		}
	} else {
		clients = c.connected(server)
	}
	return slices.DeleteFunc(clients, func(client *mcpserver.Client) bool {
		k := c.clients[client]
		return k == nil || k.base != of || method == mcp.NotificationMessage && !hears(client, params)
	})
}
